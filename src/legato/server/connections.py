"""HTTP/1.1 connections with timeouts.

uvicorn waits without limit for the rest of a request whose body is not being read, and for clients that do not read the response. It also
answers invalid HTTP in a format of its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from legato.server.http_errors import RequestRefused, error_to_dict
from legato.server.request_guard import SECURITY_HEADERS
from legato.server.request_limits import RequestLimits


def make_connection_class(limits: RequestLimits) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol class with these limits."""

    class TimedConnection(H11Protocol):
        """One connection. `LimitsMiddleware` limits the time while a request is answered, this class all other time."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.max_connections:
                transport.abort()
            else:
                self._start_deadline()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_deadline()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)  # returns at once, without waiting for a next request or a body
            self._update_deadline()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.their_state is not h11.IDLE or self.transport.get_write_buffer_size():
                self._update_deadline()

        def _update_deadline(self) -> None:
            if self.conn.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY):
                self._cancel_deadline()  # while the response is sent, LimitsMiddleware keeps the time
            elif self._deadline is None:
                self._start_deadline()

        def _start_deadline(self) -> None:
            self._deadline = self.loop.call_later(limits.io_timeout, self._on_deadline, self.transport.get_write_buffer_size())

        def _cancel_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _on_deadline(self, unsent_before: int) -> None:
            """Close the connection, unless the client is reading the response, however slowly."""
            self._deadline, unsent = None, self.transport.get_write_buffer_size()
            if 0 < unsent < unsent_before:
                self._start_deadline()
            elif unsent or not unsent_before or self.timeout_keep_alive_task is None:
                self.transport.abort()

        def send_400_response(self, msg: str) -> None:
            """Answer invalid HTTP."""
            if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                self.transport.abort()  # a response was being sent
                return
            body = msgspec.json.encode({"error": error_to_dict(RequestRefused(400, "bad_request", "this is not a valid HTTP request"))})
            fields = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close", **SECURITY_HEADERS}
            headers = [(name.encode(), value.encode()) for name, value in fields.items()]
            for event in (h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

    return TimedConnection
