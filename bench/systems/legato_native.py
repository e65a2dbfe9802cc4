"""Legato, by its native API. The fake model is the least that is a model: a name and `reply`.

W1 is kept in a `MemoryStore`. W2 and W3 in a `SQLiteStore` at its default durability (`effects`: what was acknowledged survives the
process, what a tool's start depends on survives a power cut) and at `full`. In W4 nothing has to be saved, because it always is: `store` is
a new handle of the process's store for every approval, as a web server has it; `opened anew` opens the file by a new store, as another
process would; `text` carries the whole session as text, as one would between machines.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _path  # noqa: F401 - this tree can be imported from here on

from bench.measuring import Clock, Figures, Options, crowd, crowd_reply, first_and_last, main, median_opening, size_of
from bench.sdk_calls import KEY, MODEL, Say, w7
from bench.workloads import (
    AGENTS,
    INSTRUCTIONS,
    TOOLS,
    Play,
    Seen,
    Turn,
    arguments,
    chat_with_tools,
    ping_pong,
    plain_chat,
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


class Fake:
    """Says what the play has for it."""

    name = "fake"

    def __init__(self, play: Play) -> None:
        self.play = play

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        return as_reply(self.play.next(lambda: seen(request)))


def as_reply(turn: Turn) -> ModelReply:
    return ModelReply(items=(OutputText(turn.text), *(Call(call.tool, arguments(call), call.id) for call in turn.calls)))


def seen(request: ModelRequest) -> Seen:
    texts, calls, outputs = [], [], []
    for entry in request.entries:
        if isinstance(entry, AssistantEntry):
            texts += [item.text for item in entry.items if isinstance(item, OutputText)]
            calls += [item.call_id for item in entry.items if isinstance(item, Call)]
        else:
            texts.append(render_content(entry.content))
            if isinstance(entry, OutputEntry):
                outputs.append(entry.call.call_id)
    return Seen(texts, calls, outputs)


def desk(model: Model, tools: list[Tool[Any, Any]] | None = None) -> Workflow:
    """Two agents who may hand over to each other, as often as they like."""
    agents = [Agent(name, INSTRUCTIONS, model, tools or []) for name in AGENTS]
    return HandoffBuilder("desk", agents).with_limits(Limits(turns=1_000_000)).build()


def tools_of(play: Play, gated: bool = False) -> list[Tool[Any, Any]]:
    def make(name: str) -> Tool[Any, Any]:
        @tool(name=name, needs_approval=gated and name == TOOLS[0])
        async def look(key: str) -> str:
            """Look something up."""
            return play.output(name, key)

        return look

    return [make(name) for name in TOOLS]


# -- the workloads -----------------------------------------------------------------------------------------------------------------


async def w1(options: Options) -> AsyncIterator[Figures]:
    play = ping_pong(options.n)
    session = desk(Fake(play)).session("s", store=MemoryStore())
    with Clock(play) as clock:
        await session.run(play.user(0))
    yield clock.figures(options.n, extra=first_and_last(play))


async def w2(options: Options) -> AsyncIterator[Figures]:
    for durability in ("effects", "full"):
        if options.wants(durability):
            play, path = ping_pong(options.n), options.folder / f"{durability}.db"
            async with SQLiteStore(path, durability) as store:
                session = desk(Fake(play)).session("s", store=store)
                with Clock(play) as clock:
                    await session.run(play.user(0))
            yield clock.figures(options.n, durability, stored_bytes=size_of(path), written_bytes=clock.written, extra=first_and_last(play))


async def w3(options: Options) -> AsyncIterator[Figures]:
    for variant in ("memory", "effects", "full"):
        if options.wants(variant):
            play, path = chat_with_tools(options.n), options.folder / f"{variant}.db"
            store = MemoryStore() if variant == "memory" else SQLiteStore(path, variant)  # type: ignore[arg-type] # its levels, by name
            session = desk(Fake(play), tools_of(play)).session("s", store=store)
            with Clock(play) as clock:
                for number in range(options.n):
                    await session.run(play.user(number))
            await store.close()
            yield clock.figures(options.n, variant, stored_bytes=size_of(path) or None, written_bytes=clock.written)


async def w4(options: Options) -> AsyncIterator[Figures]:
    for variant, cycles in (("store", cycles_in_a_store), ("opened anew", cycles_in_a_store), ("text", cycles_as_text)):
        if options.wants(variant):
            play = chat_with_tools(options.n)
            workflow = desk(Fake(play), tools_of(play, gated=True))
            yield await cycles(workflow, play, options.n, variant, options.folder / f"{variant}.db")


async def cycles_in_a_store(workflow: Workflow, play: Play, n: int, variant: str, path: Path) -> Figures:
    """Each approval comes to a new handle: of this process's store, or of the file, opened anew by a store of its own."""
    with Clock(play) as clock:
        store = SQLiteStore(path)
        session = workflow.session("s", store=store)
        for number in range(n):
            await session.run(play.user(number))
            if variant == "opened anew":
                await store.close()
                store = SQLiteStore(path)
            session = workflow.session("s", store=store)
            await session.refresh()
            await session.approve(session.pending[0])
            await session.resume()
        await store.close()
    return clock.figures(n, variant, stored_bytes=size_of(path), written_bytes=clock.written)


async def cycles_as_text(workflow: Workflow, play: Play, n: int, variant: str, path: Path) -> Figures:
    """Each time the whole session goes into a text, and out of it into a new store."""
    kept = path.with_suffix(".json")
    with Clock(play) as clock:
        session = workflow.session("s", store=MemoryStore())
        for number in range(n):
            await session.run(play.user(number))
            kept.write_text(await session.to_string())
            session = workflow.load(kept.read_text())
            await session.refresh()
            await session.approve(session.pending[0])
            await session.resume()
    return clock.figures(n, variant, stored_bytes=size_of(kept), written_bytes=clock.written)


class CrowdModel:
    """One model for everybody."""

    name = "fake"

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        return as_reply(await crowd_reply(lambda: seen(request)))


async def w5(options: Options) -> AsyncIterator[Figures]:
    workflow = desk(CrowdModel())

    async def converse(question: str) -> str:
        return (await workflow.session(store=MemoryStore()).run(question)).text

    async for figures in crowd(options, converse):
        yield figures


async def through_the_sdk(options: Options) -> AsyncIterator[Figures]:
    async def conversation(base_url: str, stream: bool) -> Say:
        model = OpenAIResponses(MODEL, base_url=base_url, api_key=KEY, stream=stream)
        session = desk(model).session(store=MemoryStore())
        return lambda text: session.run(text, stream=stream)

    async for figures in w7(options, conversation):
        yield figures


async def w8(options: Options) -> AsyncIterator[Figures]:
    play, path = plain_chat(options.n), options.folder / "long.db"
    workflow = desk(Fake(play))
    async with SQLiteStore(path) as store:
        session = workflow.session("s", store=store)
        with Clock(play) as clock:
            for number in range(options.n):
                await session.run(play.user(number))

    async def opening() -> Session:
        return await workflow.session("s", store=SQLiteStore(path)).refresh()

    async def closing(session: Session) -> None:
        assert session.status == "waiting"
        assert len(session.messages) == 2 * options.n
        await session.store.close()

    figures = clock.figures(options.n, stored_bytes=size_of(path), written_bytes=clock.written)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await median_opening(opening, closing)
    yield figures


if __name__ == "__main__":
    workloads = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W7": through_the_sdk, "W8": w8}
    main("legato", version("legato"), workloads)
