"""Connections. May know: uvicorn's protocol of HTTP/1.1. Decides: how long one may take to ask, and what a broken one is told.

uvicorn waits for ever for the rest of a request, unless somebody reads its body, and for whoever does not take an answer; and it answers
what is no HTTP in words of its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from legato.server.access import ON_EVERYTHING
from legato.server.answering import Refused, plain
from legato.server.limits import Limits


def connection_kind(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol that a server with these limits speaks."""

    class Connection(H11Protocol):
        """One connection. While a request of it is answered, `Limited` sees to the time that takes; here, to all the other time."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.abort()
            else:
                self._expect_something()

        def connection_lost(self, exc: Exception | None) -> None:
            self._expect_nothing()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)  # it waits for no more than what came: neither for the next head, nor for a body that nobody reads
            self._keep_time()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.their_state is not h11.IDLE or self.transport.get_write_buffer_size():
                self._keep_time()

        def _keep_time(self) -> None:
            if self.conn.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY):
                self._expect_nothing()  # of this request
            elif self._deadline is None:
                self._expect_something()

        def _expect_something(self) -> None:
            self._deadline = self.loop.call_later(limits.reading, self._too_late, self.transport.get_write_buffer_size())

        def _expect_nothing(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _too_late(self, untaken: int) -> None:
            """Hang up, unless what was missing was that an answer is taken: then it may be slow."""
            self._deadline, left = None, self.transport.get_write_buffer_size()
            if 0 < left < untaken:
                self._expect_something()
            elif left or not untaken or self.timeout_keep_alive_task is None:
                self.transport.abort()

        def send_400_response(self, msg: str) -> None:
            """Answer what cannot be read."""
            if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                self.transport.abort()  # in the middle of an answer
                return
            told = msgspec.json.encode({"error": plain(Refused(400, "bad_request", "this is no HTTP request that can be read"))})
            named = {"content-type": "application/json", "content-length": str(len(told)), "connection": "close", **ON_EVERYTHING}
            headers = [(name.encode(), value.encode()) for name, value in named.items()]
            for event in (h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(told), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

    return Connection
