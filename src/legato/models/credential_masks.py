"""Masking of credentials in providers' errors: gateways repeat what they were sent.

A credential is recognised by its value: every value in a request's headers and query is one, except under a few well-known names. So API
keys, tokens and the secret headers of a caller's own client are all masked.
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
"""Longer values are masked even if only their beginning is found: a gateway may cut off what it repeats."""

LINE_BREAKS = r"(?:[\r\n]|\\{1,4}[rn]|%0[AD]){0,2}"
"""A regular expression for what may stand between two characters of a value: base64 is often broken into lines."""

MAX_ERROR_CHARS = 20_000
"""Longer errors are cut before they are masked. The ledger keeps 4,000 characters of them."""

_requests: ContextVar[list[Any] | None] = ContextVar("requests", default=None)


def remember_request(source: Any) -> None:
    """Remember the requests of a response or an SDK's error, redirected ones too, for the enclosing `mask_errors`."""
    requests = _requests.get()
    if requests is None:
        return
    response = getattr(source, "response", source)
    for each in (source, response, *(getattr(response, "history", None) or ())):
        with suppress(AttributeError, RuntimeError):  # httpx2 raises a RuntimeError if there is no request
            requests.append(each.request)


@contextmanager
def mask_errors() -> Iterator[None]:
    """Mask the credentials of all requests remembered in this context, in any error raised in it."""
    requests: list[Any] = []
    token = _requests.set(requests)
    try:
        yield
    except Exception as error:
        remember_request(error)
        masks = CredentialMasks(value for request in requests for value in find_secrets(request))
        if isinstance(error, LegatoError):
            masks.mask_error(error)
            raise
        if masks.is_found_in_chain(error):
            raise ModelFailed(masks.mask(f"{type(error).__name__}: {error}")) from None
        raise
    finally:
        _requests.reset(token)


def find_secrets(request: Any) -> Iterator[str]:
    """Yield the secret values in a request's headers, query and URL."""
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
            yield from _find_basic_secrets(credentials)
    query = request.url.query
    query = query.decode("ascii", "replace") if isinstance(query, bytes) else query
    for text in {query, query.replace("+", "%2B")}:  # gateways disagree whether a plus sign is a space
        for name, value in parse_qsl(text, keep_blank_values=True):
            if name.lower() not in HARMLESS_PARAMETERS:
                yield value or name
    yield request.url.username
    yield request.url.password


def _find_basic_secrets(credentials: str) -> Iterator[str]:
    """Yield the user, the password and both together, of an `Authorization: Basic` header."""
    with suppress(ValueError):
        both = urlsafe_b64decode(credentials.translate(str.maketrans("+/", "-_")) + "==").decode()
        yield both
        yield from both.partition(":")[::2]


class CredentialMasks:
    """Replaces secret values by `***` in texts, whether they are plain, URL-encoded, escaped or within base64.

    >>> CredentialMasks(["sk-0123456789"]).mask("no such key: sk-0123456789, c2stMDEyMzQ1Njc4OQ==, sk%2d0123456...")
    'no such key: ***, ***Q==, ***...'
    """

    def __init__(self, values: Iterable[str]) -> None:
        secrets = {value for value in values if len(value) >= MIN_SECRET_CHARS}
        self._forms = {
            form for value in secrets for form in (value, *_list_base64_forms(value), *_list_base64_forms(quote(value, safe="")))
        }
        heads = sorted({form[:PREFIX_CHARS] for form in self._forms}, key=len, reverse=True)
        self._heads = (
            re.compile("|".join(LINE_BREAKS.join(map(_make_char_pattern, head)) for head in heads), re.IGNORECASE) if heads else None
        )

    def mask(self, text: str) -> str:
        """Return the text with the values masked, cut if it is very long."""
        text = text[:MAX_ERROR_CHARS]
        masked, at = "", 0
        while self._heads is not None and (match := self._heads.search(text, at)):
            masked += text[at : match.start()] + MASK
            at = max(_find_end(text, match.start(), form) for form in self._forms)
        return masked + text[at:]

    def is_found_in_chain(self, error: BaseException | None) -> bool:
        """Return True if an error, or an error that caused it, repeats a value."""
        visited: list[BaseException] = []
        while error is not None and error not in visited:
            text = str(error)
            if self._heads is not None and (len(text) > MAX_ERROR_CHARS or self._heads.search(text)):
                return True
            visited.append(error)
            error = error.__cause__ or error.__context__
        return False

    def mask_error(self, error: LegatoError) -> None:
        """Mask the values in every text of an error. Its causes are dropped if they repeat a value."""
        if self.is_found_in_chain(error.__cause__) or self.is_found_in_chain(error.__context__):
            error.__cause__ = error.__context__ = None
            error.__suppress_context__ = True
        error.args = tuple(self.mask(str(each)) for each in error.args)
        for name in ("summary", "expected", "found", "do", "reason"):
            if isinstance(text := getattr(error, name, None), str):
                setattr(error, name, self.mask(text))


def _list_base64_forms(value: str) -> Iterator[str]:
    """Yield the forms of a value in base64, without the characters that depend on the text around it."""
    data = value.encode()
    for encode in (b64encode, urlsafe_b64encode):
        for offset, shared in ((0, 0), (1, 2), (2, 3)):
            encoded = encode(bytes(offset) + data).decode().rstrip("=")
            yield encoded[shared : len(encoded) - bool((offset + len(data)) % 3)]


@cache
def _make_char_pattern(char: str) -> str:
    """Return a regular expression for one character: plain, URL-encoded, or escaped as in JSON, Python or HTML. Repetitions are limited."""
    code = ord(char)
    hexadecimal = "".join(f"[{digit}{digit.upper()}]" for digit in f"{code:02x}")
    encoded = re.escape(quote(char, safe="")) if code > 127 else f"%(?:25){{0,3}}{hexadecimal}"
    escaped = rf"\\{{1,4}}(?:u0{{0,2}}|x){hexadecimal}"
    return rf"(?:\\{{0,4}}{re.escape(char)}|{encoded}|{escaped}|&#(?:[xX]0{{0,6}}{hexadecimal}|0{{0,6}}{code});)"


@cache
def _compile_char_pattern(char: str) -> re.Pattern[str]:
    return re.compile(LINE_BREAKS + _make_char_pattern(char), re.IGNORECASE)


def _find_end(text: str, start: int, form: str) -> int:
    """Return the position at which a form that begins at `start` ends, or at which the text stops to match it."""
    at = start
    for char in form:
        if (match := _compile_char_pattern(char).match(text, at)) is None:
            break
        at = match.end()
    return at
