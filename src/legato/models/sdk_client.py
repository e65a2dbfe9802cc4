"""Use of the providers' SDKs: clients, errors, streams.

The SDKs of OpenAI and Anthropic come from one generator: they have the same error classes and streams. They are used for connections, keys
and headers. `legato.providers.formats` encodes and decodes, and the driver retries.
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

from legato.core.facts import OutputText, Refusal, Usage
from legato.core.model_reply import ModelReply
from legato.errors import BadInput, ModelFailed, install_hint
from legato.http_logs import mask_logged_urls
from legato.models.credential_masks import mask_errors, remember_request
from legato.models.model import Emit, get_cancelled_usage
from legato.providers.formats.lenient_json import as_object, as_text, to_json
from legato.providers.formats.provider_errors import translate_error
from legato.providers.formats.sse_decoder import SSEDecoder

JSON_HEADERS = {"Content-Type": "application/json"}

DEFAULT_TIMEOUT_S = 600.0
"""Seconds that a whole request may take by default: the time that the SDKs wait for an answer."""

MAX_REPLY_BYTES = 256 * 1024 * 1024
"""The limit of a streamed answer. A fast stream could fill the memory before `timeout` ends it."""

MAX_CHUNK_BYTES = 65_536
"""Bytes of an answer that are decoded before other tasks may run."""

STREAM_END_TIMEOUT_S = 0.1
"""Seconds to wait for the end of a stream after the reply is complete. Most providers send the end with the last event, and a connection
whose answer was read to its end can be used again; any other is closed."""

MAX_RAW_ERROR_CHARS = 300
"""The characters of an error body that are reported if the body has no error message."""

T = TypeVar("T")


def make_missing_sdk_error(sdk: str) -> BadInput:
    """Return the error for an SDK that is not installed."""
    return BadInput(f"this model needs the package {sdk!r}", do=install_hint(sdk))


def import_sdk(name: str) -> Any:
    """Import an SDK; `BadInput` says what to do if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise make_missing_sdk_error(name) from None


EMULATOR_HINT = "to try it without, let the emulator stand in: `legato chat` does by itself, a program within legato.emulator.stand_in()"


def make_missing_key_hint(variable: str) -> str:
    """Return what to do if there is no API key. `variable`: the environment variable for it."""
    return f"set {variable}, or pass api_key=...; {EMULATOR_HINT}"


def make_openai_client(options: Mapping[str, Any], timeout: float) -> Any:
    """Make a client of OpenAI's SDK."""
    openai = import_sdk("openai")
    try:
        return openai.AsyncOpenAI(max_retries=0, timeout=timeout, **options)
    except openai.OpenAIError as error:
        raise BadInput(f"OpenAI's client cannot be made: {error}", do=make_missing_key_hint("OPENAI_API_KEY")) from None


class SharedClient:
    """An SDK's client with its connections, shared by all models of one event loop that have the same configuration.

    The client is closed when the last of these models is closed, or when the loop ends. So a program that makes a model per request has one
    client, not one per request. Nothing is left to the garbage collector, which may run late and in any order.
    """

    def __init__(self, client: Any, key: tuple[object, ...], configuration: object) -> None:
        self.client = client
        self.model_count = 0
        self._key = key
        self._configuration = configuration  # keeps the objects alive whose ids are in the key
        self._close_generator = self._close_at_loop_end()
        with suppress(StopIteration):
            self._close_generator.__anext__().send(
                None
            )  # run to the yield, without awaiting anything: from then on the loop knows the generator

    async def _close_at_loop_end(self) -> AsyncGenerator[None, None]:
        """Close the client when the running loop ends. Loops close open async generators at their end, and have no other hook for it."""
        try:
            yield
        finally:
            _shared_clients.pop(self._key, None)
            await self.client.close()

    async def release(self) -> None:
        """Close the client if no other model uses it."""
        self.model_count -= 1
        if not self.model_count:
            await self._close_generator.aclose()


_shared_clients: dict[tuple[object, ...], SharedClient] = {}
"""The open clients. The clients of a loop that was closed without `shutdown_asyncgens()` stay: they can no longer be closed."""


class LoopClients:
    """The clients of a model, one per event loop: connections belong to the loop that opened them.

    `make_client` makes a client from the options and the seconds that a request may take; it may read the environment. `client` is a client
    that the caller made: it is used in all loops, and the caller closes it. `timeout_s` limits a whole request; None: no limit.
    """

    def __init__(
        self,
        make_client: Callable[[Mapping[str, Any], float], Any],
        options: Mapping[str, Any],
        client: Any = None,
        timeout: float | None = None,
    ) -> None:
        mask_logged_urls()
        self._make_client = make_client
        self._options = {name: value for name, value in options.items() if value}
        self._caller_client = client
        self.timeout_s: float | None
        if timeout is not None:
            self.timeout_s = timeout
        else:
            self.timeout_s = DEFAULT_TIMEOUT_S if client is None else _read_timeout_s(client)
        self._by_loop: dict[asyncio.AbstractEventLoop, SharedClient] = {}

    def __call__(self) -> Any:
        """Return the client of the running loop."""
        if self._caller_client is not None:
            return self._caller_client
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            for other in list(self._by_loop):
                if other.is_closed():
                    self._by_loop.pop(other, None)
            self._by_loop[loop] = self._share_client(loop)
        return self._by_loop[loop].client

    def _share_client(self, loop: asyncio.AbstractEventLoop) -> SharedClient:
        """Return the client of all models with the same options and environment variables, made if there is none."""
        timeout = self.timeout_s or DEFAULT_TIMEOUT_S
        options = frozenset((name, value if isinstance(value, str) else id(value)) for name, value in self._options.items())
        key = loop, self._make_client, timeout, options, frozenset(os.environ.items())
        if key not in _shared_clients:
            _shared_clients[key] = SharedClient(self._make_client(self._options, timeout), key, self._options)
        shared = _shared_clients[key]
        shared.model_count += 1
        return shared

    async def close(self) -> None:
        """Release the running loop's client, which closes if no other model uses it. The next request opens a new one."""
        shared = self._by_loop.pop(asyncio.get_running_loop(), None)
        if shared is not None:
            await shared.release()


def _read_timeout_s(client: Any) -> float | None:
    """Return the seconds that a client waits for the next bytes of an answer; None if it waits forever."""
    timeout = getattr(client, "timeout", None)
    seconds = getattr(timeout, "read", timeout)
    return seconds if isinstance(seconds, (int, float)) else None


_addresses: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def strip_url_secrets(url: str) -> str:
    """Return a URL without its credentials, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")).rstrip("/")


def find_configured_address(base_url: str | None, client: Any) -> str:
    """Return the address that a model was configured with; empty for the SDK's default."""
    return strip_url_secrets(str(base_url or getattr(client, "base_url", "")))


def get_client_address(client: Any) -> str:
    """Return the address of a client, from a cache: the SDKs compute it for each access, and it never changes."""
    address = _addresses.get(client)
    if address is None:
        address = _addresses[client] = strip_url_secrets(str(client.base_url))
    return address


@asynccontextmanager
async def limit_request_time(timeout_s: float | None) -> AsyncIterator[None]:
    """Limit the time of a whole request to a provider, and mask its credentials in errors.

    The SDKs only limit the wait for the next bytes, and a provider may send comments and pings forever.
    """
    timeout = asyncio.timeout(timeout_s)
    try:
        async with timeout:
            with mask_errors():
                yield
    except (TimeoutError, ModelFailed) as error:
        if not timeout.expired():
            raise
        usage = error.usage if isinstance(error, ModelFailed) else get_cancelled_usage(error)
        raise ModelFailed(f"no whole reply within {timeout_s:g} s", retryable=True, usage=usage, do="raise timeout=...") from None


async def translate_sdk_errors(awaitable: Awaitable[T], sdk: Any) -> T:
    """Await a call of the SDK, and raise its errors as `ModelFailed`. `sdk` is the SDK's module."""
    try:
        return await awaitable
    except sdk.APIError as error:
        remember_request(error)
        raise _translate_sdk_error(error, sdk) from error


def _translate_sdk_error(error: Any, sdk: Any) -> ModelFailed:
    if isinstance(error, sdk.APIStatusError):
        retry_after_s = parse_retry_after(error.response.headers)
        return translate_error(error.status_code, _find_error_body(error), retry_after=retry_after_s, request_id=error.request_id or "")
    if isinstance(error, sdk.APITimeoutError):
        return ModelFailed(f"no answer in time from {_find_requested_address(error)}", retryable=True)
    if isinstance(error, sdk.APIConnectionError):
        cause = f"{type(error.__cause__).__name__}: {error.__cause__}" if error.__cause__ else str(error)
        reachable = type(error.__cause__).__name__ not in ("UnsupportedProtocol", "InvalidURL")
        return ModelFailed(f"{_find_requested_address(error)} could not be reached: {cause}", retryable=reachable)
    return ModelFailed(f"{type(error).__name__}: {error}")


def _find_requested_address(error: Any) -> str:
    """Return the address of a request that got no answer."""
    return strip_url_secrets(str(error.request.url)) if getattr(error, "request", None) is not None else "the provider"


def _find_error_body(error: Any) -> dict[str, Any]:
    """Return the body of an error answer as `{"error": {...}}`. One SDK unwraps the body, the other does not; compatible servers vary."""
    body = error.body
    inner = as_object(as_object(body).get("error")) or as_object(body)
    message = as_text(inner.get("message")) or as_text(body)[:MAX_RAW_ERROR_CHARS]
    if not message:
        message = to_json(body)[:MAX_RAW_ERROR_CHARS] if body else error.message
    return {"error": {**inner, "message": message}}


def parse_retry_after(headers: Any) -> float | None:
    """Return the seconds that the provider asks to wait: `retry-after-ms`, else `retry-after` (a number or a date); None without either."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            if isfinite(seconds := float(headers[name]) * unit):
                return max(0.0, seconds)
    with suppress(KeyError, ValueError, OverflowError):
        return max(0.0, _parse_http_date(headers["retry-after"]) - _find_sent_time(headers))
    return None


def _find_sent_time(headers: Any) -> float:
    """Return the time at which an answer was sent, by the sender's clock if it has a date: so a wrong local clock changes no wait."""
    with suppress(KeyError, ValueError, OverflowError):
        return _parse_http_date(headers["date"])
    return time.time()


def _parse_http_date(text: str) -> float:
    """Parse an HTTP date in any of its three forms (RFC 9110, section 5.6.7) into seconds since the epoch.

    >>> _parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), _parse_http_date("Sun Nov  6 08:49:37 1994")
    (784111777.0, 784111777.0)
    """
    date = parsedate_to_datetime(text)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


async def read_events(stream: Any) -> AsyncGenerator[bytes, None]:
    """Yield the data of a stream's events. A broken connection is a retryable failure."""
    remember_request(stream.response)
    decoder = SSEDecoder()
    try:
        async for chunk in _read_chunks(stream):
            for event in decoder.feed(chunk):
                if len(event.data) > MAX_CHUNK_BYTES:  # joining it took a while, and so does decoding it
                    await asyncio.sleep(0)
                yield event.data
    except (ModelFailed, GeneratorExit, asyncio.CancelledError):
        raise
    except Exception as error:
        raise _make_stream_failure(error) from error
    finally:
        await stream.response.aclose()


async def _read_chunks(stream: Any) -> AsyncIterator[bytes]:
    """Yield the bytes of an answer in small chunks, with other tasks in between; `ModelFailed` if the answer is too long.

    A compressed answer comes in chunks of any size: 64 KB of gzip may be 64 MB of events.
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


class StreamDecoder(Protocol):
    """An object that decodes the events of a stream."""

    @property
    def usage(self) -> Usage:
        """The usage that the stream has reported so far."""
        ...

    @property
    def is_complete(self) -> bool:
        """True once the last event of the reply came, or an error instead. Later events change nothing but the usage."""
        ...

    def feed(self, data: bytes) -> None:
        """Take the data of the next event."""
        ...


async def decode_stream(decoder: StreamDecoder, stream: Any, build_result: Callable[[], T]) -> T:
    """Feed a stream to its decoder, and return what `build_result` makes of it. A failure carries the usage reported so far.

    The reply ends with its last event, whether or not the server closes the stream.
    """
    try:
        async with aclosing(read_events(stream)) as events:
            number = 0
            async for data in events:
                number += 1
                try:
                    decoder.feed(data)
                except ModelFailed as failure:
                    failure.summary = f"event {number} of the stream: {failure.summary}"
                    raise
                if decoder.is_complete:
                    break
            with suppress(TimeoutError, ModelFailed):  # the reply is whole, however the stream ends
                async with asyncio.timeout(STREAM_END_TIMEOUT_S):
                    async for data in events:
                        decoder.feed(data)
        return build_result()
    except ModelFailed as failure:
        failure.usage = decoder.usage if failure.usage is None else failure.usage
        raise
    except asyncio.CancelledError as stop:
        stop.usage = decoder.usage  # type: ignore[attr-defined] # the driver records it: the provider charges for it
        raise


async def read_body(stream: Any) -> bytes:
    """Return the body of an answer that is no stream, though one was requested."""
    remember_request(stream.response)
    try:
        body = b"".join([chunk async for chunk in _read_chunks(stream)])
    except ModelFailed:
        raise
    except Exception as error:
        raise _make_stream_failure(error) from error
    finally:
        await stream.response.aclose()
    return body


def _make_stream_failure(error: Exception) -> ModelFailed:
    return ModelFailed(f"the stream broke: {type(error).__name__}: {error}", retryable=True)


def emit_remaining_text(reply: ModelReply, emitted_text: str, emit: Emit) -> ModelReply:
    """Emit the rest of a reply's text after a broken stream, if the emitted text is its beginning; return the reply."""
    text = "".join(item.text for item in reply.items if isinstance(item, (OutputText, Refusal)))
    if text.startswith(emitted_text) and text != emitted_text:
        emit(text[len(emitted_text) :])
    return reply


def emit_text(reply: ModelReply, emit: Emit) -> ModelReply:
    """Emit the text of a reply that was not streamed; return the reply."""
    for item in reply.items:
        if isinstance(item, (OutputText, Refusal)):
            emit(item.text)
    return reply
