"""Hostile inputs, the work that each may cost, and how long each holds the event loop: `python -m tests.scale.hostile [name ...]`.

One table: what comes in, how much of it, and what is done with it. A row prepares, and then does within the block of `measured` what may
not stall. Its work is `"constant"` or `"linear"` in its size: `test_hostile.py` counts it with small sizes. `make scale` does it in full
size and prints the longest stall. The goal is `GOAL_MS` for each; those that are known to be over it say why in `docs/PERFORMANCE.md`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import anthropic
import httpx2
import openai

from legato import Agent, HandoffBuilder, Limits, Workflow, tool
from legato.core.facts import AnyFact, Call, MessageReceived, ModelReplied, Opened, Words
from legato.core.turn_context import Frame, encode_frame
from legato.core.view import Request
from legato.models import Anthropic, OpenAIChat, OpenAIResponses, Reply
from legato.models.base import Emit
from legato.server import Server
from legato.stores import MemoryStore, SQLiteStore
from legato.stores.contract import Store
from tests.scale.stalls import Stall, StallMeter, measured_stalls

GOAL_MS = 50.0
TURNS = 20_000
LARGE = 30_000_000
"""Characters of an argument, an output, a reply or a message."""

Play: TypeAlias = "Callable[[Path, Measured, int], Awaitable[None]]"


class Row(NamedTuple):
    """One hostile input. `size`: how much of it comes in `make scale`; `few`: in the test, which compares it with four times as much."""

    play: Play
    size: int
    few: int
    work: Literal["constant", "linear"]


ROWS: dict[str, Row] = {}


def row(name: str, size: int, few: int, work: Literal["constant", "linear"] = "linear") -> Callable[[Play], Play]:
    """Add a row to the table."""

    def add(play: Play) -> Play:
        ROWS[name] = Row(play, size, few, work)
        return play

    return add


class Replying:
    """Replies to the request of one turn with these items, and to all others that it is done."""

    name = "replying"

    def __init__(self, *items: Words | Call, at: int = 0) -> None:
        self._items = items
        self._at = at

    async def reply(self, request: Request, emit: Emit) -> Reply:
        return Reply(items=(request.turn == self._at and self._items) or (Words("done"),))


UNLIMITED = Limits(calls_per_reply=None, argument_bytes=None, output_bytes=None)


def desk(*items: Words | Call, tools: list[Any] | None = None, at: int = 0, limits: Limits | None = None) -> Workflow:
    builder = HandoffBuilder("desk", [Agent("clerk", "You are a clerk.", Replying(*items, at=at), tools or [])])
    return (builder.with_limits(limits) if limits else builder).build()


# -- long ledgers ------------------------------------------------------------------------------------------------------


async def long_ledger(store: Store, turns: int = TURNS) -> None:
    """A session `s` of so many turns, as a driver would have written them."""
    digest, frame = encode_frame(Frame("clerk", "You are a clerk."))
    facts: list[AnyFact] = [Opened(at=1, ledger="l", workflow="desk")]
    for number in range(turns):
        facts.append(MessageReceived(at=2, content=f"Where is order {number}? I have been waiting for it since Monday."))
        words = Words(f"Order {number} was sent on Tuesday, and should be with you tomorrow morning. Is there anything else?")
        facts.append(ModelReplied(at=3, agent="clerk", frame=digest, upto=2 * number + 1, items=(words,)))
    await store.append("s", 0, facts, contents={digest: frame}, born="l")


@row("20,000 turns opened from SQLite", TURNS, 1_000)
async def opened(folder: Path, measured: Measured, size: int) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await long_ledger(store, size)
    async with SQLiteStore(folder / "s.db") as store, measured:
        session = await desk().session("s", store=store).refresh()
        assert session.status == "waiting"


@row("20,000 turns opened from memory", TURNS, 1_000)
async def opened_in_memory(folder: Path, measured: Measured, size: int) -> None:
    store = MemoryStore()
    await long_ledger(store, size)
    async with measured:
        await desk().session("s", store=store).refresh()


@row("a message and its reply after 20,000 turns", TURNS, 1_000)
async def gone_on(folder: Path, measured: Measured, size: int) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await long_ledger(store, size)
        async with measured:
            session = desk().session("s", store=store)
            assert (await session.run("Hello?")).text == "done"
            del session


async def _opened_before(folder: Path, doing: Callable[[Any], Awaitable[object]], measured: Measured, size: int) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await long_ledger(store, size)
        session = await desk().session("s", store=store).refresh()
        async with measured:
            await doing(session)


@row("seen() after 20,000 turns", TURNS, 1_000)
async def seen(folder: Path, measured: Measured, size: int) -> None:
    await _opened_before(folder, lambda session: session.seen(), measured, size)


@row("explained() after 20,000 turns", TURNS, 1_000)
async def explained(folder: Path, measured: Measured, size: int) -> None:
    await _opened_before(folder, lambda session: session.explained(), measured, size)


@row("to_string() of 20,000 turns", TURNS, 1_000)
async def as_text(folder: Path, measured: Measured, size: int) -> None:
    await _opened_before(folder, lambda session: session.to_string(), measured, size)


@row("fork() in the middle of 20,000 turns", TURNS, 1_000)
async def forked(folder: Path, measured: Measured, size: int) -> None:
    await _opened_before(folder, lambda session: session.fork(size), measured, size)


@row("a message to a cached conversation of 20,000 turns", TURNS, 1_000, "constant")
async def say_to_cached(folder: Path, measured: Measured, size: int) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await long_ledger(store, size)
        await desk().session("s", store=store).refresh()
        async with measured:
            await desk().session("s", store=store).say("And now?")


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


def text_argument(size: int) -> str:
    return json.dumps({"text": "x" * size})


async def _run(folder: Path, workflow: Workflow, measured: Measured, message: Any = "go", ends: str = "waiting") -> None:
    async with SQLiteStore(folder / "s.db") as store:
        session = workflow.session("s", store=store)
        async with measured:
            result = await session.run(message)
            assert result.status == ends, (result.status, result.error)


@row("a 30 MB argument", LARGE, 2_000_000, "constant")
async def argument(folder: Path, measured: Measured, size: int) -> None:
    """It is over the limit and does not run."""
    await _run(folder, desk(Call("keep", text_argument(size)), tools=[keep]), measured)


@row("a 30 MB argument, without limits", LARGE, 100_000, "constant")
async def unlimited_argument(folder: Path, measured: Measured, size: int) -> None:
    await _run(folder, desk(Call("keep", text_argument(size)), tools=[keep], limits=UNLIMITED), measured)


@row("a 1 MB argument that waits for approval", 1_000_000, 100_000, "constant")
async def gated(folder: Path, measured: Measured, size: int) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        session = desk(Call("keep_if_allowed", text_argument(size)), tools=[keep_if_allowed]).session("s", store=store)
        async with measured:
            result = await session.run("go")
            await session.approve(result.pending[0])
            assert (await session.resume()).text == "done"


@row("a 1 MB argument of many small values", 65_000, 1_000, "constant")
async def many_values(folder: Path, measured: Measured, size: int) -> None:
    await _run(folder, desk(Call("keep_any", json.dumps({"value": [{"n": n} for n in range(size)]})), tools=[keep_any]), measured)


@row("a 30 MB argument of many small values, without limits", 2_000_000, 1_000, "constant")
async def unlimited_values(folder: Path, measured: Measured, size: int) -> None:
    call = Call("keep_any", json.dumps({"value": [{"n": n} for n in range(size)]}))
    await _run(folder, desk(call, tools=[keep_any], limits=UNLIMITED), measured)


@row("a 30 MB argument, opened again", LARGE, 2_000_000, "constant")
async def argument_again(folder: Path, measured: Measured, size: int) -> None:
    workflow = desk(Call("keep", text_argument(size)), tools=[keep])
    async with SQLiteStore(folder / "s.db") as store:
        await workflow.session("s", store=store).run("go")
    async with SQLiteStore(folder / "s.db") as store, measured:
        await workflow.session("s", store=store).refresh()


def fetching(size: int) -> Any:
    """A tool that returns so many characters."""

    @tool
    def fetch() -> str:
        return "x" * size

    return fetch


@row("a 30 MB output", LARGE, 11_000_000, "constant")
async def output(folder: Path, measured: Measured, size: int) -> None:
    """It is over the limit, and is not kept."""
    await _run(folder, desk(Call("fetch", "{}"), tools=[fetching(size)]), measured)


@row("a 10 MB output", 10_000_000, 100_000, "constant")
async def kept_output(folder: Path, measured: Measured, size: int) -> None:
    await _run(folder, desk(Call("fetch", "{}"), tools=[fetching(size)]), measured)


@row("a 30 MB reply", LARGE, 100_000, "constant")
async def reply(folder: Path, measured: Measured, size: int) -> None:
    await _run(folder, desk(Words("word " * (size // 5))), measured)


@row("a 30 MB message of the user", LARGE, 100_000, "constant")
async def message(folder: Path, measured: Measured, size: int) -> None:
    await _run(folder, desk(), measured, "x" * size)


@row("a message of 100,000 parts", 100_000, 1_000)
async def parts(folder: Path, measured: Measured, size: int) -> None:
    await _run(folder, desk(), measured, [f"part {number}" for number in range(size)])


@row("an argument that is nested 500,000 deep", 500_000, 10_000, "constant")
async def nested(folder: Path, measured: Measured, size: int) -> None:
    await _run(folder, desk(Call("keep_any", '{"value": ' + "[" * size + "]" * size + "}"), tools=[keep_any]), measured)


@row("4,000 calls in one reply", 4_000, 500)
async def calls(folder: Path, measured: Measured, size: int) -> None:
    """All but 128 are over the limit."""
    await _run(folder, desk(*many_calls(size), tools=[keep]), measured)


@row("4,000 calls in one reply, without limits", 4_000, 200)
async def unlimited_calls(folder: Path, measured: Measured, size: int) -> None:
    await _run(folder, desk(*many_calls(size), tools=[keep], limits=UNLIMITED), measured)


@row("4,000 calls that wait for approval, without limits", 4_000, 200)
async def gated_calls(folder: Path, measured: Measured, size: int) -> None:
    workflow = desk(*many_calls(size, "keep_if_allowed"), tools=[keep_if_allowed], limits=UNLIMITED)
    await _run(folder, workflow, measured, ends="pending")


def many_calls(number: int, name: str = "keep") -> list[Call]:
    return [Call(name, '{"text": "x"}', f"call_{each}") for each in range(number)]


# -- what a provider sends ---------------------------------------------------------------------------------------------


class Body(httpx2.AsyncByteStream):
    """A streamed answer, in these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await asyncio.sleep(0)  # as a socket gives everybody else a turn
            yield piece


def provided(pieces: Callable[[], list[bytes]], tools: list[Any] | None = None, api: str = "chat", **headers: str) -> Workflow:
    """An agent whose provider answers the first request with these bytes, over the SDK's own transport, and all others that it is done."""
    answered = False

    def answer(request: httpx2.Request) -> httpx2.Response:
        nonlocal answered
        answered, first = True, not answered
        more = headers if first else {}
        return httpx2.Response(
            200, headers={"content-type": "text/event-stream", **more}, stream=Body(*(pieces() if first else [DONE_BY[api]]))
        )

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    agent = Agent("clerk", "You are a clerk.", MODELS[api](http), tools or [])
    return HandoffBuilder("desk", [agent]).build()


MODELS: dict[str, Callable[[httpx2.AsyncClient], Any]] = {
    "chat": lambda http: OpenAIChat("m", client=openai.AsyncOpenAI(api_key="any", max_retries=0, http_client=http)),
    "responses": lambda http: OpenAIResponses("m", client=openai.AsyncOpenAI(api_key="any", max_retries=0, http_client=http)),
    "anthropic": lambda http: Anthropic("m", client=anthropic.AsyncAnthropic(api_key="any", max_retries=0, http_client=http)),
}


def written(*events: Any) -> bytes:
    """Events as a provider sends them."""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def chat_event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return written({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def response_events(*texts: str) -> bytes:
    content = [{"type": "output_text", "text": "".join(texts), "annotations": []}]
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [said]}
    deltas = [{"type": "response.output_text.delta", "item_id": "msg_1", "delta": text} for text in texts]
    return written(*deltas, {"type": "response.completed", "response": whole})


def message_events(*texts: str) -> bytes:
    return written(
        {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )


def chat_events(*texts: str) -> bytes:
    return b"".join(chat_event({"content": text}) for text in texts) + chat_event({}, "stop") + b"data: [DONE]\n\n"


SAID_BY: dict[str, Callable[..., bytes]] = {"chat": chat_events, "responses": response_events, "anthropic": message_events}
DONE_BY = {api: said("done") for api, said in SAID_BY.items()}


def chunks(data: bytes, size: int = 65_536) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@row("a streamed reply in 100,000 pieces of one byte", 100_000, 2_000)
async def single_bytes(folder: Path, measured: Measured, size: int) -> None:
    data = b": " + b"x" * size + b"\n\n" + DONE_BY["chat"]
    await _run(folder, provided(lambda: chunks(data, 1)), measured)


def add_streams(api: str) -> None:
    """The rows of one provider's event streams."""

    @row(f"100,000 small events of {api}, 64 KB at a time", 100_000, 1_000)
    async def small_events(folder: Path, measured: Measured, size: int) -> None:
        data = SAID_BY[api](*(["w "] * size))
        await _run(folder, provided(lambda: chunks(data), api=api), measured)

    @row(f"a streamed event of 30 MB of {api}", LARGE, 3_000_000)
    async def large_event(folder: Path, measured: Measured, size: int) -> None:
        data = SAID_BY[api]("x" * size)
        await _run(folder, provided(lambda: chunks(data), api=api), measured)


for _api in SAID_BY:
    add_streams(_api)


@row("100,000 small events in one piece of gzip", 100_000, 1_000)
async def compressed(folder: Path, measured: Measured, size: int) -> None:
    data = gzip.compress(chat_events(*(["w "] * size)))
    await _run(folder, provided(lambda: [data], **{"content-encoding": "gzip"}), measured)


@row("a streamed line of 30 MB without an end", LARGE, 3_000_000)
async def endless_line(folder: Path, measured: Measured, size: int) -> None:
    """The reply is incomplete: what came is thrown away, and the model is asked again."""
    data = b"data: " + b"x" * size
    await _run(folder, provided(lambda: chunks(data)), measured)


@row("a 30 MB argument, streamed", LARGE, 2_000_000)
async def streamed_argument(folder: Path, measured: Measured, size: int) -> None:
    piece = text_argument(size)
    called = [{"index": 0, "id": "call_1", "function": {"name": "keep", "arguments": piece[:20]}}]
    texts = [part.decode() for part in chunks(piece[20:].encode(), 1_000)]
    rest = [chat_event({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}) for text in texts]
    data = chat_event({"tool_calls": called}) + b"".join(rest) + chat_event({}, "tool_calls") + b"data: [DONE]\n\n"
    await _run(folder, provided(lambda: chunks(data), [keep]), measured)


@row("a tool schema of 100,000 options", 100_000, 1_000)
async def huge_schema(folder: Path, measured: Measured, size: int) -> None:
    options = Literal[tuple(f"option {number} with a long name" for number in range(size))]  # type: ignore[valid-type]

    async def choose(option: options) -> str:  # type: ignore[valid-type]
        return "chosen"

    workflow = provided(lambda: [DONE_BY["chat"]], [tool(choose)])  # a program does this when it starts
    await _run(folder, workflow, measured)


# -- what a client of a served workflow sends --------------------------------------------------------------------------


async def _posted(measured: Measured, body: bytes, status: int) -> None:
    """Send a request to the OpenAI endpoint of a server that runs in the same event loop."""
    server = Server(desk(), port=0, token=TOKEN)
    server.listen()
    serving = asyncio.create_task(server.run())
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", "content-length": str(len(body))}
    async with httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=600) as client:
        assert (await client.get("/v1/models", headers=headers | {"content-length": "0"})).status_code == 200
        async with measured:
            answer = await client.post("/v1/responses", content=Body(*chunks(body)), headers=headers)
            assert answer.status_code == status, answer.text[:300]
    server.leave()
    await serving


TOKEN = "token-that-only-tests-have"


@row("a request of 15 MB with one text", 15_000_000, 100_000)
async def posted_text(folder: Path, measured: Measured, size: int) -> None:
    await _posted(measured, json.dumps({"model": "desk", "input": "x" * size}).encode(), 200)


@row("a request with 100,000 messages", 100_000, 1_000)
async def posted_messages(folder: Path, measured: Measured, size: int) -> None:
    said = [{"role": "user", "content": f"message {number}"} for number in range(size)]
    await _posted(measured, json.dumps({"model": "desk", "input": said}).encode(), 200)


@row("a request that is nested 1,000,000 deep", 1_000_000, 10_000)
async def posted_nested(folder: Path, measured: Measured, size: int) -> None:
    await _posted(measured, b'{"model": "desk", "input": ' + b"[" * size + b"]" * size + b"}", 400)


@row("a request of 100 MB, which is refused", 100_000_000, 22_000_000)
async def posted_too_much(folder: Path, measured: Measured, size: int) -> None:
    await _posted(measured, b'{"model": "desk", "input": "' + b"x" * size + b'"}', 413)


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


async def longest_stall(hostile: Row) -> Stall:
    """Do what a row says, once and in full size."""
    measured = Measured()
    with tempfile.TemporaryDirectory() as folder:
        await hostile.play(Path(folder), measured, hostile.size)
    return measured.meter.longest


def main(chosen: Sequence[str] = (), rounds: int = 3) -> None:
    """Print the longest stall of each row: of three runs the least, because other work on the machine only adds to it."""
    for name, hostile in ROWS.items():
        if not chosen or any(each in name for each in chosen):
            least = min((asyncio.run(longest_stall(hostile)) for _ in range(rounds)), key=lambda stall: stall.own_ms)
            over = "OVER " if least.own_ms > GOAL_MS else "     "
            collecting = f" and {least.collecting_ms:.0f} of the garbage collector" if least.collecting_ms > 1 else ""
            where = f", in {least.where}" if least.where else ""
            print(f"{over}{least.own_ms:8.1f} ms  {name}{collecting}{where}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
