"""From a request to its answer, the same way for every API. May know: HTTP, dialects, faults, minds. Decides: the order of things.

    a key -> JSON -> the fault that is due -> the law book -> the mind -> the answer, whole or as a stream

Nothing that comes in may end in a 500 of our own. What is stored is stored when the answer has been given to its end, so a stream
that was cut leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol, runtime_checkable

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from legato.emulator.asks import Answer, Ask, Event, Failure, Refusal
from legato.emulator.dialect import Dialect
from legato.emulator.exchanges import Exchange, Exchanges, Verdict
from legato.emulator.faults import HEADER, Fault, FaultPlan, failure_of, parse, spoil
from legato.emulator.minds.base import Mind, Prompt, Say
from legato.emulator.reading import BAD_JSON, TOO_LARGE, TooLarge, json_of, read_body
from legato.errors import BadInput, LegatoError

HANG_UP = "legato.hang_up"
"""Where a request's scope has a function that closes its connection: ASGI has no word for that, so whoever serves puts it there."""


class Cut(Exception):
    """The connection is broken on purpose. The server closes it and is silent about it."""


@runtime_checkable
class Faulty(Protocol):
    """A mind whose script has faults too."""

    def fault(self, prompt: Prompt) -> str:
        """The fault of the rule that applies, or nothing."""
        ...


@runtime_checkable
class Choosy(Protocol):
    """A dialect in which several answers to one request can be asked for."""

    def prompts(self, ask: Ask) -> tuple[Prompt, ...]:
        """What the model is given for each."""
        ...

    def answer(self, ask: Ask, say: Say, *others: Say) -> Answer:
        """All that it says, as one object and its events."""
        ...


class Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


class Turn:
    """One request on its way to its answer."""

    def __init__(self, ask: Ask, dialect: Dialect, path: str, exchanges: Exchanges) -> None:
        self.ask = ask
        self.dialect = dialect
        self.exchange = Exchange(ask.number, ask.now, dialect.api, path, {})
        self.fault: Fault | None = None
        self._exchanges = exchanges
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

    def fail(self, failure: Failure) -> Refused:
        """The provider fails: to be raised."""
        return Refused(self.dialect.fail(self.ask, failure))

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


class Serving:
    """Answers requests. One per emulator."""

    def __init__(
        self,
        mind: Mind,
        faults: FaultPlan,
        exchanges: Exchanges,
        *,
        keys: frozenset[str] = frozenset(),
        latency: float = 0.0,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.mind = mind
        self.faults = faults
        self.exchanges = exchanges
        self._keys = keys
        self._latency = latency
        self._seed = seed
        self._clock = clock

    async def answer(self, http: Request, dialect: Dialect, *, azure: bool = False) -> Response:
        """The answer to a request that asks for a reply."""
        turn = Turn(self.ask(http, dialect.api, self.exchanges.number(), azure=azure), dialect, http.url.path, self.exchanges)
        try:
            return await self._answer(http, turn)
        except Refused as refused:
            return turn.refuse(refused.refusal)
        except RecursionError:  # JSON that is nested as deeply as it could just be read
            return turn.refuse(dialect.fail(turn.ask, BAD_JSON))
        except LegatoError as error:  # a fault or a script that cannot be used: the person who wrote it is told
            return turn.refuse(dialect.fail(turn.ask, Failure("emulator", 400, str(error))))
        except (Cut, ClientDisconnect):
            turn.close(499)
            return HungUp()
        except asyncio.CancelledError:  # the emulator is stopped
            turn.close(499)
            if HANG_UP in http.scope:
                http.scope[HANG_UP]()
            raise
        except BaseException:
            turn.close(500)
            raise

    async def _answer(self, http: Request, turn: Turn) -> Response:
        ask, dialect = turn.ask, turn.dialect
        if self.refused_key(ask):
            raise turn.fail(Failure("unauthorized", 401))
        ask.body = await self._body(http, turn)
        turn.exchange.request, turn.exchange.streams = ask.body, ask.streams
        if self._latency:
            await asyncio.sleep(self._latency)
        turn.strike(self.faults.due(ask.number, ask.headers.get(HEADER)))
        await self._fail(turn)
        turn.judge()
        say = await self._speak(turn)
        answer = dialect.answer(ask, say, *self._others(turn, dialect)) if isinstance(dialect, Choosy) else dialect.answer(ask, say)
        if ask.streams:
            turn.exchange.reply = answer.body
            return EventStream(turn, _events(turn, answer))
        if torn := await _disturb(turn, answer):
            return torn
        dialect.keep(ask, answer)
        return turn.whole(200, answer.body, dialect.headers(ask, streams=False))

    def ask(self, http: Request, api: str, number: int = 0, *, azure: bool = False) -> Ask:
        """What is known of a request before its body is read."""
        headers = {name.lower(): value for name, value in http.headers.items()}
        return Ask(
            api=api,
            number=number,
            body={},
            headers=headers,
            account=account_of(headers),
            now=self._clock(),
            azure=azure,
            deployment=http.path_params.get("deployment", ""),
        )

    def refused_key(self, ask: Ask) -> bool:
        """Whether the key is missing or none of those that are accepted."""
        key = key_of(ask.headers)
        return not key or (bool(self._keys) and key not in self._keys)

    async def _body(self, http: Request, turn: Turn) -> dict[str, Any]:
        try:
            data = await read_body(http)
        except TooLarge:
            raise turn.fail(TOO_LARGE) from None
        turn.ask.size = len(data)
        body = json_of(data)
        if body is None:
            raise turn.fail(BAD_JSON)
        if not isinstance(body, dict):
            turn.ask.stray = body  # for the law book to refuse
            return {}
        return body

    async def _fail(self, turn: Turn) -> None:
        """Let a fault strike that needs no reply to strike at."""
        fault = turn.fault
        if fault is None or fault.stage not in ("before", "state"):
            return
        if fault.stage == "state":
            turn.dialect.strike(turn.ask, fault.kind)
            return
        if fault.kind == "context_length" and turn.ask.streams and turn.dialect.api == "responses":
            turn.fault = parse("error_event kind=context_length after=0")  # this API says so inside the stream (F2)
            return
        if fault.kind == "hang_up":
            raise Cut
        if fault.kind == "timeout":
            await asyncio.sleep(fault.number("seconds"))
        raise turn.fail(failure_of(fault))

    async def _speak(self, turn: Turn) -> Say:
        """What the mind says, spoiled if that is the fault. A script may have a fault of its own."""
        prompt = turn.exchange.prompt = self._seeded(turn.dialect.prompt(turn.ask))
        if turn.fault is None and isinstance(self.mind, Faulty) and (text := self.mind.fault(prompt)):
            fault = parse(text)
            turn.strike(fault)
            await self._fail(turn)
            if fault.stage == "state":
                turn.judge_again()
        turn.exchange.say = self._reply(turn, prompt)
        return turn.exchange.say

    def _others(self, turn: Turn, dialect: Choosy) -> list[Say]:
        """What the mind says for the choices after the first."""
        return [self._reply(turn, self._seeded(prompt)) for prompt in dialect.prompts(turn.ask)[1:]]

    def _seeded(self, prompt: Prompt) -> Prompt:
        return msgspec.structs.replace(prompt, seed=prompt.seed + self._seed) if self._seed else prompt

    def _reply(self, turn: Turn, prompt: Prompt) -> Say:
        try:
            say = self.mind.reply(prompt)
        except (LegatoError, RecursionError):
            raise
        except Exception as error:  # a function of the user's own
            raise turn.fail(Failure("server_error", 500, f"the emulator's mind failed: {type(error).__name__}: {error}")) from error
        if not isinstance(say, Say):
            raise BadInput(f"the mind {self.mind!r} says what cannot be sent", expected="a Say", found=repr(say)[:200])
        if turn.fault is not None and turn.fault.stage == "say":
            say = spoil(say, turn.fault)
        return say


async def _disturb(turn: Turn, answer: Answer) -> Response | None:
    """A fault of streams, at an answer that is none. What is left of the answer, if it is not whole."""
    fault = turn.fault
    if fault is None or fault.stage != "stream":
        return None
    if fault.kind == "cut":
        body, byte = msgspec.json.encode(answer.body), int(fault.number("byte"))
        cut_at = byte if byte >= 0 else len(body) // 2
        if cut_at >= len(body):
            return None
        turn.exchange.reply = answer.body
        turn.close(200)
        return Torn(body, turn.dialect.headers(turn.ask, streams=False), cut_at)
    if fault.kind == "error_event":
        raise turn.fail(failure_of(fault))
    await asyncio.sleep(fault.number("delay") * len(answer.events))
    return None


async def _events(turn: Turn, answer: Answer) -> AsyncIterator[bytes]:
    """The answer as it travels, with what goes wrong on the way."""
    fault = turn.fault
    events, cut_at = _spoiled(turn.ask, turn.dialect, answer, fault)
    delay = fault.number("delay") if fault is not None and fault.kind == "slow" else 0.0
    room = int(fault.number("byte")) if fault is not None and fault.kind == "cut" else -1
    for number, event in enumerate(events):
        data = event.encode()
        if number == cut_at or 0 <= room < len(data):
            if room > 0:
                yield data[:room]
            raise Cut
        room = room - len(data) if room >= 0 else room
        if number == len(events) - 1 and events is answer.events:
            turn.dialect.keep(turn.ask, answer)  # before its last event is sent: who has seen the end may go on from it
        yield data
        turn.exchange.events += 1
        if delay:
            await asyncio.sleep(delay)
    turn.exchange.whole = True


def _spoiled(ask: Ask, dialect: Dialect, answer: Answer, fault: Fault | None) -> tuple[tuple[Event, ...], int]:
    """The events of the answer as the fault leaves them, and before which of them the connection breaks (-1: none)."""
    if fault is not None and fault.kind == "error_event":
        flat = fault.word("form") == "flat"
        return dialect.fail_stream(ask, answer, failure_of(fault), int(fault.number("after")), flat), -1
    if fault is not None and fault.kind == "cut":
        event, byte = int(fault.number("event")), int(fault.number("byte"))
        # With neither named, in the middle.
        return answer.events, event if event >= 0 or byte >= 0 else len(answer.events) // 2
    return answer.events, -1


def whole(status: int, body: object, headers: dict[str, str]) -> Response:
    """An answer in one piece."""
    return Response(msgspec.json.encode(body), status, headers=headers, media_type="application/json")


def key_of(headers: dict[str, str]) -> str:
    """The key of a request, in whichever header its API puts it."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return headers.get("x-api-key") or headers.get("api-key") or bearer


def account_of(headers: dict[str, str]) -> str:
    """Whose state a request may see: every key is an organisation of its own, unless the request names one."""
    named = headers.get("openai-organization")
    return named or "org-" + hashlib.sha256(key_of(headers).encode()).hexdigest()[:24]
