"""A request that has no complete reply yet, and the forms of HTTP responses."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from legato.asgi import HANG_UP_SCOPE_KEY
from legato.emulator.api_adapter import ApiAdapter
from legato.emulator.exchanges import FAULT_NOT_APPLIED_SUFFIX, Exchange, ExchangeLog, ExchangeViolation
from legato.emulator.faults import EmulatorFault
from legato.emulator.request_types import EmulatorRequest, ErrorReply, ProviderFailure

EMULATOR_ERROR_HEADERS = {"x-legato-error": "1", "x-should-retry": "false"}
"""The headers of an error of the emulator itself, which no provider sends. A retry does not help."""


class ConnectionCut(Exception):
    """The emulator breaks the connection on purpose. The server closes it and logs nothing."""


class RequestRejected(Exception):
    """The emulator replies to the request with an error."""

    def __init__(self, error_reply: ErrorReply) -> None:
        self.error_reply = error_reply


class OpenExchange:
    """A request that has no complete reply yet, with the record of its exchange."""

    def __init__(self, request: EmulatorRequest, adapter: ApiAdapter, exchange: Exchange, exchange_log: ExchangeLog) -> None:
        self.request = request
        self.adapter = adapter
        self.exchange = exchange
        self.fault: EmulatorFault | None = None
        self._exchange_log = exchange_log
        exchange_log.register(exchange.number, self.close)
        self._started_at = time.perf_counter()
        self._holds_locks = False
        self._is_closed = False

    def check(self) -> None:
        """Check the request against the provider's rules. Take the locks of a legal request; raise `RequestRejected` for any other."""
        if violations := self.adapter.find_violations(self.request):
            raise RequestRejected(self.adapter.reply_to_violations(self.request, violations))
        self.adapter.acquire_locks(self.request)
        self._holds_locks = True

    def check_again(self) -> None:
        """Check the request again, after a change to the stored objects."""
        self.adapter.release_locks(self.request)
        self._holds_locks = False
        self.check()

    def set_fault(self, fault: EmulatorFault | None) -> None:
        """Set the fault of this exchange, or none."""
        self.fault = fault
        self.exchange.fault = str(fault or "")

    def mark_fault_not_applied(self) -> None:
        """Record that the fault did not apply to this request."""
        self.exchange.fault = f"{self.fault}{FAULT_NOT_APPLIED_SUFFIX}"

    def make_rejection(self, failure: ProviderFailure) -> RequestRejected:
        """Return the exception to raise for a failure of the provider, or of the emulator itself."""
        error_reply = self.adapter.reply_to_failure(self.request, failure)
        if failure.kind == "emulator":
            self.exchange.emulator_error = failure.message.partition("\n")[0]
            error_reply = replace(error_reply, headers=error_reply.headers | EMULATOR_ERROR_HEADERS)
        return RequestRejected(error_reply)

    def respond_with_error(self, error_reply: ErrorReply) -> Response:
        """Return the response for an error, and close the exchange."""
        self.exchange.violations = tuple(ExchangeViolation.from_violation(violation) for violation in error_reply.violations)
        return self.respond(error_reply.status, error_reply.body, error_reply.headers)

    def respond(self, status: int, body: dict[str, Any], headers: dict[str, str]) -> Response:
        """Return the response for a body, and close the exchange."""
        self.exchange.reply_body, self.exchange.is_complete = body, True
        self.close(status)
        return json_response(status, body, headers)

    def close(self, status: int) -> None:
        """End the exchange with a status. Only the first call counts."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._holds_locks:
            self.adapter.release_locks(self.request)
        self.exchange.status = status
        self.exchange.duration_s = time.perf_counter() - self._started_at
        self._exchange_log.add(self.exchange)


class ReplyStreamResponse(StreamingResponse):
    """A streamed reply. Its exchange is closed at its end, whatever ends it."""

    def __init__(self, open_exchange: OpenExchange, events: AsyncIterator[bytes]) -> None:
        headers = open_exchange.adapter.make_headers(open_exchange.request, is_stream=True)
        super().__init__(events, headers=headers | {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"})
        self._open_exchange = open_exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._open_exchange.close(200)


class HangUpResponse(Response):
    """A response that closes the connection and sends nothing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Close the connection."""
        if HANG_UP_SCOPE_KEY not in scope:
            raise ConnectionCut
        scope[HANG_UP_SCOPE_KEY]()
        while (await receive())["type"] != "http.disconnect":
            pass


class TruncatedResponse(Response):
    """A response of which only the first bytes are sent."""

    def __init__(self, body: bytes, headers: dict[str, str], sent_bytes: int) -> None:
        super().__init__(body, headers=headers, media_type="application/json")
        self._sent_bytes = sent_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the first bytes, then break the connection."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body[: self._sent_bytes], "more_body": True})
        raise ConnectionCut


def json_response(status: int, body: object, headers: dict[str, str]) -> Response:
    """Return a response with a JSON body."""
    return Response(msgspec.json.encode(body), status, headers=headers, media_type="application/json")
