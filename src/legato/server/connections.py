"""Connections. May know: uvicorn's protocol of HTTP/1.1. Decides: how long one may take to ask, and what a broken one is told.

uvicorn waits for ever for the rest of a request's head, and answers what is no HTTP in words of its own.
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
        """One connection; its request's head has to come in time, and not too many are open."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.abort()
            else:
                self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._expect_nothing()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._expect_nothing()
            elif self._deadline is None and not self.transport.is_closing():
                self._expect_head()  # of the next request: some of it has come

        def _expect_head(self) -> None:
            self._deadline = self.loop.call_later(limits.reading, self.transport.abort)

        def _expect_nothing(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

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
