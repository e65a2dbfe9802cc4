"""How much is too much. May know: ASGI. Decides: the bounds on what is sent here, and how one that is passed is told.

A body is read as it comes and cut off at its bound; nothing is kept of what was refused. Streams are counted, and one whose reader does not
read is ended: whoever connects again goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from legato.server.answering import Refused, refuse

MIB = 1024 * 1024
WITH_FILES = ("/messages", "/api/sessions")
"""Where a message may have pictures and files, beside the protocols, which all may."""


@dataclass(frozen=True)
class Limits:
    """`body`: bytes of a request, `files`: of one that may have pictures and files in it. `streams`: event streams at once. `reading`:
    seconds in which a body has to come, and in which an answer's next piece has to be taken."""

    body: int = MIB
    files: int = 20 * MIB
    streams: int = 100
    reading: float = 30.0

    def longest(self, path: str) -> int:
        """Bytes that the body of a request may have."""
        return self.body if path.startswith("/api") and not path.endswith(WITH_FILES) else self.files


class TooMuch(Exception):
    """Raised into whoever reads the body of a request, to be answered outside."""


class Limited:
    """Cuts off what is too much."""

    def __init__(self, inner: ASGIApp, limits: Limits) -> None:
        self._inner = inner
        self._limits = limits
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        longest = self._limits.longest(scope["path"])
        if _length(scope) > longest:
            await refuse(_too_large(longest), scope, receive, send)
            return
        answering = _Answering(self, send)
        try:
            await self._inner(scope, self._cut(receive, longest), answering)
        except TooMuch as much:
            if not answering.started:
                await refuse(much.args[0], scope, receive, send)
        except _Unread:
            hang_up(send)
        finally:
            self._streams -= answering.streams

    def _cut(self, receive: Receive, longest: int) -> Receive:
        taken, until = 0, asyncio.get_running_loop().time() + self._limits.reading
        whole = False

        async def cut() -> Message:
            nonlocal taken, whole
            if whole:  # whoever waits now waits for the other side to leave
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise TooMuch(Refused(408, "too_slow", "the request did not come in time", connection="close")) from None
            taken += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if taken > longest:
                raise TooMuch(_too_large(longest))
            return message

        return cut

    def one_more(self) -> bool:
        """Whether one more stream may begin; it counts if so."""
        if self._streams >= self._limits.streams:
            return False
        self._streams += 1
        return True

    @property
    def reading(self) -> float:
        """Seconds in which a piece of an answer has to be taken."""
        return self._limits.reading


class _Unread(Exception):
    """Nobody reads the answer."""


class _Answering:
    """Sends an answer, and counts it if it is a stream."""

    def __init__(self, limited: Limited, send: Send) -> None:
        self._limited = limited
        self._send = send
        self.started = False
        self.streams = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if _is_stream(message):
                if not self._limited.one_more():
                    raise TooMuch(_too_many())
                self.streams = 1
            self.started = True
        try:
            async with asyncio.timeout(self._limited.reading):
                await self._send(message)
        except TimeoutError:
            raise _Unread from None


def hang_up(send: Any) -> None:
    """Close the connection whose `send` this is, unsent bytes or not: uvicorn's belongs to an object that has it."""
    while hasattr(send, "__wrapped__"):
        send = send.__wrapped__
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()


def _is_stream(message: Message) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in message.get("headers", ()))


def _length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            with contextlib.suppress(ValueError):
                return int(value)
    return 0


def _too_many() -> Refused:
    return Refused(429, "too_many_streams", "too many streams are open here", do="come again later", retry_after="5")


def _too_large(longest: int) -> Refused:
    return Refused(413, "too_large", "this is too much in one request", expected=f"{longest} bytes at most", connection="close")
