"""What the clients of providers' SDKs share. May know: SDKs by their manners. Decides: which of their errors may pass.

The SDKs of OpenAI and Anthropic come from one workshop: the same names for errors, the same streams. They are used for what they do
well (connections, keys, headers); what is sent and what is read is the wires' business, and retries are the driver's.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from importlib import import_module
from math import isfinite
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from legato.core.facts import Refusal, Usage, Words
from legato.core.model_reply import Reply
from legato.errors import BadInput, ModelFailed, install_hint
from legato.http_logs import mask_logged_urls
from legato.models.base import Emit, usage_of_stopped
from legato.models.masking import masked_errors, note_request
from legato.providers.formats.failures import refusal_of
from legato.providers.formats.loose import json_text, mapping, text
from legato.providers.formats.sse import EventReader

JSON = {"Content-Type": "application/json"}

TIMEOUT_S = 600.0
"""Seconds that a request may take as a whole, unless the caller says otherwise: what the SDKs wait for an answer."""

MAX_REPLY_BYTES = 256 * 1024 * 1024
"""Bytes of an answer that is streamed. A fast one could fill the memory before `timeout` ends it."""

MAX_CHUNK_BYTES = 65_536
"""Bytes of an answer that are read before other tasks have a turn."""

STREAM_END_SECONDS = 0.1
"""How long the end of a stream is waited for once the reply is complete. Most providers send it with the last event, and a connection
whose answer was read to its end can be used again; any other is closed."""

LONGEST = 300
"""How much of an error that is no proper one is told, in characters."""

T = TypeVar("T")


def needs(sdk: str) -> BadInput:
    """An SDK is not installed."""
    return BadInput(f"this model needs the package {sdk!r}", do=install_hint(sdk))


def import_sdk(name: str) -> Any:
    """Import an SDK; `BadInput` says what to do where it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise needs(name) from None


WITHOUT_A_KEY = "to try it without, let the emulator stand in: `legato chat` does by itself, a program within legato.emulator.stand_in()"


def no_key(variable: str) -> str:
    """What to do where there is no key."""
    return f"set {variable}, or pass api_key=...; {WITHOUT_A_KEY}"


def make_openai(given: Mapping[str, Any], timeout: float) -> Any:
    """A client of OpenAI's SDK."""
    openai = import_sdk("openai")
    try:
        return openai.AsyncOpenAI(max_retries=0, timeout=timeout, **given)
    except openai.OpenAIError as error:
        raise BadInput(f"OpenAI's client cannot be made: {error}", do=no_key("OPENAI_API_KEY")) from None


class SharedClient:
    """An SDK's client and its connections, for all models of one event loop that are configured alike.

    The last of these models that is closed closes it. If some are never closed, the end of the loop does: so a program that makes a model
    per request keeps one client, not one per request. Nothing is left to the garbage collector, which knows no order and may come late.
    """

    def __init__(self, client: Any, key: tuple[object, ...], configuration: object) -> None:
        self.client = client
        self.models = 0
        self._key = key
        self._configuration = configuration  # kept, because the key has the ids of objects in it
        self._end = self._close_at_the_end()
        with suppress(StopIteration):
            self._end.__anext__().send(None)  # up to its yield, which awaits nothing: from there on the loop knows it

    async def _close_at_the_end(self) -> AsyncGenerator[None, None]:
        """A generator that the running loop closes when it ends: a loop tells nothing else of its end."""
        try:
            yield
        finally:
            _shared.pop(self._key, None)
            await self.client.close()

    async def release(self) -> None:
        """Close the client if no other model uses it."""
        self.models -= 1
        if not self.models:
            await self._end.aclose()


_shared: dict[tuple[object, ...], SharedClient] = {}
"""The open clients. Those of a loop that was closed without `shutdown_asyncgens()` stay: they cannot be closed any more."""


class Clients:
    """A model's client in each event loop: connections belong to the loop that opened them.

    `make` makes one from the options and the seconds that a request may take; it may read the environment. `given` is a client that the
    caller made: it is used everywhere, and it is the caller's to close. `timeout_s` bounds a request as a whole; None: not at all.
    """

    def __init__(
        self, make: Callable[[Mapping[str, Any], float], Any], options: Mapping[str, Any], given: Any = None, timeout: float | None = None
    ) -> None:
        mask_logged_urls()
        self._make = make
        self._options = {name: value for name, value in options.items() if value}
        self._given = given
        self.timeout_s: float | None
        if timeout is not None:
            self.timeout_s = timeout
        else:
            self.timeout_s = TIMEOUT_S if given is None else _read_timeout_s(given)
        self._used: dict[asyncio.AbstractEventLoop, SharedClient] = {}

    def __call__(self) -> Any:
        """The client of the running loop."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._used:
            for other in list(self._used):
                if other.is_closed():
                    self._used.pop(other, None)
            self._used[loop] = self._share(loop)
        return self._used[loop].client

    def _share(self, loop: asyncio.AbstractEventLoop) -> SharedClient:
        """The client of the models that are configured like this one, by their options and by the environment; made if there is none."""
        timeout = self.timeout_s or TIMEOUT_S
        options = frozenset((name, value if isinstance(value, str) else id(value)) for name, value in self._options.items())
        key = loop, self._make, timeout, options, frozenset(os.environ.items())
        if key not in _shared:
            _shared[key] = SharedClient(self._make(self._options, timeout), key, self._options)
        shared = _shared[key]
        shared.models += 1
        return shared

    async def close(self) -> None:
        """Let go of the running loop's client, which closes it if no other model uses it; the next request opens a new one."""
        shared = self._used.pop(asyncio.get_running_loop(), None)
        if shared is not None:
            await shared.release()


def _read_timeout_s(client: Any) -> float | None:
    """The seconds that a client waits for the next bytes of an answer; None if it waits for ever."""
    timeout = getattr(client, "timeout", None)
    seconds = getattr(timeout, "read", timeout)
    return seconds if isinstance(seconds, (int, float)) else None


_addresses: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def shown(url: str) -> str:
    """An address without what may be secret in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")).rstrip("/")


def configured_address(base_url: str | None, client: Any) -> str:
    """Where a model's requests go, as far as it was told: empty for where its SDK sends them by default."""
    return shown(str(base_url or getattr(client, "base_url", "")))


def address_of(client: Any) -> str:
    """Where a client sends its requests. The SDKs put it together anew whenever they are asked; it stays as it is."""
    found = _addresses.get(client)
    if found is None:
        found = _addresses[client] = shown(str(client.base_url))
    return found


@asynccontextmanager
async def bounded_request(timeout_s: float | None) -> AsyncIterator[None]:
    """Bound a request to a provider as a whole, and mask its credentials in errors.

    The SDKs bound the wait for the next bytes alone, and a provider may send comments and pings for ever.
    """
    bound = asyncio.timeout(timeout_s)
    try:
        async with bound:
            with masked_errors():
                yield
    except (TimeoutError, ModelFailed) as error:
        if not bound.expired():
            raise
        usage = error.usage if isinstance(error, ModelFailed) else usage_of_stopped(error)
        raise ModelFailed(f"no whole reply within {timeout_s:g} s", retryable=True, usage=usage, do="raise timeout=...") from None


async def failing(doing: Awaitable[T], sdk: Any) -> T:
    """The SDK's errors as failures of the model. `sdk` is the SDK's module."""
    try:
        return await doing
    except sdk.APIError as error:
        note_request(error)
        raise _failure(error, sdk) from error


def _failure(error: Any, sdk: Any) -> ModelFailed:
    if isinstance(error, sdk.APIStatusError):
        after = retry_after(error.response.headers)
        return refusal_of(error.status_code, _told(error), retry_after=after, request_id=error.request_id or "")
    if isinstance(error, sdk.APITimeoutError):
        return ModelFailed(f"no answer in time from {_asked(error)}", retryable=True)
    if isinstance(error, sdk.APIConnectionError):
        cause = f"{type(error.__cause__).__name__}: {error.__cause__}" if error.__cause__ else str(error)
        reachable = type(error.__cause__).__name__ not in ("UnsupportedProtocol", "InvalidURL")
        return ModelFailed(f"{_asked(error)} could not be reached: {cause}", retryable=reachable)
    return ModelFailed(f"{type(error).__name__}: {error}")


def _asked(error: Any) -> str:
    """Where a request went that got no answer."""
    return shown(str(error.request.url)) if getattr(error, "request", None) is not None else "the provider"


def _told(error: Any) -> dict[str, Any]:
    """What an error answer says. One SDK unwraps it, the other does not; compatible servers write it as they like."""
    body = error.body
    inner = mapping(mapping(body).get("error")) or mapping(body)
    said = text(inner.get("message")) or text(body)[:LONGEST] or (json_text(body)[:LONGEST] if body else error.message)
    return {"error": {**inner, "message": said}}


def retry_after(headers: Any) -> float | None:
    """Seconds that the provider asks to wait: `retry-after-ms`, else `retry-after`, a number or a date. None if it says nothing usable."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            if isfinite(seconds := float(headers[name]) * unit):
                return max(0.0, seconds)
    with suppress(KeyError, ValueError, OverflowError):
        return max(0.0, _http_date(headers["retry-after"]) - _date_of(headers))
    return None


def _date_of(headers: Any) -> float:
    """When an answer was sent, by its sender's clock if it says so: then a clock that is wrong here makes no wait longer or shorter."""
    with suppress(KeyError, ValueError, OverflowError):
        return _http_date(headers["date"])
    return time.time()


def _http_date(text: str) -> float:
    """The seconds since the epoch that an HTTP date means, in any of its three forms (RFC 9110, section 5.6.7).

    >>> _http_date("Sun, 06 Nov 1994 08:49:37 GMT"), _http_date("Sun Nov  6 08:49:37 1994")
    (784111777.0, 784111777.0)
    """
    date = parsedate_to_datetime(text)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


async def events_of(stream: Any) -> AsyncGenerator[bytes, None]:
    """The data of a stream's events. A connection that breaks is a failure that may pass."""
    note_request(stream.response)
    events = EventReader()
    try:
        async for chunk in _bounded_chunks(stream):
            for event in events.feed(chunk):
                if len(event.data) > MAX_CHUNK_BYTES:  # putting it together took a while, and so does reading it
                    await asyncio.sleep(0)
                yield event.data
    except (ModelFailed, GeneratorExit, asyncio.CancelledError):
        raise
    except Exception as error:
        raise _broken(error) from error
    finally:
        await stream.response.aclose()


async def _bounded_chunks(stream: Any) -> AsyncIterator[bytes]:
    """The bytes of an answer in pieces, other tasks in between; `ModelFailed` if they are too many.

    A compressed answer comes in pieces of any size: 64 KB of gzip may be 64 MB of events.
    """
    count = 0
    async for chunk in stream.response.aiter_bytes():
        count += len(chunk)
        if count > MAX_REPLY_BYTES:
            raise ModelFailed(f"the reply is longer than {MAX_REPLY_BYTES:,} bytes")
        if len(chunk) <= MAX_CHUNK_BYTES:
            yield chunk
            continue
        for start in range(0, len(chunk), MAX_CHUNK_BYTES):
            yield chunk[start : start + MAX_CHUNK_BYTES]
            await asyncio.sleep(0)


class Reader(Protocol):
    """What puts a stream together again."""

    @property
    def usage(self) -> Usage:
        """What it has cost, as far as that has been told."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the last event of the reply has come, or an error in its place: what follows changes nothing but what it cost."""
        ...

    def take(self, data: bytes) -> None:
        """The next event's data."""
        ...


async def read_by(reader: Reader, stream: Any, whole: Callable[[], T]) -> T:
    """A stream as its reader has put it together. If it breaks, or tells of a failure, that failure says what it has cost.

    The reply ends at its last event, whether the server closes the stream or not.
    """
    try:
        async with aclosing(events_of(stream)) as events:
            number = 0
            async for data in events:
                number += 1
                try:
                    reader.take(data)
                except ModelFailed as failure:
                    failure.summary = f"event {number} of the stream: {failure.summary}"
                    raise
                if reader.complete:
                    break
            with suppress(TimeoutError, ModelFailed):  # nothing is missing, however the stream ends
                async with asyncio.timeout(STREAM_END_SECONDS):
                    async for data in events:
                        reader.take(data)
        return whole()
    except ModelFailed as failure:
        failure.usage = reader.usage if failure.usage is None else failure.usage
        raise
    except asyncio.CancelledError as stop:
        stop.usage = reader.usage  # type: ignore[attr-defined] # the driver records it: the provider charges for it
        raise


async def whole_of(stream: Any) -> bytes:
    """The body of an answer that was to be a stream and is none."""
    note_request(stream.response)
    try:
        body = b"".join([chunk async for chunk in _bounded_chunks(stream)])
    except ModelFailed:
        raise
    except Exception as error:
        raise _broken(error) from error
    finally:
        await stream.response.aclose()
    return body


def _broken(error: Exception) -> ModelFailed:
    return ModelFailed(f"the stream broke: {type(error).__name__}: {error}", retryable=True)


def tell_rest(reply: Reply, told: str, emit: Emit) -> Reply:
    """The words of a reply that a broken stream had not told yet, if what it told is how they begin; then the reply."""
    words = "".join(item.text for item in reply.items if isinstance(item, (Words, Refusal)))
    if words.startswith(told) and words != told:
        emit(words[len(told) :])
    return reply


def tell(reply: Reply, emit: Emit) -> Reply:
    """The words of a reply that came in one piece, for whoever listens; then the reply."""
    for item in reply.items:
        if isinstance(item, (Words, Refusal)):
            emit(item.text)
    return reply
