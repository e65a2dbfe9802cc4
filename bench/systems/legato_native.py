"""Legato, by its native API. The fake model is a minimal one: a name and `reply`.

W1 uses a `MemoryStore`, W2 and W3 a `SQLiteStore` at its default durability (`effects`: acknowledged facts survive the process, and facts
that a tool's start depends on survive a power cut) and at `full`. W4 needs no saving, because everything is saved always: `store` is a new
handle of the process's store for every approval, as in a web server; `opened anew` opens the file with a new store, as another process
would; `text` exports and loads the whole session as text, as between machines.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _path  # noqa: F401 - adds this tree to the import path

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
)
from legato import Agent, HandoffBuilder, Limits, Workflow, tool
from legato.core.facts import Call, OutputText
from legato.core.groups import AssistantEntry, OutputEntry
from legato.core.messages import render_content
from legato.core.view import ModelRequest
from legato.models import OpenAIResponses
from legato.models.model import Emit, Model, ModelReply
from legato.runtime.session import Session
from legato.stores import MemoryStore, SQLiteStore
from legato.tools import Tool


class FakeModel:
    """A model that replies with the next turns of a play."""

    name = "fake"

    def __init__(self, play: Play) -> None:
        self.play = play

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        return make_reply(self.play.reply(lambda: read_request_content(request)))


def make_reply(turn: PlayTurn) -> ModelReply:
    return ModelReply(items=(OutputText(turn.text), *(Call(call.tool, encode_arguments(call), call.id) for call in turn.calls)))


def read_request_content(request: ModelRequest) -> RequestContent:
    texts, calls, outputs = [], [], []
    for entry in request.entries:
        if isinstance(entry, AssistantEntry):
            texts += [item.text for item in entry.items if isinstance(item, OutputText)]
            calls += [item.call_id for item in entry.items if isinstance(item, Call)]
        else:
            texts.append(render_content(entry.content))
            if isinstance(entry, OutputEntry):
                outputs.append(entry.call.call_id)
    return RequestContent(texts, calls, outputs)


def build_desk(model: Model, tools: list[Tool[Any, Any]] | None = None) -> Workflow:
    """Build two agents that may hand over to each other without a limit."""
    agents = [Agent(name, INSTRUCTIONS, model, tools or []) for name in AGENTS]
    return HandoffBuilder("desk", agents).with_limits(Limits(turns=1_000_000)).build()


def make_tools(play: Play, gated: bool = False) -> list[Tool[Any, Any]]:
    def make(name: str) -> Tool[Any, Any]:
        @tool(name=name, needs_approval=gated and name == TOOLS[0])
        async def look(key: str) -> str:
            """Look something up."""
            return play.make_tool_output(name, key)

        return look

    return [make(name) for name in TOOLS]


# -- workloads ---------------------------------------------------------------------------------------------------------------------


async def run_w1(options: Options) -> AsyncIterator[Figures]:
    play = make_ping_pong(options.n)
    session = build_desk(FakeModel(play)).session("s", store=MemoryStore())
    with Clock(play) as clock:
        await session.run(play.make_user_message(0))
    yield clock.make_figures(options.n, extra=compare_first_and_last(play))


async def run_w2(options: Options) -> AsyncIterator[Figures]:
    for durability in ("effects", "full"):
        if options.is_selected(durability):
            play, path = make_ping_pong(options.n), options.folder / f"{durability}.db"
            async with SQLiteStore(path, durability) as store:
                session = build_desk(FakeModel(play)).session("s", store=store)
                with Clock(play) as clock:
                    await session.run(play.make_user_message(0))
            yield clock.make_figures(
                options.n,
                durability,
                stored_bytes=measure_size(path),
                written_bytes=clock.written_bytes,
                extra=compare_first_and_last(play),
            )


async def run_w3(options: Options) -> AsyncIterator[Figures]:
    for variant in ("memory", "effects", "full"):
        if options.is_selected(variant):
            play, path = make_tool_chat(options.n), options.folder / f"{variant}.db"
            store = MemoryStore() if variant == "memory" else SQLiteStore(path, variant)  # type: ignore[arg-type] # its levels, by name
            session = build_desk(FakeModel(play), make_tools(play)).session("s", store=store)
            with Clock(play) as clock:
                for number in range(options.n):
                    await session.run(play.make_user_message(number))
            await store.close()
            yield clock.make_figures(options.n, variant, stored_bytes=measure_size(path) or None, written_bytes=clock.written_bytes)


async def run_w4(options: Options) -> AsyncIterator[Figures]:
    for variant, cycles in (("store", run_cycles_in_store), ("opened anew", run_cycles_in_store), ("text", run_cycles_as_text)):
        if options.is_selected(variant):
            play = make_tool_chat(options.n)
            workflow = build_desk(FakeModel(play), make_tools(play, gated=True))
            yield await cycles(workflow, play, options.n, variant, options.folder / f"{variant}.db")


async def run_cycles_in_store(workflow: Workflow, play: Play, n: int, variant: str, path: Path) -> Figures:
    """Use a new handle for each approval: of this process's store, or of a new store on the file."""
    with Clock(play) as clock:
        store = SQLiteStore(path)
        session = workflow.session("s", store=store)
        for number in range(n):
            await session.run(play.make_user_message(number))
            if variant == "opened anew":
                await store.close()
                store = SQLiteStore(path)
            session = workflow.session("s", store=store)
            await session.refresh()
            await session.approve(session.pending[0])
            await session.resume()
        await store.close()
    return clock.make_figures(n, variant, stored_bytes=measure_size(path), written_bytes=clock.written_bytes)


async def run_cycles_as_text(workflow: Workflow, play: Play, n: int, variant: str, path: Path) -> Figures:
    """Export the whole session as text for each approval, and load it into a new store."""
    file = path.with_suffix(".json")
    with Clock(play) as clock:
        session = workflow.session("s", store=MemoryStore())
        for number in range(n):
            await session.run(play.make_user_message(number))
            file.write_text(await session.to_string())
            session = workflow.load(file.read_text())
            await session.refresh()
            await session.approve(session.pending[0])
            await session.resume()
    return clock.make_figures(n, variant, stored_bytes=measure_size(file), written_bytes=clock.written_bytes)


class CrowdModel:
    """One model for all conversations."""

    name = "fake"

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        return make_reply(await reply_in_crowd(lambda: read_request_content(request)))


async def run_w5(options: Options) -> AsyncIterator[Figures]:
    workflow = build_desk(CrowdModel())

    async def run_conversation(question: str) -> str:
        return (await workflow.session(store=MemoryStore()).run(question)).text

    async for figures in measure_crowd(options, run_conversation):
        yield figures


async def run_w7(options: Options) -> AsyncIterator[Figures]:
    async def start_conversation(base_url: str, stream: bool) -> SendMessage:
        model = OpenAIResponses(MODEL, base_url=base_url, api_key=KEY, stream=stream)
        session = build_desk(model).session(store=MemoryStore())
        return lambda text: session.run(text, stream=stream)

    async for figures in measure_sdk_calls(options, start_conversation):
        yield figures


async def run_w8(options: Options) -> AsyncIterator[Figures]:
    play, path = make_plain_chat(options.n), options.folder / "long.db"
    workflow = build_desk(FakeModel(play))
    async with SQLiteStore(path) as store:
        session = workflow.session("s", store=store)
        with Clock(play) as clock:
            for number in range(options.n):
                await session.run(play.make_user_message(number))

    async def open_conversation() -> Session:
        return await workflow.session("s", store=SQLiteStore(path)).refresh()

    async def close_conversation(session: Session) -> None:
        assert session.status == "waiting"
        assert len(session.messages) == 2 * options.n
        await session.store.close()

    figures = clock.make_figures(options.n, stored_bytes=measure_size(path), written_bytes=clock.written_bytes)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await measure_opening(open_conversation, close_conversation)
    yield figures


if __name__ == "__main__":
    workloads = {"W1": run_w1, "W2": run_w2, "W3": run_w3, "W4": run_w4, "W5": run_w5, "W7": run_w7, "W8": run_w8}
    main("legato", version("legato"), workloads)
