"""Hostile inputs, the work that each may cost, and how long each holds the event loop: `python -m tests.scale.hostile_inputs [name ...]`.

Each row of the table names an input, its size and the operation on it. A row prepares its input, and then runs the operation within the
measured block. The work is `"constant"` or `"linear"` in the size: `test_hostile_inputs.py` counts it with small sizes. `make scale` runs
the full sizes and prints the longest stall. The goal is `GOAL_MS` for each; `docs/PERFORMANCE.md` explains the rows above it.
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
from legato.core.facts import AnyFact, Call, MessageReceived, ModelReplied, Opened, OutputText
from legato.core.turn_context import TurnContext, encode_turn_context
from legato.core.view import ModelRequest
from legato.models import Anthropic, ModelReply, OpenAIChat, OpenAIResponses
from legato.models.model import Emit
from legato.server import Server
from legato.stores import MemoryStore, SQLiteStore
from legato.stores.contract import Store
from tests.scale.stalls import Stall, StallMeter, measure_stalls

GOAL_MS = 50.0
TURN_COUNT = 20_000
LARGE_CHARS = 30_000_000
"""Characters of an argument, an output, a reply or a message."""

RunInput: TypeAlias = "Callable[[Path, MeasuredBlock, int], Awaitable[None]]"


class HostileInput(NamedTuple):
    """One hostile input. `size`: its size in `make scale`; `test_size`: its size in the test, which compares it with four times as much."""

    run_input: RunInput
    size: int
    test_size: int
    work: Literal["constant", "linear"]


HOSTILE_INPUTS: dict[str, HostileInput] = {}


def add_input(name: str, size: int, test_size: int, work: Literal["constant", "linear"] = "linear") -> Callable[[RunInput], RunInput]:
    """Add a row to the table."""

    def add(run_input: RunInput) -> RunInput:
        HOSTILE_INPUTS[name] = HostileInput(run_input, size, test_size, work)
        return run_input

    return add


class FixedReplyModel:
    """A model that replies with these items to one request, and with "done" to all others."""

    name = "replying"

    def __init__(self, *items: OutputText | Call, at: int = 0) -> None:
        self._items = items
        self._at = at

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        return ModelReply(items=(request.reply_count == self._at and self._items) or (OutputText("done"),))


UNLIMITED = Limits(calls_per_reply=None, argument_bytes=None, output_bytes=None)


def build_desk(*items: OutputText | Call, tools: list[Any] | None = None, at: int = 0, limits: Limits | None = None) -> Workflow:
    builder = HandoffBuilder("desk", [Agent("clerk", "You are a clerk.", FixedReplyModel(*items, at=at), tools or [])])
    return (builder.with_limits(limits) if limits else builder).build()


# -- long ledgers ------------------------------------------------------------------------------------------------------


async def append_turns(store: Store, turns: int = TURN_COUNT) -> None:
    """Append a session `s` with this many turns, as a driver writes them."""
    digest, context = encode_turn_context(TurnContext("clerk", "You are a clerk."))
    facts: list[AnyFact] = [Opened(at=1, ledger_id="l", workflow="desk")]
    for number in range(turns):
        facts.append(MessageReceived(at=2, content=f"Where is order {number}? I have been waiting for it since Monday."))
        text = OutputText(f"Order {number} was sent on Tuesday, and should be with you tomorrow morning. Is there anything else?")
        facts.append(ModelReplied(at=3, agent="clerk", context_digest=digest, upto=2 * number + 1, items=(text,)))
    await store.append("s", 0, facts, contents={digest: context}, ledger_id="l")


@add_input("20,000 turns opened from SQLite", TURN_COUNT, 1_000)
async def open_from_sqlite(folder: Path, block: MeasuredBlock, size: int) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await append_turns(store, size)
    async with SQLiteStore(folder / "s.db") as store, block:
        session = await build_desk().session("s", store=store).refresh()
        assert session.status == "waiting"


@add_input("20,000 turns opened from memory", TURN_COUNT, 1_000)
async def open_from_memory(folder: Path, block: MeasuredBlock, size: int) -> None:
    store = MemoryStore()
    await append_turns(store, size)
    async with block:
        await build_desk().session("s", store=store).refresh()


@add_input("a message and its reply after 20,000 turns", TURN_COUNT, 1_000)
async def run_after_long_history(folder: Path, block: MeasuredBlock, size: int) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await append_turns(store, size)
        async with block:
            session = build_desk().session("s", store=store)
            assert (await session.run("Hello?")).text == "done"
            del session


async def _measure_opened_session(folder: Path, operation: Callable[[Any], Awaitable[object]], block: MeasuredBlock, size: int) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await append_turns(store, size)
        session = await build_desk().session("s", store=store).refresh()
        async with block:
            await operation(session)


@add_input("seen() after 20,000 turns", TURN_COUNT, 1_000)
async def read_request(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_opened_session(folder, lambda session: session.seen(), block, size)


@add_input("explain() after 20,000 turns", TURN_COUNT, 1_000)
async def explain_session(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_opened_session(folder, lambda session: session.explain(), block, size)


@add_input("to_string() of 20,000 turns", TURN_COUNT, 1_000)
async def export_session(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_opened_session(folder, lambda session: session.to_string(), block, size)


@add_input("fork() in the middle of 20,000 turns", TURN_COUNT, 1_000)
async def fork_session(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_opened_session(folder, lambda session: session.fork(size), block, size)


@add_input("a message to a cached conversation of 20,000 turns", TURN_COUNT, 1_000, "constant")
async def send_to_cached_session(folder: Path, block: MeasuredBlock, size: int) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        await append_turns(store, size)
        await build_desk().session("s", store=store).refresh()
        async with block:
            await build_desk().session("s", store=store).say("And now?")


# -- large values ------------------------------------------------------------------------------------------------------


@tool
def keep(text: str) -> str:
    """Keep a text."""
    return f"kept {len(text)} characters"


@tool(needs_approval=True)
def keep_with_approval(text: str) -> str:
    """Keep a text after an approval."""
    return f"kept {len(text)} characters"


@tool
def keep_any(value: Any) -> str:
    """Keep anything."""
    return "kept"


def make_text_argument(size: int) -> str:
    return json.dumps({"text": "x" * size})


async def _measure_run(
    folder: Path, workflow: Workflow, block: MeasuredBlock, message: Any = "go", expected_status: str = "waiting"
) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        session = workflow.session("s", store=store)
        async with block:
            result = await session.run(message)
            assert result.status == expected_status, (result.status, result.error)


@add_input("a 30 MB argument", LARGE_CHARS, 2_000_000, "constant")
async def call_with_large_argument(folder: Path, block: MeasuredBlock, size: int) -> None:
    """The call is over the limit and does not run."""
    await _measure_run(folder, build_desk(Call("keep", make_text_argument(size)), tools=[keep]), block)


@add_input("a 30 MB argument, without limits", LARGE_CHARS, 100_000, "constant")
async def call_with_unlimited_argument(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_run(folder, build_desk(Call("keep", make_text_argument(size)), tools=[keep], limits=UNLIMITED), block)


@add_input("a 1 MB argument that waits for approval", 1_000_000, 100_000, "constant")
async def approve_large_argument(folder: Path, block: MeasuredBlock, size: int) -> None:
    async with SQLiteStore(folder / "s.db") as store:
        session = build_desk(Call("keep_with_approval", make_text_argument(size)), tools=[keep_with_approval]).session("s", store=store)
        async with block:
            result = await session.run("go")
            await session.approve(result.pending[0])
            assert (await session.resume()).text == "done"


@add_input("a 1 MB argument of many small values", 65_000, 1_000, "constant")
async def call_with_many_values(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_run(
        folder, build_desk(Call("keep_any", json.dumps({"value": [{"n": n} for n in range(size)]})), tools=[keep_any]), block
    )


@add_input("a 30 MB argument of many small values, without limits", 2_000_000, 1_000, "constant")
async def call_with_unlimited_values(folder: Path, block: MeasuredBlock, size: int) -> None:
    call = Call("keep_any", json.dumps({"value": [{"n": n} for n in range(size)]}))
    await _measure_run(folder, build_desk(call, tools=[keep_any], limits=UNLIMITED), block)


@add_input("a 30 MB argument, opened again", LARGE_CHARS, 2_000_000, "constant")
async def reopen_large_argument(folder: Path, block: MeasuredBlock, size: int) -> None:
    workflow = build_desk(Call("keep", make_text_argument(size)), tools=[keep])
    async with SQLiteStore(folder / "s.db") as store:
        await workflow.session("s", store=store).run("go")
    async with SQLiteStore(folder / "s.db") as store, block:
        await workflow.session("s", store=store).refresh()


def make_fetch_tool(size: int) -> Any:
    """Return a tool whose output has this many characters."""

    @tool
    def fetch() -> str:
        return "x" * size

    return fetch


@add_input("a 30 MB output", LARGE_CHARS, 11_000_000, "constant")
async def return_too_large_output(folder: Path, block: MeasuredBlock, size: int) -> None:
    """The output is over the limit, and is not recorded."""
    await _measure_run(folder, build_desk(Call("fetch", "{}"), tools=[make_fetch_tool(size)]), block)


@add_input("a 10 MB output", 10_000_000, 100_000, "constant")
async def return_large_output(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_run(folder, build_desk(Call("fetch", "{}"), tools=[make_fetch_tool(size)]), block)


@add_input("a 30 MB reply", LARGE_CHARS, 100_000, "constant")
async def receive_large_reply(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_run(folder, build_desk(OutputText("word " * (size // 5))), block)


@add_input("a 30 MB message of the user", LARGE_CHARS, 100_000, "constant")
async def send_large_message(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_run(folder, build_desk(), block, "x" * size)


@add_input("a message of 100,000 parts", 100_000, 1_000)
async def send_many_parts(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_run(folder, build_desk(), block, [f"part {number}" for number in range(size)])


@add_input("an argument that is nested 500,000 deep", 500_000, 10_000, "constant")
async def call_with_nested_argument(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_run(folder, build_desk(Call("keep_any", '{"value": ' + "[" * size + "]" * size + "}"), tools=[keep_any]), block)


@add_input("4,000 calls in one reply", 4_000, 500)
async def reply_with_many_calls(folder: Path, block: MeasuredBlock, size: int) -> None:
    """All calls but 128 are over the limit."""
    await _measure_run(folder, build_desk(*make_calls(size), tools=[keep]), block)


@add_input("4,000 calls in one reply, without limits", 4_000, 200)
async def reply_with_unlimited_calls(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_run(folder, build_desk(*make_calls(size), tools=[keep], limits=UNLIMITED), block)


@add_input("4,000 calls that wait for approval, without limits", 4_000, 200)
async def reply_with_calls_to_approve(folder: Path, block: MeasuredBlock, size: int) -> None:
    workflow = build_desk(*make_calls(size, "keep_with_approval"), tools=[keep_with_approval], limits=UNLIMITED)
    await _measure_run(folder, workflow, block, expected_status="pending")


def make_calls(number: int, name: str = "keep") -> list[Call]:
    return [Call(name, '{"text": "x"}', f"call_{each}") for each in range(number)]


# -- answers of a provider ---------------------------------------------------------------------------------------------


class StreamedBody(httpx2.AsyncByteStream):
    """A streamed answer, in these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await asyncio.sleep(0)  # other tasks run, as they do when a socket is read
            yield piece


def build_desk_with_provider(
    pieces: Callable[[], list[bytes]], tools: list[Any] | None = None, api: str = "chat", **headers: str
) -> Workflow:
    """Build an agent whose provider answers the first request with these bytes, over the SDK's transport, and all others with "done"."""
    has_answered = False

    def answer(request: httpx2.Request) -> httpx2.Response:
        nonlocal has_answered
        has_answered, first = True, not has_answered
        more = headers if first else {}
        return httpx2.Response(
            200, headers={"content-type": "text/event-stream", **more}, stream=StreamedBody(*(pieces() if first else [DONE_EVENTS[api]]))
        )

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    agent = Agent("clerk", "You are a clerk.", MODELS[api](http), tools or [])
    return HandoffBuilder("desk", [agent]).build()


MODELS: dict[str, Callable[[httpx2.AsyncClient], Any]] = {
    "chat": lambda http: OpenAIChat("m", client=openai.AsyncOpenAI(api_key="any", max_retries=0, http_client=http)),
    "responses": lambda http: OpenAIResponses("m", client=openai.AsyncOpenAI(api_key="any", max_retries=0, http_client=http)),
    "anthropic": lambda http: Anthropic("m", client=anthropic.AsyncAnthropic(api_key="any", max_retries=0, http_client=http)),
}


def encode_events(*events: Any) -> bytes:
    """Encode events as a provider sends them."""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def encode_chat_event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return encode_events({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def encode_response_events(*texts: str) -> bytes:
    content = [{"type": "output_text", "text": "".join(texts), "annotations": []}]
    items = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [items]}
    deltas = [{"type": "response.output_text.delta", "item_id": "msg_1", "delta": text} for text in texts]
    return encode_events(*deltas, {"type": "response.completed", "response": whole})


def encode_message_events(*texts: str) -> bytes:
    return encode_events(
        {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )


def encode_chat_events(*texts: str) -> bytes:
    return b"".join(encode_chat_event({"content": text}) for text in texts) + encode_chat_event({}, "stop") + b"data: [DONE]\n\n"


ENCODERS: dict[str, Callable[..., bytes]] = {
    "chat": encode_chat_events,
    "responses": encode_response_events,
    "anthropic": encode_message_events,
}
DONE_EVENTS = {api: items("done") for api, items in ENCODERS.items()}


def split_chunks(data: bytes, size: int = 65_536) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@add_input("a streamed reply in 100,000 pieces of one byte", 100_000, 2_000)
async def stream_single_bytes(folder: Path, block: MeasuredBlock, size: int) -> None:
    data = b": " + b"x" * size + b"\n\n" + DONE_EVENTS["chat"]
    await _measure_run(folder, build_desk_with_provider(lambda: split_chunks(data, 1)), block)


def add_stream_inputs(api: str) -> None:
    """Add the rows of one provider's event streams."""

    @add_input(f"100,000 small events of {api}, 64 KB at a time", 100_000, 1_000)
    async def small_events(folder: Path, block: MeasuredBlock, size: int) -> None:
        data = ENCODERS[api](*(["w "] * size))
        await _measure_run(folder, build_desk_with_provider(lambda: split_chunks(data), api=api), block)

    @add_input(f"a streamed event of 30 MB of {api}", LARGE_CHARS, 3_000_000)
    async def large_event(folder: Path, block: MeasuredBlock, size: int) -> None:
        data = ENCODERS[api]("x" * size)
        await _measure_run(folder, build_desk_with_provider(lambda: split_chunks(data), api=api), block)


for _api in ENCODERS:
    add_stream_inputs(_api)


@add_input("100,000 small events in one piece of gzip", 100_000, 1_000)
async def stream_gzip(folder: Path, block: MeasuredBlock, size: int) -> None:
    data = gzip.compress(encode_chat_events(*(["w "] * size)))
    await _measure_run(folder, build_desk_with_provider(lambda: [data], **{"content-encoding": "gzip"}), block)


@add_input("a streamed line of 30 MB without an end", LARGE_CHARS, 3_000_000)
async def stream_endless_line(folder: Path, block: MeasuredBlock, size: int) -> None:
    """The reply is incomplete: its text is dropped, and the model is requested again."""
    data = b"data: " + b"x" * size
    await _measure_run(folder, build_desk_with_provider(lambda: split_chunks(data)), block)


@add_input("a 30 MB argument, streamed", LARGE_CHARS, 2_000_000)
async def stream_large_argument(folder: Path, block: MeasuredBlock, size: int) -> None:
    piece = make_text_argument(size)
    tool_calls = [{"index": 0, "id": "call_1", "function": {"name": "keep", "arguments": piece[:20]}}]
    texts = [part.decode() for part in split_chunks(piece[20:].encode(), 1_000)]
    rest = [encode_chat_event({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}) for text in texts]
    data = encode_chat_event({"tool_calls": tool_calls}) + b"".join(rest) + encode_chat_event({}, "tool_calls") + b"data: [DONE]\n\n"
    await _measure_run(folder, build_desk_with_provider(lambda: split_chunks(data), [keep]), block)


@add_input("a tool schema of 100,000 options", 100_000, 1_000)
async def build_huge_schema(folder: Path, block: MeasuredBlock, size: int) -> None:
    options = Literal[tuple(f"option {number} with a long name" for number in range(size))]  # type: ignore[valid-type]

    async def choose(option: options) -> str:  # type: ignore[valid-type]
        return "chosen"

    workflow = build_desk_with_provider(lambda: [DONE_EVENTS["chat"]], [tool(choose)])  # a program does this when it starts
    await _measure_run(folder, workflow, block)


# -- requests to a served workflow -------------------------------------------------------------------------------------


async def _measure_post(block: MeasuredBlock, body: bytes, status: int) -> None:
    """Send a request to the OpenAI endpoint of a server that runs in the same event loop."""
    server = Server(build_desk(), port=0, token=TOKEN)
    server.listen()
    serving = asyncio.create_task(server.run())
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", "content-length": str(len(body))}
    async with httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=600) as client:
        assert (await client.get("/v1/models", headers=headers | {"content-length": "0"})).status_code == 200
        async with block:
            answer = await client.post("/v1/responses", content=StreamedBody(*split_chunks(body)), headers=headers)
            assert answer.status_code == status, answer.text[:300]
    server.request_stop()
    await serving


TOKEN = "token-that-only-tests-have"


@add_input("a request of 15 MB with one text", 15_000_000, 100_000)
async def post_large_text(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_post(block, json.dumps({"model": "desk", "input": "x" * size}).encode(), 200)


@add_input("a request with 100,000 messages", 100_000, 1_000)
async def post_many_messages(folder: Path, block: MeasuredBlock, size: int) -> None:
    items = [{"role": "user", "content": f"message {number}"} for number in range(size)]
    await _measure_post(block, json.dumps({"model": "desk", "input": items}).encode(), 200)


@add_input("a request that is nested 1,000,000 deep", 1_000_000, 10_000)
async def post_nested_input(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_post(block, b'{"model": "desk", "input": ' + b"[" * size + b"]" * size + b"}", 400)


@add_input("a request of 100 MB, which is refused", 100_000_000, 22_000_000)
async def post_too_large_body(folder: Path, block: MeasuredBlock, size: int) -> None:
    await _measure_post(block, b'{"model": "desk", "input": "' + b"x" * size + b'"}', 413)


# -- measuring ---------------------------------------------------------------------------------------------------------


class MeasuredBlock:
    """The block of a row in which stalls are measured."""

    def __init__(self) -> None:
        self.meter = StallMeter()

    async def __aenter__(self) -> None:
        self._block = measure_stalls()
        self.meter = await self._block.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._block.__aexit__(*error)


async def measure_longest_stall(hostile: HostileInput) -> Stall:
    """Run a row once in full size; return its longest stall."""
    block = MeasuredBlock()
    with tempfile.TemporaryDirectory() as folder:
        await hostile.run_input(Path(folder), block, hostile.size)
    return block.meter.longest


def main(name_parts: Sequence[str] = (), rounds: int = 3) -> None:
    """Print the longest stall of each row: the minimum of three runs, because other work of the machine only adds to it."""
    for name, hostile in HOSTILE_INPUTS.items():
        if not name_parts or any(each in name for each in name_parts):
            shortest = min((asyncio.run(measure_longest_stall(hostile)) for _ in range(rounds)), key=lambda stall: stall.ms_without_gc)
            marker = "OVER " if shortest.ms_without_gc > GOAL_MS else "     "
            gc_suffix = f" and {shortest.gc_ms:.0f} of the garbage collector" if shortest.gc_ms > 1 else ""
            location_suffix = f", in {shortest.location}" if shortest.location else ""
            print(f"{marker}{shortest.ms_without_gc:8.1f} ms  {name}{gc_suffix}{location_suffix}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
