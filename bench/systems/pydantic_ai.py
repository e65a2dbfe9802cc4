"""Pydantic AI. Handoffs as its documentation calls programmatic: an agent's run ends with an output tool that names the next agent, and the
application runs that one with the conversation so far. A conversation is carried from run to run as its `Conversation` object.

There is no durable store in the package, so two are measured: the conversation as JSON in a file, written whole after every turn with
`ConversationTypeAdapter`; and its append-only `ConversationStore`, whose storage functions we wrote over SQLite (write-ahead log,
`synchronous=NORMAL`). In its favour: the fake model says what it used, so that nothing is estimated; usage limits are lifted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _path  # noqa: F401 - adds this tree to the import path
from openai import AsyncOpenAI
from pydantic import TypeAdapter
from pydantic_ai import Agent, DeferredToolRequests, Tool, ToolOutput
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord, ConversationStore
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage, UsageLimits

from bench.script_harness import (
    Clock,
    Figures,
    Options,
    compare_first_and_last,
    main,
    measure_crowd,
    measure_opening,
    measure_size,
    reply_in_crowd,
)
from bench.sdk_calls import KEY, MODEL, SendMessage, measure_sdk_calls
from bench.workloads import (
    AGENTS,
    INSTRUCTIONS,
    TOOLS,
    Play,
    PlayTurn,
    RequestContent,
    encode_arguments,
    make_ping_pong,
    make_plain_chat,
    make_tool_chat,
    name_handoff_tool,
)

NO_LIMITS = UsageLimits(request_limit=None)
USAGE = RequestUsage(input_tokens=100, output_tokens=100)


def fake(play: Play) -> FunctionModel:
    """Return a model that replies with the next turns of a play."""

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return make_response(play.reply(lambda: read_request_content(messages)))

    return FunctionModel(reply)


def make_response(turn: PlayTurn) -> ModelResponse:
    calls = [ToolCallPart(call.tool, encode_arguments(call), call.id) for call in turn.calls]
    return ModelResponse(parts=[TextPart(turn.text), *calls], usage=USAGE)


def read_request_content(messages: list[ModelMessage]) -> RequestContent:
    parts = [part for message in messages for part in message.parts]
    return RequestContent(
        [str(part.content) for part in parts if isinstance(part, (TextPart, UserPromptPart, ToolReturnPart))],
        [part.tool_call_id for part in parts if isinstance(part, ToolCallPart)],
        [part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)],
    )


@dataclass
class HandoffTarget:
    """What a run ends with that hands over."""

    agent: str


def build_desk(model: Any) -> dict[str, Agent[None, Any]]:
    def make_handoff_output(name: str) -> ToolOutput[HandoffTarget]:
        async def hand_over() -> HandoffTarget:
            """Hand over to a colleague."""
            return HandoffTarget(name)

        return ToolOutput(hand_over, name=name_handoff_tool(name))

    ann, bob = AGENTS
    return {
        ann: Agent(model, instructions=INSTRUCTIONS, output_type=[make_handoff_output(bob), str]),
        bob: Agent(model, instructions=INSTRUCTIONS, output_type=[make_handoff_output(ann), str]),
    }


def build_chat_agent(model: Any, tools: Sequence[Tool[None]] = (), gated: bool = False) -> Agent[None, Any]:
    return Agent(model, instructions=INSTRUCTIONS, tools=tools, output_type=[str, DeferredToolRequests] if gated else str)


def make_tools(play: Play, gated: bool = False) -> list[Tool[None]]:
    def make(name: str) -> Tool[None]:
        async def look(key: str) -> str:
            """Look something up."""
            return play.make_tool_output(name, key)

        return Tool(look, name=name, requires_approval=gated and name == TOOLS[0])

    return [make(name) for name in TOOLS]


class SqliteStore(ConversationStore):
    """The five functions that its documentation asks of a backend, over one file."""

    entries: TypeAdapter[ConversationEntry] = TypeAdapter(ConversationEntry)
    records: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=NORMAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS records(id TEXT PRIMARY KEY, revision TEXT, body BLOB)")
        self.db.execute("CREATE TABLE IF NOT EXISTS entries(id TEXT PRIMARY KEY, parent TEXT, body BLOB)")

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        row = self.db.execute("SELECT body FROM records WHERE id = ?", (conversation_id,)).fetchone()
        return self.records.validate_json(row[0]) if row else None

    async def write_record(
        self, record: ConversationRecord, *, new_entries: Sequence[ConversationEntry] = (), expected_revision: str | None
    ) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        row = self.db.execute("SELECT revision FROM records WHERE id = ?", (record.conversation_id,)).fetchone()
        if (row[0] if row else None) != expected_revision:
            self.db.execute("ROLLBACK")
            raise ConversationConflict(record.conversation_id)
        rows = [(entry.id, entry.parent_id, self.entries.dump_json(entry)) for entry in new_entries]
        self.db.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
        body = self.records.dump_json(record)
        self.db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", (record.conversation_id, record.revision, body))
        self.db.execute("COMMIT")

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        rows = self.db.execute(
            "WITH RECURSIVE history(parent, body) AS (SELECT parent, body FROM entries WHERE id = ? UNION ALL SELECT entries.parent, "
            "entries.body FROM history JOIN entries ON entries.id = history.parent) SELECT body FROM history LIMIT ?",
            (head_id, -1 if limit is None else limit),
        )
        return [self.entries.validate_json(body) for (body,) in rows][::-1]

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        return self.entries.validate_json(self.db.execute("SELECT body FROM entries WHERE id = ?", (entry_id,)).fetchone()[0])

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        raise NotImplementedError

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        raise NotImplementedError


class ConversationFile:
    """Makes a conversation durable after a turn: not at all, as a whole file, or by appending to a store."""

    def __init__(self, variant: str, path: Path) -> None:
        self.path = None if variant == "memory" else path
        self.store = SqliteStore(path) if variant == "sqlite store by us" else None

    async def keep(self, result: Any) -> Conversation:
        if self.store:
            await self.store.save(result)
        elif self.path:
            self.path.write_bytes(ConversationTypeAdapter.dump_json(result.conversation))
        conversation: Conversation = result.conversation
        return conversation

    async def load(self) -> Conversation:
        if self.store:
            return await self.store.load("s") or Conversation(conversation_id="s")
        assert self.path is not None
        return ConversationTypeAdapter.validate_json(self.path.read_bytes()) if self.path.exists() else Conversation(conversation_id="s")

    def close(self) -> None:
        if self.store:
            self.store.db.close()

    def size(self) -> int | None:
        return measure_size(self.path) if self.path else None


async def discuss(
    agents: dict[str, Agent[None, Any]], question: str, talk: Conversation, keeper: ConversationFile | None = None, name: str = "ann"
) -> Any:
    """One question, through all handoffs, to its answer. What the application has to do for handoffs."""
    prompt: str | None = question
    while True:
        result = await agents[name].run(prompt, conversation=talk, usage_limits=NO_LIMITS)
        talk = await keeper.keep(result) if keeper else result.conversation
        if not isinstance(result.output, HandoffTarget):
            return result
        name, prompt = result.output.agent, None


# -- workloads ---------------------------------------------------------------------------------------------------------------------


async def run_w1(options: Options) -> AsyncIterator[Figures]:
    play = make_ping_pong(options.n)
    agents = build_desk(fake(play))
    with Clock(play) as clock:
        await discuss(agents, play.make_user_message(0), Conversation())
    yield clock.make_figures(options.n, extra=compare_first_and_last(play))


async def run_w2(options: Options) -> AsyncIterator[Figures]:
    for variant in ("json file", "sqlite store by us"):
        if options.is_selected(variant):
            play, keeper = make_ping_pong(options.n), ConversationFile(variant, options.folder / variant)
            agents = build_desk(fake(play))
            with Clock(play) as clock:
                await discuss(agents, play.make_user_message(0), Conversation(conversation_id="s"), keeper)
            keeper.close()
            yield clock.make_figures(
                options.n, variant, stored_bytes=keeper.size(), written_bytes=clock.written_bytes, extra=compare_first_and_last(play)
            )


async def run_w3(options: Options) -> AsyncIterator[Figures]:
    for variant in ("memory", "json file", "sqlite store by us"):
        if options.is_selected(variant):
            play, keeper = make_tool_chat(options.n), ConversationFile(variant, options.folder / variant)
            agent, talk = build_chat_agent(fake(play), make_tools(play)), Conversation(conversation_id="s")
            with Clock(play) as clock:
                for number in range(options.n):
                    talk = await keeper.keep(await agent.run(play.make_user_message(number), conversation=talk, usage_limits=NO_LIMITS))
            keeper.close()
            yield clock.make_figures(options.n, variant, stored_bytes=keeper.size(), written_bytes=clock.written_bytes)


async def run_w4(options: Options) -> AsyncIterator[Figures]:
    for variant in ("json file", "sqlite store by us", "sqlite store by us, kept open"):
        if options.is_selected(variant):
            yield await run_approval_cycles(options.n, variant, options.folder / variant)


async def run_approval_cycles(n: int, variant: str, path: Path) -> Figures:
    play, (way, _, is_kept_open) = make_tool_chat(n), variant.partition(", ")
    agent = build_chat_agent(fake(play), make_tools(play, gated=True), gated=True)
    with Clock(play) as clock:
        keeper = ConversationFile(way, path)
        talk = await keeper.load()
        for number in range(n):
            await keeper.keep(await agent.run(play.make_user_message(number), conversation=talk, usage_limits=NO_LIMITS))
            if not is_kept_open:
                keeper.close()
                keeper = ConversationFile(way, path)
            talk = await keeper.load()
            assert talk.deferred_tool_requests is not None
            answers = talk.deferred_tool_requests.build_results(approve_all=True)
            talk = await keeper.keep(await agent.run(conversation=talk, deferred_tool_results=answers, usage_limits=NO_LIMITS))
        keeper.close()
    return clock.make_figures(n, variant, stored_bytes=keeper.size(), written_bytes=clock.written_bytes)


async def run_w5(options: Options) -> AsyncIterator[Figures]:
    async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return make_response(await reply_in_crowd(lambda: read_request_content(messages)))

    agents = build_desk(FunctionModel(reply))  # one model for all conversations

    async def run_conversation(question: str) -> str:
        return str((await discuss(agents, question, Conversation())).output)

    async for figures in measure_crowd(options, run_conversation):
        yield figures


async def run_w7(options: Options) -> AsyncIterator[Figures]:
    async def start_conversation(base_url: str, stream: bool) -> SendMessage:
        client = AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0)
        agent = build_chat_agent(OpenAIResponsesModel(MODEL, provider=OpenAIProvider(openai_client=client)))
        talk = Conversation()

        async def say(text: str) -> None:
            nonlocal talk
            if stream:
                async with agent.run_stream(text, conversation=talk, usage_limits=NO_LIMITS) as result:
                    async for _ in result.stream_text(delta=True, debounce_by=None):
                        pass
                    talk = Conversation(messages=result.all_messages())  # a streamed result has no `conversation`
            else:
                talk = (await agent.run(text, conversation=talk, usage_limits=NO_LIMITS)).conversation

        return say

    async for figures in measure_sdk_calls(options, start_conversation):
        yield figures


async def run_w8(options: Options) -> AsyncIterator[Figures]:
    play, path = make_plain_chat(options.n), options.folder / "store.db"
    keeper, agent, talk = ConversationFile("sqlite store by us", path), build_chat_agent(fake(play)), Conversation(conversation_id="s")
    with Clock(play) as clock:
        for number in range(options.n):
            talk = await keeper.keep(await agent.run(play.make_user_message(number), conversation=talk, usage_limits=NO_LIMITS))
    keeper.close()

    async def open_conversation() -> tuple[ConversationFile, Conversation]:
        opened = ConversationFile("sqlite store by us", path)
        return opened, await opened.load()

    async def close_conversation(opened: tuple[ConversationFile, Conversation]) -> None:
        assert len(opened[1].messages) == 2 * options.n
        opened[0].close()

    figures = clock.make_figures(options.n, stored_bytes=measure_size(path), written_bytes=clock.written_bytes)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await measure_opening(open_conversation, close_conversation)
    yield figures


if __name__ == "__main__":
    workloads = {"W1": run_w1, "W2": run_w2, "W3": run_w3, "W4": run_w4, "W5": run_w5, "W7": run_w7, "W8": run_w8}
    main("pydantic-ai", version("pydantic-ai-slim"), workloads)
