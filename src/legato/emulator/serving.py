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
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from legato.emulator.asks import Answer, Ask, Event, Failure, Refusal
from legato.emulator.dialect import Dialect
from legato.emulator.exchanges import Exchange, Exchanges, Verdict
from legato.emulator.faults import HEADER, Fault, FaultPlan, failure_of, parse, spoil
from legato.emulator.minds.base import Mind, Prompt, Say
from legato.errors import BadInput, LegatoError

LARGEST = 32 * 1024 * 1024
"""Bytes of a request's body. Anthropic's limit; the others' are not far from it."""

UNREADABLE = "We could not parse the JSON body of your request. (HINT: the API expects a JSON object in the body.)"


class Cut(Exception):
    """The connection is broken on purpose. The server closes it and is silent about it."""


@runtime_checkable
class Faulty(Protocol):
    """A mind whose script has faults too."""

    def fault(self, prompt: Prompt) -> str:
        """The fault of the rule that applies, or nothing."""
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

    def accept(self) -> None:
        """The request is legal: take what it locks."""
        self.dialect.begin(self.ask)
        self._accepted = True

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
            return turn.refuse(dialect.fail(turn.ask, Failure("bad_json", 400, UNREADABLE)))
        except BadInput as error:  # a fault or a script that cannot be used: the person who wrote it is told
            return turn.refuse(dialect.fail(turn.ask, Failure("emulator", 400, str(error))))
        except BaseException:  # a connection that was cut, by a fault or by the client
            turn.close(499)
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
        if complaints := dialect.judge(ask):
            raise Refused(dialect.refuse(ask, complaints))
        turn.accept()
        answer = dialect.answer(ask, await self._speak(turn))
        if ask.streams:
            turn.exchange.reply = answer.body
            return EventStream(turn, _events(turn, answer))
        await _disturb(turn, answer)
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
            raise turn.fail(Failure("too_large", 413, "Request exceeds the maximum size.")) from None
        turn.ask.size = len(data)
        body = json_of(data)
        if not isinstance(body, dict):
            raise turn.fail(Failure("bad_json", 400, UNREADABLE))
        return body

    async def _fail(self, turn: Turn) -> None:
        """Let a fault strike that needs no reply to strike at."""
        fault = turn.fault
        if fault is None or fault.stage not in ("before", "state"):
            return
        if fault.stage == "state":
            turn.dialect.strike(turn.ask, fault.kind)
            return
        if fault.kind == "hang_up":
            raise Cut
        if fault.kind == "timeout":
            await asyncio.sleep(fault.number("seconds"))
        raise turn.fail(failure_of(fault))

    async def _speak(self, turn: Turn) -> Say:
        """What the mind says, spoiled if that is the fault. A script may have a fault of its own."""
        prompt = turn.exchange.prompt = turn.dialect.prompt(turn.ask)
        if self._seed:
            prompt = turn.exchange.prompt = msgspec.structs.replace(prompt, seed=prompt.seed + self._seed)
        if turn.fault is None and isinstance(self.mind, Faulty) and (text := self.mind.fault(prompt)):
            turn.strike(parse(text))
            await self._fail(turn)
        try:
            say = self.mind.reply(prompt)
        except LegatoError:
            raise
        except Exception as error:  # a function of the user's own
            raise turn.fail(Failure("server_error", 500, f"the emulator's mind failed: {type(error).__name__}: {error}")) from error
        if turn.fault is not None and turn.fault.stage == "say":
            say = spoil(say, turn.fault)
        turn.exchange.say = say
        return say


class TooLarge(Exception):
    """A body beyond what is accepted."""


async def read_body(http: Request) -> bytes:
    """The body of a request, or `TooLarge`."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in http.stream():
        size += len(chunk)
        if size > LARGEST:
            raise TooLarge
        chunks.append(chunk)
    return b"".join(chunks)


def json_of(data: bytes) -> Any:
    """What a body says; None if it is no JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


async def _disturb(turn: Turn, answer: Answer) -> None:
    """A fault of streams, at an answer that is none."""
    fault = turn.fault
    if fault is None or fault.stage != "stream":
        return
    if fault.kind == "cut":
        raise Cut
    if fault.kind == "error_event":
        raise turn.fail(failure_of(fault))
    await asyncio.sleep(fault.number("delay") * len(answer.events))


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
