"""Limits on requests, connections and streams, and the middleware that enforces them.

A body is cut off at its limit while it arrives. Streams are counted, and a stream whose client stops reading is closed; clients resume
with a cursor when they reconnect.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from legato.asgi import HANG_UP_SCOPE_KEY
from legato.asgi.request_bodies import CONFLICTING_LENGTHS_MESSAGE, has_conflicting_lengths
from legato.server.error_formats import send_error
from legato.server.http_errors import RequestRefused, mask_unexpected_error

MIB = 1024 * 1024
MAX_TARGET_CHARS = 8 * 1024
MAX_HEAD_BYTES = 32 * 1024
MAX_HEADERS = 100
"""Limits on the head of a request. uvicorn limits a head only if it arrives in several pieces."""

UPLOAD_PATHS = ("/messages", "/api/sessions")
"""Ends of paths below `/api` whose bodies may contain images and files. Other protocols' paths always may."""


@dataclass(frozen=True)
class RequestLimits:
    """The limits of a server.

    `max_upload_bytes` holds for bodies that may contain images and files, `max_body_bytes` for all others. `max_connections`,
    `max_requests` and `max_streams` are counts at one time. `io_timeout`: seconds for a request to arrive, and for a client to read each
    chunk of a response.
    """

    max_body_bytes: int = MIB
    max_upload_bytes: int = 20 * MIB
    max_connections: int = 1_000
    max_requests: int = 200
    max_streams: int = 100
    io_timeout: float = 30.0

    def check_head(self, scope: Scope) -> RequestRefused | None:
        """Return the refusal of a request whose head is too large or ambiguous about the body's length; None if it is fine."""
        if len(scope["path"]) + len(scope["query_string"]) > MAX_TARGET_CHARS:
            return RequestRefused(
                414, "too_long", "the URL is too long", expected=f"at most {MAX_TARGET_CHARS} characters", connection="close"
            )
        headers = scope["headers"]
        if has_conflicting_lengths(headers):
            return RequestRefused(400, "bad_request", CONFLICTING_LENGTHS_MESSAGE, do="leave one of them out", connection="close")
        if len(headers) > MAX_HEADERS or sum(len(name) + len(value) for name, value in headers) > MAX_HEAD_BYTES:
            most = f"at most {MAX_HEADERS} headers and {MAX_HEAD_BYTES} bytes"
            return RequestRefused(431, "too_many_headers", "the headers are too many or too large", expected=most, connection="close")
        return None

    def body_limit(self, path: str) -> int:
        """Return how many bytes the body of a request to this path may have."""
        return self.max_body_bytes if path.startswith("/api") and not path.endswith(UPLOAD_PATHS) else self.max_upload_bytes


COUNT_STREAM_KEY = "legato.stream"
"""The key in a request's scope of the function that `count_stream` calls."""


def count_stream(scope: Scope) -> None:
    """Count the response as a stream, before anything is recorded for it. Raises `RequestRefused` if too many are open."""
    scope[COUNT_STREAM_KEY]()


class _ClientNotReading(Exception):
    """The client does not read the response."""


class LimitsMiddleware:
    """ASGI middleware that enforces the limits and answers unexpected errors.

    No exception reaches the server, which would log its text.
    """

    def __init__(self, inner: ASGIApp, limits: RequestLimits) -> None:
        self._inner = inner
        self.limits = limits
        self.requests = self.streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        max_bytes = self.limits.body_limit(scope["path"])
        if _declared_length(scope) > max_bytes:
            await send_error(_body_too_large(max_bytes), scope, receive, send)
        elif self.requests >= self.limits.max_requests:
            await send_error(_too_many_requests(), scope, receive, send)
        else:
            await self._respond(scope, receive, send, max_bytes)

    async def _respond(self, scope: Scope, receive: Receive, send: Send, max_bytes: int) -> None:
        limited_send = _LimitedSend(self, send)
        self.requests += 1
        try:
            await self._inner({**scope, COUNT_STREAM_KEY: limited_send.count_as_stream}, self._limit_body(receive, max_bytes), limited_send)
        except RequestRefused as refusal:  # raised where the body is read or a stream is counted
            await limited_send.send_error(refusal, scope, receive)
        except _ClientNotReading:
            _hang_up(scope)
        except Exception as error:
            await limited_send.send_error(mask_unexpected_error(error), scope, receive)
        finally:
            limited_send.release()

    def _limit_body(self, receive: Receive, max_bytes: int) -> Receive:
        received, is_complete, deadline = 0, False, asyncio.get_running_loop().time() + self.limits.io_timeout

        async def receive_limited() -> Message:
            nonlocal received, is_complete
            if is_complete:  # the application waits for the client to disconnect
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise RequestRefused(408, "too_slow", "the request did not arrive in time", connection="close") from None
            received += len(message.get("body", b""))
            is_complete = not message.get("more_body", False)
            if received > max_bytes:
                raise _body_too_large(max_bytes)
            return message

        return receive_limited


class _LimitedSend:
    """Sends one response with a timeout. A streamed response counts as a stream instead of a request."""

    def __init__(self, middleware: LimitsMiddleware, send: Send) -> None:
        self._middleware = middleware
        self._send = send
        self._started = self._is_stream = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if not all(map(_is_valid_header, message.get("headers", ()))):  # uvicorn would notice too late to send an error
                raise ValueError("a response header has an invalid value")
            if _is_stream(message):
                self.count_as_stream()
            self._started = True
        try:
            async with asyncio.timeout(self._middleware.limits.io_timeout):
                await self._send(message)
        except TimeoutError:
            raise _ClientNotReading from None

    def count_as_stream(self) -> None:
        """Count the response as a stream; raises `RequestRefused` if too many are open."""
        if not self._is_stream:
            if self._middleware.streams >= self._middleware.limits.max_streams:
                raise _too_many_streams()
            self._middleware.streams += 1
            self._middleware.requests -= 1
            self._is_stream = True

    async def send_error(self, error: Exception, scope: Scope, receive: Receive) -> None:
        """Send an error response; if a response has started, close the connection instead."""
        if self._started:
            _hang_up(scope)
        else:
            await send_error(error, scope, receive, self._send)

    def release(self) -> None:
        """Stop counting the response."""
        if self._is_stream:
            self._middleware.streams -= 1
        else:
            self._middleware.requests -= 1


def _hang_up(scope: Scope) -> None:
    """Close the connection, even if bytes are unsent."""
    if HANG_UP_SCOPE_KEY in scope:
        scope[HANG_UP_SCOPE_KEY]()


def _is_stream(message: Message) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in message.get("headers", ()))


def _is_valid_header(header: tuple[bytes, bytes]) -> bool:
    value = header[1]
    return value == value.strip() and not any(each in value for each in b"\r\n\0")


def _declared_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            with contextlib.suppress(ValueError):
                return int(value)
    return 0


def _body_too_large(max_bytes: int) -> RequestRefused:
    return RequestRefused(413, "too_large", "the request body is too large", expected=f"at most {max_bytes} bytes", connection="close")


def _too_many_streams() -> RequestRefused:
    return RequestRefused(429, "too_many_streams", "too many streams are open", do="try again later", retry_after="5")


def _too_many_requests() -> RequestRefused:
    return RequestRefused(429, "too_many_requests", "too many requests are being answered", do="try again later", retry_after="1")
