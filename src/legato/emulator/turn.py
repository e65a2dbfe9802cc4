"""One request on its way to its answer, and the forms an answer has. May know: HTTP, dialects, exchanges. Decides: when it is over."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from legato.asgi import HANG_UP
from legato.emulator.asks import Ask, Failure, Refusal
from legato.emulator.dialect import Dialect
from legato.emulator.exchanges import NOT_APPLIED, Exchange, Exchanges, Verdict
from legato.emulator.faults import Fault

OURS = {"x-legato-error": "1", "x-should-retry": "false"}
"""The headers of an error that no provider makes: the emulator's own. To try again is no help against it."""


class Cut(Exception):
    """The connection is broken on purpose. The server closes it and is silent about it."""


class Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


class Turn:
    """One request on its way to its answer."""

    def __init__(self, ask: Ask, dialect: Dialect, exchange: Exchange, exchanges: Exchanges) -> None:
        self.ask = ask
        self.dialect = dialect
        self.exchange = exchange
        self.fault: Fault | None = None
        self._exchanges = exchanges
        exchanges.begin(exchange.number, self.close)
        self._begun = time.perf_counter()
        self._accepted = False
        self._closed = False

    def judge(self) -> None:
        """Ask the law book. If the request is legal, take what it locks."""
        if complaints := self.dialect.judge(self.ask):
            raise Refused(self.dialect.refuse(self.ask, complaints))
        self.dialect.begin(self.ask)
        self._accepted = True

    def judge_again(self) -> None:
        """Ask once more, now that what the provider holds has changed."""
        self.dialect.end(self.ask)
        self._accepted = False
        self.judge()

    def strike(self, fault: Fault | None) -> None:
        """This is what goes wrong with it."""
        self.fault = fault
        self.exchange.fault = str(fault or "")

    def missed(self) -> None:
        """The fault found nothing to strike at."""
        self.exchange.fault = f"{self.fault}{NOT_APPLIED}"

    def fail(self, failure: Failure) -> Refused:
        """The provider fails, or the emulator itself: to be raised."""
        refusal = self.dialect.fail(self.ask, failure)
        if failure.kind == "emulator":
            self.exchange.error = failure.message.partition("\n")[0]
            refusal = replace(refusal, headers=refusal.headers | OURS)
        return Refused(refusal)

    def refuse(self, refusal: Refusal) -> Response:
        """Answer with an error."""
        self.exchange.verdict = tuple(Verdict.of(complaint) for complaint in refusal.complaints)
        return self.whole(refusal.status, refusal.body, refusal.headers)

    def whole(self, status: int, body: dict[str, Any], headers: dict[str, str]) -> Response:
        """Answer in one piece."""
        self.exchange.reply, self.exchange.whole = body, True
        self.close(status)
        return whole(status, body, headers)

    def close(self, status: int) -> None:
        """It is over, one way or another; only the first time counts."""
        if self._closed:
            return
        self._closed = True
        if self._accepted:
            self.dialect.end(self.ask)
        self.exchange.status = status
        self.exchange.took = time.perf_counter() - self._begun
        self._exchanges.add(self.exchange)


class EventStream(StreamingResponse):
    """A streamed answer. Whatever ends it, its turn is over then."""

    def __init__(self, turn: Turn, events: AsyncIterator[bytes]) -> None:
        headers = turn.dialect.headers(turn.ask, streams=True)
        super().__init__(events, headers=headers | {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"})
        self._turn = turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._turn.close(200)


class HungUp(Response):
    """No answer at all: the connection is closed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Close it."""
        if HANG_UP not in scope:
            raise Cut
        scope[HANG_UP]()
        while (await receive())["type"] != "http.disconnect":
            pass


class Torn(Response):
    """An answer in one piece of which only a part arrives."""

    def __init__(self, body: bytes, headers: dict[str, str], cut_at: int) -> None:
        super().__init__(body, headers=headers, media_type="application/json")
        self._cut_at = cut_at

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a part of it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body[: self._cut_at], "more_body": True})
        raise Cut


def whole(status: int, body: object, headers: dict[str, str]) -> Response:
    """An answer in one piece."""
    return Response(msgspec.json.encode(body), status, headers=headers, media_type="application/json")
