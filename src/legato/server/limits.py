"""How much is too much. May know: ASGI. Decides: the bounds on what is sent here, and how one that is passed is told.

A body is read as it comes and cut off at its bound; nothing is kept of what was refused. Streams are counted, and one whose reader does not
read is ended: whoever connects again goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from legato.asgi import HANG_UP
from legato.asgi.bodies import TWO_LENGTHS, has_two_lengths
from legato.server.answering import Refused, unexpected
from legato.server.error_shapes import refuse

MIB = 1024 * 1024
LONGEST_TARGET = 8 * 1024
LONGEST_HEAD = 32 * 1024
MOST_HEADERS = 100
"""Of a request's head. uvicorn bounds one that comes in pieces, and not one that comes at once."""

WITH_FILES = ("/messages", "/api/sessions")
"""Where a message may have pictures and files, beside the protocols, which all may."""


@dataclass(frozen=True)
class Limits:
    """`body`: bytes of a request, `files`: of one that may have pictures and files in it. `connections`, `requests`, `streams`: how many at
    once. `reading`: seconds in which a request has to come, and in which each piece of an answer has to be taken."""

    body: int = MIB
    files: int = 20 * MIB
    connections: int = 1_000
    requests: int = 200
    streams: int = 100
    reading: float = 30.0

    def head(self, scope: Scope) -> Refused | None:
        """Why a request is refused for its first line and headers: they are too much, or give its body two lengths. None if it is not."""
        if len(scope["path"]) + len(scope["query_string"]) > LONGEST_TARGET:
            return Refused(414, "too_long", "the address is too long", expected=f"{LONGEST_TARGET} letters at most", connection="close")
        headers = scope["headers"]
        if has_two_lengths(headers):
            return Refused(400, "bad_request", TWO_LENGTHS, do="leave one of them out", connection="close")
        if len(headers) > MOST_HEADERS or sum(len(name) + len(value) for name, value in headers) > LONGEST_HEAD:
            most = f"{MOST_HEADERS} headers, {LONGEST_HEAD} bytes at most"
            return Refused(431, "too_many_headers", "these headers are too much", expected=most, connection="close")
        return None

    def longest(self, path: str) -> int:
        """Bytes that the body of a request may have."""
        return self.body if path.startswith("/api") and not path.endswith(WITH_FILES) else self.files


ONE_MORE = "legato.stream"
"""What a request's scope has for `one_more_stream`."""


def one_more_stream(scope: Scope) -> None:
    """Count the answer as a stream from now on, before anything is recorded for it; refused if there are too many."""
    scope[ONE_MORE]()


class _Unread(Exception):
    """Nobody reads the answer."""


class Limited:
    """Cuts off what is too much. What goes wrong inside ends here: no exception, whose words might be somebody's, goes on to the server."""

    def __init__(self, inner: ASGIApp, limits: Limits) -> None:
        self._inner = inner
        self.limits = limits
        self.requests = self.streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        longest = self.limits.longest(scope["path"])
        if _length(scope) > longest:
            await refuse(_too_large(longest), scope, receive, send)
        elif self.requests >= self.limits.requests:
            await refuse(_too_busy(), scope, receive, send)
        else:
            await self._answered(scope, receive, send, longest)

    async def _answered(self, scope: Scope, receive: Receive, send: Send, longest: int) -> None:
        answering = _Answering(self, send)
        self.requests += 1
        try:
            await self._inner({**scope, ONE_MORE: answering.stream}, self._cut(receive, longest), answering)
        except Refused as refused:  # raised into the code that reads the body of a request or begins an answer
            await answering.refuse(refused, scope, receive)
        except _Unread:
            _hang_up(scope)
        except Exception as error:
            await answering.refuse(unexpected(error), scope, receive)
        finally:
            answering.over()

    def _cut(self, receive: Receive, longest: int) -> Receive:
        taken, whole, until = 0, False, asyncio.get_running_loop().time() + self.limits.reading

        async def cut() -> Message:
            nonlocal taken, whole
            if whole:  # whoever waits now waits for the other side to leave
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise Refused(408, "too_slow", "the request did not come in time", connection="close") from None
            taken += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if taken > longest:
                raise _too_large(longest)
            return message

        return cut


class _Answering:
    """Sends an answer. One that is a stream counts as one, and no longer as a request."""

    def __init__(self, limited: Limited, send: Send) -> None:
        self._limited = limited
        self._send = send
        self._started = self._is_stream = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if not all(map(_can_be_sent, message.get("headers", ()))):  # uvicorn would find that out too late to say anything else
                raise ValueError("a header of an answer cannot be sent")
            if _is_stream(message):
                self.stream()
            self._started = True
        try:
            async with asyncio.timeout(self._limited.limits.reading):
                await self._send(message)
        except TimeoutError:
            raise _Unread from None

    def stream(self) -> None:
        """It is a stream, or will be one."""
        if not self._is_stream:
            if self._limited.streams >= self._limited.limits.streams:
                raise _too_many()
            self._limited.streams += 1
            self._limited.requests -= 1
            self._is_stream = True

    async def refuse(self, error: Exception, scope: Scope, receive: Receive) -> None:
        """Answer with an error; if an answer has begun, it ends in its middle."""
        if self._started:
            _hang_up(scope)
        else:
            await refuse(error, scope, receive, self._send)

    def over(self) -> None:
        """It counts no more."""
        if self._is_stream:
            self._limited.streams -= 1
        else:
            self._limited.requests -= 1


def _hang_up(scope: Scope) -> None:
    """Close the connection, unsent bytes or not."""
    if HANG_UP in scope:
        scope[HANG_UP]()


def _is_stream(message: Message) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in message.get("headers", ()))


def _can_be_sent(header: tuple[bytes, bytes]) -> bool:
    value = header[1]
    return value == value.strip() and not any(each in value for each in b"\r\n\0")


def _length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            with contextlib.suppress(ValueError):
                return int(value)
    return 0


def _too_large(longest: int) -> Refused:
    return Refused(413, "too_large", "this is too much in one request", expected=f"{longest} bytes at most", connection="close")


def _too_many() -> Refused:
    return Refused(429, "too_many_streams", "too many streams are open here", do="come again later", retry_after="5")


def _too_busy() -> Refused:
    return Refused(429, "too_many_requests", "too much is being asked here at once", do="come again later", retry_after="1")
