"""From a request to its answer, the same way for every API. May know: HTTP, dialects, faults, minds. Decides: the order of things.

    a key -> JSON -> the fault that is due -> the law book -> the mind -> the answer, whole or as a stream

Nothing that comes in may end in a 500 of our own. What is stored is stored when the answer has been given to its end, so a stream
that was cut leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from legato.asgi import HANG_UP
from legato.emulator.asks import Answer, Ask, Event, Failure
from legato.emulator.dialect import Dialect
from legato.emulator.exchanges import Exchange, Exchanges
from legato.emulator.faults import HEADER, Fault, FaultPlan, failure_of, parse, spoil
from legato.emulator.keys import key_of
from legato.emulator.masking import LONGEST, masked, shortened
from legato.emulator.minds.base import Mind, Prompt, Say
from legato.emulator.reading import BAD_JSON, TOO_LARGE, TooLarge, json_of, read_body
from legato.emulator.turn import Cut, EventStream, HungUp, Refused, Torn, Turn
from legato.errors import BadInput, LegatoError


@runtime_checkable
class Choosy(Protocol):
    """A dialect in which several answers to one request can be asked for."""

    def prompts(self, ask: Ask) -> tuple[Prompt, ...]:
        """What the model is given for each."""
        ...

    def answer(self, ask: Ask, say: Say, *others: Say) -> Answer:
        """All that it says, as one object and its events."""
        ...


UNAUTHORIZED = Failure("unauthorized", 401)
Finder: TypeAlias = Callable[[Ask], tuple[int, dict[str, Any]]]


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
        longest: int | None = LONGEST,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.mind = mind
        self.faults = faults
        self.exchanges = exchanges
        self._keys = keys
        self._latency = latency
        self._seed = seed
        self._longest = longest
        self.now = clock

    async def answer(self, http: Request, dialect: Dialect, *, azure: bool = False) -> Response:
        """The answer to a request that asks for a reply."""
        number = self.exchanges.number()
        ask = self.ask(http, dialect.api, self.exchanges.requests, azure=azure)
        turn = Turn(ask, dialect, Exchange(number, ask.now, dialect.api, http.url.path, {}), self.exchanges)
        return await self._guarded(http, turn, self._answer)

    async def look(self, http: Request, dialect: Dialect, find: Finder, *, azure: bool = False) -> Response:
        """The answer to any other request: what is found, at once."""
        number, ask = self.exchanges.number(asks=False), self.ask(http, dialect.api, azure=azure)
        exchange = Exchange(number, ask.now, dialect.api, http.url.path, {}, method=http.method, asks=False)

        async def answer(http: Request, turn: Turn) -> Response:
            if self._refused_key(ask):
                raise turn.fail(UNAUTHORIZED)
            ask.body = await self._body(http, turn, may_be_empty=True)
            turn.exchange.request = self._kept(ask)
            if ask.stray is not None:
                raise turn.fail(BAD_JSON)
            status, told = find(ask)
            return turn.whole(status, told, dialect.headers(ask, streams=False, status=status))

        return await self._guarded(http, Turn(ask, dialect, exchange, self.exchanges), answer)

    async def _guarded(self, http: Request, turn: Turn, answer: Callable[[Request, Turn], Awaitable[Response]]) -> Response:
        """The answer, or what is said in its place."""
        try:
            return await answer(http, turn)
        except Refused as refused:
            return turn.refuse(refused.refusal)
        except RecursionError:  # JSON that is nested as deeply as it could just be read
            return turn.refuse(turn.fail(BAD_JSON).refusal)
        except LegatoError as error:  # a fault or a script that cannot be used: the person who wrote it is told
            return turn.refuse(turn.fail(Failure("emulator", 400, str(error))).refusal)
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
        if self._refused_key(ask):
            raise turn.fail(UNAUTHORIZED)
        ask.body = await self._body(http, turn)
        turn.exchange.request, turn.exchange.streams = self._kept(ask), ask.streams
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
            account=account_of(headers, api),
            now=self.now(),
            azure=azure,
            deployment=http.path_params.get("deployment", ""),
        )

    def _refused_key(self, ask: Ask) -> bool:
        """Whether the key is missing or none of those that are accepted."""
        key = key_of(ask.headers, ask.api)
        return not key or (bool(self._keys) and key not in self._keys)

    async def _body(self, http: Request, turn: Turn, *, may_be_empty: bool = False) -> dict[str, Any]:
        try:
            data = await read_body(http)
        except TooLarge:
            refusal = turn.fail(TOO_LARGE).refusal
            headers = {**refusal.headers, "connection": "close"}  # the rest of the body is not worth waiting for
            raise Refused(msgspec.structs.replace(refusal, headers=headers)) from None
        turn.ask.size = len(data)
        body = json_of(data) if data or not may_be_empty else {}
        if body is None:
            raise turn.fail(BAD_JSON)
        if not isinstance(body, dict):
            turn.ask.stray = body  # for the law book to refuse
            return {}
        return body

    def _kept(self, ask: Ask) -> dict[str, Any]:
        """The body of a request, as it is kept for people."""
        body = masked(ask.body)
        return shortened(body, self._longest) if self._longest is not None and ask.size > self._longest else body

    async def _fail(self, turn: Turn) -> None:
        """Let a fault strike that needs no reply to strike at."""
        fault = turn.fault
        if fault is None or fault.stage not in ("before", "state"):
            return
        if fault.stage == "state":
            if not turn.dialect.strike(turn.ask, fault.kind):
                turn.missed()
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
        if turn.fault is None and (text := self._ask_mind("fault", prompt)):
            fault = parse(text)
            turn.strike(fault)
            await self._fail(turn)
            if fault.stage == "state":
                turn.judge_again()
        turn.exchange.say = self._reply(turn, prompt)
        turn.exchange.note = self._ask_mind("note", prompt)
        return turn.exchange.say

    def _ask_mind(self, question: Literal["fault", "note"], prompt: Prompt) -> str:
        """What a mind says that it need not know of: the fault that its script has here, or how it came to its answer."""
        answer: Callable[[Prompt], str] | None = getattr(self.mind, question, None)
        return "" if answer is None else answer(prompt)

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
            raise turn.fail(Failure("emulator", 500, f"the emulator's mind failed: {type(error).__name__}: {error}")) from error
        _sendable(say, self.mind)
        if turn.fault is not None and turn.fault.stage == "say":
            spoiled = spoil(say, turn.fault)
            if spoiled == say:
                turn.missed()
            return spoiled
        return say


def _sendable(say: object, mind: Mind) -> None:
    """Whether it can be put on the wire: text must be text, and text that UTF-8 has."""
    try:
        msgspec.json.decode(msgspec.json.encode(say), type=Say)
        sendable = isinstance(say, Say)
    except (UnicodeError, msgspec.MsgspecError, TypeError):
        sendable = False
    if not sendable:
        raise BadInput(f"the mind {mind!r} says what cannot be sent", expected="a Say of texts in valid Unicode", found=repr(say)[:200])


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
        if delay and number:
            await asyncio.sleep(delay)
        turn.exchange.events += 1
        if number == len(events) - 1:  # over before its last event is sent: who has seen the end may go on from it, and look at it
            if events is answer.events:
                turn.dialect.keep(turn.ask, answer)
            turn.exchange.whole = True
            turn.close(200)
        yield data


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


def account_of(headers: dict[str, str], api: str) -> str:
    """Whose state a request may see: every key is an organisation of its own, unless the request names one."""
    named = headers.get("openai-organization")
    return named or "org-" + hashlib.sha256(key_of(headers, api).encode()).hexdigest()[:24]
