"""Masks credentials in the errors of providers: gateways repeat what they were sent.

A credential is recognised by its value: whatever a request carried in its headers and query, apart from a few well-known names. So keys,
tokens of credentials and secret headers of a caller's own client are all the same.
"""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, quote

from legato.errors import LegatoError, ModelFailed
from legato.http_logs import HARMLESS_PARAMETERS, MASK

HARMLESS_HEADERS = frozenset(
    ("accept", "accept-encoding", "accept-language", "anthropic-beta", "anthropic-version", "connection", "content-length", "content-type",
     "host", "openai-beta", "openai-organization", "openai-project", "transfer-encoding", "user-agent")
)  # fmt: skip
HARMLESS_HEADER_PREFIX = "x-stainless-"

MIN_SECRET_CHARS = 6
"""Shorter values are not masked: they are words such as `none` and `true`, and errors would become unreadable."""

PREFIX_CHARS = 8
"""Longer values are masked when only their beginning is found: a gateway may cut off what it repeats."""

LINE_BREAKS = r"(?:[\r\n]|\\{1,4}[rn]|%0[AD]){0,2}"
"""A regular expression for what may stand between two characters of a value: base64 is often broken into lines."""

MAX_ERROR_CHARS = 20_000
"""Longer errors are cut before they are masked. The ledger keeps 4,000 characters of them."""

_requests: ContextVar[list[Any] | None] = ContextVar("requests", default=None)


def note_request(source: Any) -> None:
    """Remember the requests behind a response or an SDK's error, redirected ones too, for the `masked_errors` that is in force."""
    noted = _requests.get()
    if noted is None:
        return
    response = getattr(source, "response", source)
    for each in (source, response, *(getattr(response, "history", None) or ())):
        with suppress(AttributeError, RuntimeError):  # httpx2 raises a RuntimeError where there is none
            noted.append(each.request)


@contextmanager
def masked_errors() -> Iterator[None]:
    """Mask the credentials of the requests that are noted within, in whatever error is raised within."""
    requests: list[Any] = []
    token = _requests.set(requests)
    try:
        yield
    except Exception as error:
        note_request(error)
        masks = Masks(value for request in requests for value in secrets_of(request))
        if isinstance(error, LegatoError):
            masks.apply(error)
            raise
        if masks.found_in_chain(error):
            raise ModelFailed(masks.mask(f"{type(error).__name__}: {error}")) from None
        raise
    finally:
        _requests.reset(token)


def secrets_of(request: Any) -> Iterator[str]:
    """Yield the values in a request's headers, query and URL that nobody else may see."""
    for name, value in request.headers.multi_items():
        name, value = name.lower(), value.strip()
        scheme, _, credentials = value.partition(" ")
        if name in HARMLESS_HEADERS or name.startswith(HARMLESS_HEADER_PREFIX):
            continue
        if "cookie" in name:
            yield from re.split(r"[\s;=]+", value)
        elif "authorization" in name:
            yield from re.split(r'[\s,;="]+', credentials or scheme)
        else:
            yield credentials if credentials and " " not in credentials else value
        if scheme.lower() == "basic":
            yield from _basic(credentials)
    query = request.url.query
    query = query.decode("ascii", "replace") if isinstance(query, bytes) else query
    for text in {query, query.replace("+", "%2B")}:  # gateways disagree whether a plus sign is a space
        for name, value in parse_qsl(text, keep_blank_values=True):
            if name.lower() not in HARMLESS_PARAMETERS:
                yield value or name
    yield request.url.username
    yield request.url.password


def _basic(credentials: str) -> Iterator[str]:
    """The user, the password and both, of an `Authorization: Basic` header."""
    with suppress(ValueError):
        both = urlsafe_b64decode(credentials.translate(str.maketrans("+/", "-_")) + "==").decode()
        yield both
        yield from both.partition(":")[::2]


class Masks:
    """Finds values in a text, plain, URL-encoded, escaped, and within base64, and puts `***` in their place.

    >>> Masks(["sk-0123456789"]).mask("no such key: sk-0123456789, c2stMDEyMzQ1Njc4OQ==, sk%2d0123456...")
    'no such key: ***, ***Q==, ***...'
    """

    def __init__(self, values: Iterable[str]) -> None:
        secrets = {value for value in values if len(value) >= MIN_SECRET_CHARS}
        self._forms = {form for value in secrets for form in (value, *_in_base64(value), *_in_base64(quote(value, safe="")))}
        heads = sorted({form[:PREFIX_CHARS] for form in self._forms}, key=len, reverse=True)
        self._heads = re.compile("|".join(LINE_BREAKS.join(map(_spellings, head)) for head in heads), re.IGNORECASE) if heads else None

    def mask(self, text: str) -> str:
        """The text without the values, cut if it is very long."""
        text = text[:MAX_ERROR_CHARS]
        masked, at = "", 0
        while self._heads is not None and (found := self._heads.search(text, at)):
            masked += text[at : found.start()] + MASK
            at = max(_end(text, found.start(), form) for form in self._forms)
        return masked + text[at:]

    def found_in_chain(self, error: BaseException | None) -> bool:
        """Whether an error repeats a value, or an error that led to it does."""
        seen: list[BaseException] = []
        while error is not None and error not in seen:
            text = str(error)
            if self._heads is not None and (len(text) > MAX_ERROR_CHARS or self._heads.search(text)):
                return True
            seen.append(error)
            error = error.__cause__ or error.__context__
        return False

    def apply(self, error: LegatoError) -> None:
        """Mask the values in every text of an error. Errors that led to it are dropped if they repeat one."""
        if self.found_in_chain(error.__cause__) or self.found_in_chain(error.__context__):
            error.__cause__ = error.__context__ = None
            error.__suppress_context__ = True
        error.args = tuple(self.mask(str(each)) for each in error.args)
        for name in ("summary", "expected", "found", "do", "reason"):
            if isinstance(text := getattr(error, name, None), str):
                setattr(error, name, self.mask(text))


def _in_base64(value: str) -> Iterator[str]:
    """What is in every base64 text that has the value somewhere: without the characters that depend on what stands beside it."""
    data = value.encode()
    for encode in (b64encode, urlsafe_b64encode):
        for offset, shared in ((0, 0), (1, 2), (2, 3)):
            encoded = encode(bytes(offset) + data).decode().rstrip("=")
            yield encoded[shared : len(encoded) - bool((offset + len(data)) % 3)]


@cache
def _spellings(char: str) -> str:
    """A regular expression for one character: as it is, URL-encoded, or escaped as in JSON, Python and HTML. Repetitions are bounded."""
    code = ord(char)
    hexadecimal = "".join(f"[{digit}{digit.upper()}]" for digit in f"{code:02x}")
    encoded = re.escape(quote(char, safe="")) if code > 127 else f"%(?:25){{0,3}}{hexadecimal}"
    escaped = rf"\\{{1,4}}(?:u0{{0,2}}|x){hexadecimal}"
    return rf"(?:\\{{0,4}}{re.escape(char)}|{encoded}|{escaped}|&#(?:[xX]0{{0,6}}{hexadecimal}|0{{0,6}}{code});)"


@cache
def _spelling(char: str) -> re.Pattern[str]:
    return re.compile(LINE_BREAKS + _spellings(char), re.IGNORECASE)


def _end(text: str, start: int, form: str) -> int:
    """Where a form that begins at `start` ends in the text, or ceases to agree with it."""
    at = start
    for char in form:
        if (found := _spelling(char).match(text, at)) is None:
            break
        at = found.end()
    return at
