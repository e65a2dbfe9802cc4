"""Hostile inputs, and how long each may hold the event loop: `python -m tests.scale.hostile [name ...]`.

One table: what comes in, and what is done with it. A row prepares, and then does within the block of `measured` what may not stall. The
goal is `GOAL_MS` for each; those that are known to be over it say why in `docs/PERFORMANCE.md`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import httpx2
import openai

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.core.facts import Answered, AnyFact, Call, Opened, Said, Words
from legato.core.frame import Frame, encode_frame
from legato.core.view import Request
from legato.models import OpenAIChat, Reply
from legato.models.base import Emit
from legato.stores import MemoryStore, SQLiteStore
from legato.stores.contract import Store
from tests.scale.stalls import Stall, StallMeter, measured_stalls

GOAL_MS = 50.0
TURNS = 20_000
LARGE = 30_000_000
"""Characters of an argument, an output, a reply or a message."""

Row: TypeAlias = "Callable[[Path, Measured], Awaitable[None]]"
ROWS: dict[str, Row] = {}


def row(name: str) -> Callable[[Row], Row]:
    """Add a row to the table."""

    def add(doing: Row) -> Row:
        ROWS[name] = doing
        return doing

    return add


class Replying:
    """Replies to the request of one turn with these items, and to all others that it is done."""

    name = "replying"

    def __init__(self, *items: Words | Call, at: int = 0) -> None:
        self._items = items
        self._at = at

    async def reply(self, request: Request, emit: Emit) -> Reply:
        return Reply(items=(request.turn == self._at and self._items) or (Words("done"),))


def desk(*items: Words | Call, tools: list[Any] | None = None, at: int = 0) -> Workflow:
    return HandoffBuilder("desk", [Agent("clerk", "You are a clerk.", Replying(*items, at=at), tools or [])]).build()


# -- long ledgers ------------------------------------------------------------------------------------------------------


async def long_ledger(store: Store, turns: int = TURNS) -> None:
    """A session `s` of so many turns, as a driver would have written them."""
    digest, frame = encode_frame(Frame("clerk", "You are a clerk."))
    facts: list[AnyFact] = [Opened(at=1, ledger="l", workflow="desk")]
    for number in range(turns):
        facts.append(Said(at=2, content=f"Where is order {number}? I have been waiting for it since Monday."))
        words = Words(f"Order {number} was sent on Tuesday, and should be with you tomorrow morning. Is there anything else?")
        facts.append(Answered(at=3, agent="clerk", frame=digest, upto=2 * number + 1, items=(words,)))
    await store.append("s", 0, facts, contents={digest: frame}, born="l")


@row("20,000 turns opened from SQLite")
async def opened(folder: Path, measured: Measured) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await long_ledger(store)
    async with SQLiteStore(folder / "s.db") as store, measured:
        session = await desk().session("s", store=store).refresh()
        assert session.status == "waiting"


@row("20,000 turns opened from memory")
async def opened_in_memory(folder: Path, measured: Measured) -> None:
    store = MemoryStore()
    await long_ledger(store)
    async with measured:
        await desk().session("s", store=store).refresh()


@row("a message and its reply after 20,000 turns")
async def gone_on(folder: Path, measured: Measured) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await long_ledger(store)
        async with measured:
            session = desk().session("s", store=store)
            assert (await session.run("Hello?")).text == "done"
            del session


async def _opened_before(folder: Path, doing: Callable[[Any], Awaitable[object]], measured: Measured) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await long_ledger(store)
        session = await desk().session("s", store=store).refresh()
        async with measured:
            await doing(session)


@row("seen() after 20,000 turns")
async def seen(folder: Path, measured: Measured) -> None:
    await _opened_before(folder, lambda session: session.seen(), measured)


@row("explained() after 20,000 turns")
async def explained(folder: Path, measured: Measured) -> None:
    await _opened_before(folder, lambda session: session.explained(), measured)


@row("to_string() of 20,000 turns")
async def as_text(folder: Path, measured: Measured) -> None:
    await _opened_before(folder, lambda session: session.to_string(), measured)


@row("fork() in the middle of 20,000 turns")
async def forked(folder: Path, measured: Measured) -> None:
    await _opened_before(folder, lambda session: session.fork(TURNS), measured)


@row("a handle that is let go after 20,000 turns")
async def let_go(folder: Path, measured: Measured) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await long_ledger(store, 9_000)
        sessions = [await desk().session("s", store=store).refresh()]
        async with measured:
            sessions.clear()


# -- large values ------------------------------------------------------------------------------------------------------


@tool
def keep(text: str) -> str:
    """Keep a text."""
    return f"kept {len(text)} characters"


@tool(needs_approval=True)
def keep_if_allowed(text: str) -> str:
    """Keep a text, if somebody allows it."""
    return f"kept {len(text)} characters"


@tool
def keep_any(value: Any) -> str:
    """Keep anything."""
    return "kept"


@tool
def fetch() -> str:
    """Fetch a text."""
    return "x" * LARGE


async def _run(folder: Path, workflow: Workflow, measured: Measured, message: Any = "go", status: str = "waiting") -> None:
    async with SQLiteStore(folder / "s.db") as store:
        session = workflow.session("s", store=store)
        async with measured:
            result = await session.run(message)
            assert result.status == status, (result.status, result.error)


@row("a 30 MB argument")
async def argument(folder: Path, measured: Measured) -> None:
    await _run(folder, desk(Call("keep", json.dumps({"text": "x" * LARGE})), tools=[keep]), measured)


@row("a 30 MB argument that waits for approval")
async def gated(folder: Path, measured: Measured) -> None:
    workflow = desk(Call("keep_if_allowed", json.dumps({"text": "x" * LARGE})), tools=[keep_if_allowed])
    async with SQLiteStore(folder / "s.db") as store:
        session = workflow.session("s", store=store)
        async with measured:
            result = await session.run("go")
            await session.approve(result.pending[0])
            assert (await session.resume()).text == "done"


@row("a 30 MB argument of many small values")
async def many_values(folder: Path, measured: Measured) -> None:
    await _run(folder, desk(Call("keep_any", json.dumps({"value": [{"n": n} for n in range(LARGE // 15)]})), tools=[keep_any]), measured)


@row("a 30 MB argument, opened again")
async def argument_again(folder: Path, measured: Measured) -> None:
    workflow = desk(Call("keep", json.dumps({"text": "x" * LARGE})), tools=[keep])
    async with SQLiteStore(folder / "s.db") as store:
        await workflow.session("s", store=store).run("go")
    async with SQLiteStore(folder / "s.db") as store, measured:
        await workflow.session("s", store=store).refresh()


@row("a 30 MB output")
async def output(folder: Path, measured: Measured) -> None:
    await _run(folder, desk(Call("fetch", "{}"), tools=[fetch]), measured)


@row("a 30 MB reply")
async def reply(folder: Path, measured: Measured) -> None:
    await _run(folder, desk(Words("word " * (LARGE // 5))), measured)


@row("a 30 MB message of the user")
async def message(folder: Path, measured: Measured) -> None:
    await _run(folder, desk(), measured, "x" * LARGE)


@row("a message of 100,000 parts")
async def parts(folder: Path, measured: Measured) -> None:
    await _run(folder, desk(), measured, [f"part {number}" for number in range(100_000)])


@row("an argument that is nested 1,000,000 deep")
async def nested(folder: Path, measured: Measured) -> None:
    await _run(folder, desk(Call("keep_any", '{"value": ' + "[" * 1_000_000 + "]" * 1_000_000 + "}"), tools=[keep_any]), measured)


@row("4,000 calls in one reply")
async def calls(folder: Path, measured: Measured) -> None:
    await _run(folder, desk(*[Call("keep", '{"text": "x"}', f"call_{number}") for number in range(4_000)], tools=[keep]), measured)


# -- what a provider sends ---------------------------------------------------------------------------------------------


class Body(httpx2.AsyncByteStream):
    """A streamed answer, in these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await asyncio.sleep(0)  # as a socket gives everybody else a turn
            yield piece


def provided(pieces: Callable[[], list[bytes]], tools: list[Any] | None = None, kind: str = "text/event-stream") -> Workflow:
    """An agent whose provider answers with these bytes over the SDK's own transport."""
    answered = False

    def answer(request: httpx2.Request) -> httpx2.Response:
        nonlocal answered
        answered, first = True, not answered
        body = pieces() if first else [DONE]
        return httpx2.Response(200, headers={"content-type": kind if first else "text/event-stream"}, stream=Body(*body))

    client = openai.AsyncOpenAI(api_key="any", max_retries=0, http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(answer)))
    agent = Agent("clerk", "You are a clerk.", OpenAIChat("m", client=client), tools or [])
    return HandoffBuilder("desk", [agent]).build()


def event(delta: dict[str, Any], finish: Literal["stop", "tool_calls"] | None = None) -> bytes:
    return b"data: " + json.dumps({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode() + b"\n\n"


DONE = event({"role": "assistant", "content": "done"}, "stop") + b"data: [DONE]\n\n"


def chunks(data: bytes, size: int = 65_536) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@row("a streamed reply in pieces of one byte")
async def single_bytes(folder: Path, measured: Measured) -> None:
    data = b"".join(event({"content": "word "}) for _ in range(2_000)) + DONE
    await _run(folder, provided(lambda: chunks(data, 1)), measured)


@row("100,000 small events, 64 KB at a time")
async def small_events(folder: Path, measured: Measured) -> None:
    data = b"".join(event({"content": "w "}) for _ in range(100_000)) + DONE
    await _run(folder, provided(lambda: chunks(data)), measured)


@row("100,000 small events in one piece")
async def one_piece(folder: Path, measured: Measured) -> None:
    data = b"".join(event({"content": "w "}) for _ in range(100_000)) + DONE
    await _run(folder, provided(lambda: [data]), measured)


@row("a streamed line of 30 MB without an end")
async def endless_line(folder: Path, measured: Measured) -> None:
    data = b"data: " + b"x" * LARGE
    await _run(folder, provided(lambda: chunks(data)), measured)


@row("a streamed event of 30 MB")
async def large_event(folder: Path, measured: Measured) -> None:
    data = event({"content": "x" * LARGE}) + DONE
    await _run(folder, provided(lambda: chunks(data)), measured)


@row("a 30 MB argument, streamed")
async def streamed_argument(folder: Path, measured: Measured) -> None:
    piece = json.dumps({"text": "x" * LARGE})
    called = [{"index": 0, "id": "call_1", "function": {"name": "keep", "arguments": piece[:20]}}]
    rest = [event({"tool_calls": [{"index": 0, "function": {"arguments": part.decode()}}]}) for part in chunks(piece[20:].encode(), 1_000)]
    data = event({"tool_calls": called}) + b"".join(rest) + event({}, "tool_calls") + b"data: [DONE]\n\n"
    await _run(folder, provided(lambda: chunks(data), [keep]), measured)


@row("a tool schema of 3 MB")
async def huge_schema(folder: Path, measured: Measured) -> None:
    options = Literal[tuple(f"option {number} with a long name" for number in range(100_000))]  # type: ignore[valid-type]

    async def choose(option: options) -> str:  # type: ignore[valid-type]
        return "chosen"

    await _run(folder, provided(lambda: [DONE], [tool(choose)]), measured)


# -- measuring ---------------------------------------------------------------------------------------------------------


class Measured:
    """The block of a row in which nothing may stall."""

    def __init__(self) -> None:
        self.meter = StallMeter()

    async def __aenter__(self) -> None:
        self._block = measured_stalls()
        self.meter = await self._block.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._block.__aexit__(*error)


async def longest_stall(doing: Row) -> Stall:
    """Do what a row says, once."""
    measured = Measured()
    with tempfile.TemporaryDirectory() as folder:
        await doing(Path(folder), measured)
    return measured.meter.longest


def main(chosen: Sequence[str] = (), rounds: int = 3) -> None:
    """Print the longest stall of each row: of three runs the least, because other work on the machine only adds to it."""
    for name, doing in ROWS.items():
        if not chosen or any(each in name for each in chosen):
            least = min((asyncio.run(longest_stall(doing)) for _ in range(rounds)), key=lambda stall: stall.own_ms)
            over = "OVER " if least.own_ms > GOAL_MS else "     "
            collecting = f" and {least.collecting_ms:.0f} of the garbage collector" if least.collecting_ms > 1 else ""
            where = f", in {least.where}" if least.where else ""
            print(f"{over}{least.own_ms:8.1f} ms  {name}{collecting}{where}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
