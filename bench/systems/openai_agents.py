"""The OpenAI Agents SDK. Handoffs as its documentation shows them; `SQLiteSession` on a file for what is durable; `RunState` for approvals.

In its favour: tracing is off, `max_turns=None` lets long runs end, the fake model is a bare `Model` (its own `ScriptedModel` copies every
request), and the whole input is handed on by `to_input_list()` where nothing is stored.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _path  # noqa: F401 - this tree can be imported from here on
from agents import (
    Agent,
    FunctionTool,
    Handoff,
    Model,
    ModelResponse,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    RunState,
    SQLiteSession,
    Usage,
    function_tool,
    handoff,
)
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

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
    handoff_to,
    ping_pong,
    plain_chat,
)

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
QUIET = RunConfig(tracing_disabled=True)


class Fake(Model):
    """Says what the play has for it."""

    def __init__(self, play: Play) -> None:
        self.play = play

    async def get_response(self, *_: Any, input: Any, **more: Any) -> ModelResponse:
        return as_response(self.play.next(lambda: seen(input)))

    def stream_response(self, *_: Any, **more: Any) -> Any:
        raise NotImplementedError


def as_response(turn: Turn) -> ModelResponse:
    words = ResponseOutputText(type="output_text", text=turn.text, annotations=[])
    items: list[Any] = [ResponseOutputMessage(id="msg", type="message", role="assistant", status="completed", content=[words])]
    for call in turn.calls:
        items.append(ResponseFunctionToolCall(type="function_call", call_id=call.id, name=call.tool, arguments=arguments(call)))
    return ModelResponse(output=items, usage=Usage(), response_id=None)


def seen(input: str | list[Any]) -> Seen:
    items = [{"role": "user", "content": input}] if isinstance(input, str) else input
    texts: list[str] = []
    for item in items:
        content = item.get("content") or item.get("output") or ""
        texts += [content] if isinstance(content, str) else [part["text"] for part in content]
    return Seen(
        texts,
        [item["call_id"] for item in items if item.get("type") == "function_call"],
        [item["call_id"] for item in items if item.get("type") == "function_call_output"],
    )


def desk(model: Model, tools: list[FunctionTool] | None = None) -> dict[str, Agent[Any]]:
    """Two agents who may hand over to each other."""
    agents = {name: Agent(name=name, instructions=INSTRUCTIONS, model=model, tools=[*(tools or [])]) for name in AGENTS}
    for name, other in (AGENTS, AGENTS[::-1]):
        agents[name].handoffs = [to(agents[other])]
    return agents


def to(agent: Agent[Any]) -> Handoff[Any, Any]:
    return handoff(agent, tool_name_override=handoff_to(agent.name))


def tools_of(play: Play, gated: bool = False) -> list[FunctionTool]:
    def make(name: str) -> FunctionTool:
        @function_tool(name_override=name, needs_approval=gated and name == TOOLS[0])
        async def look(key: str) -> str:
            """Look something up."""
            return play.output(name, key)

        return look

    return [make(name) for name in TOOLS]


# -- the workloads -----------------------------------------------------------------------------------------------------------------


async def w1(options: Options) -> AsyncIterator[Figures]:
    play = ping_pong(options.n)
    ann = desk(Fake(play))["ann"]
    with Clock(play) as clock:
        await Runner.run(ann, play.user(0), max_turns=None, run_config=QUIET)
    yield clock.figures(options.n, extra=first_and_last(play))


async def w2(options: Options) -> AsyncIterator[Figures]:
    play, path = ping_pong(options.n), options.folder / "session.db"
    ann, session = desk(Fake(play))["ann"], SQLiteSession("s", path)
    with Clock(play) as clock:
        await Runner.run(ann, play.user(0), max_turns=None, run_config=QUIET, session=session)
    session.close()
    yield clock.figures(options.n, "sqlite", stored_bytes=size_of(path), written_bytes=clock.written, extra=first_and_last(play))


async def w3(options: Options) -> AsyncIterator[Figures]:
    if options.wants("memory"):
        play = chat_with_tools(options.n)
        ann = desk(Fake(play), tools_of(play))["ann"]
        history: list[Any] = []
        with Clock(play) as clock:
            for number in range(options.n):
                asked = [*history, {"role": "user", "content": play.user(number)}]
                history = (await Runner.run(ann, asked, run_config=QUIET)).to_input_list()
        yield clock.figures(options.n, "memory")
    if options.wants("sqlite"):
        play, path = chat_with_tools(options.n), options.folder / "session.db"
        ann, session = desk(Fake(play), tools_of(play))["ann"], SQLiteSession("s", path)
        with Clock(play) as clock:
            for number in range(options.n):
                await Runner.run(ann, play.user(number), run_config=QUIET, session=session)
        session.close()
        yield clock.figures(options.n, "sqlite", stored_bytes=size_of(path), written_bytes=clock.written)


async def w4(options: Options) -> AsyncIterator[Figures]:
    for variant in ("session and run state", "session kept open"):
        if options.wants(variant):
            yield await approvals(options.n, variant, options.folder / variant)


async def approvals(n: int, variant: str, path: Path) -> Figures:
    """The history in a session, the interrupted run as a string in a file; both are read anew from there."""
    play, kept = chat_with_tools(n), path.with_name("state.json")
    ann = desk(Fake(play), tools_of(play, gated=True))["ann"]
    with Clock(play) as clock:
        session = SQLiteSession("s", path)
        for number in range(n):
            result = await Runner.run(ann, play.user(number), run_config=QUIET, session=session)
            _write(kept, result.to_state().to_string())
            if variant != "session kept open":
                session.close()
                session = SQLiteSession("s", path)
            state = await RunState.from_string(ann, kept.read_text())
            for interruption in state.get_interruptions():
                state.approve(interruption)
            await Runner.run(ann, state, run_config=QUIET, session=session)
        session.close()
    figures = clock.figures(n, variant, written_bytes=clock.written)
    figures.extra["run_state_bytes"] = size_of(kept)
    figures.stored_bytes = size_of(path) + size_of(kept)
    return figures


def _write(path: Path, text: str) -> None:
    path.write_text(text)


class CrowdModel(Fake):
    """One model for everybody."""

    async def get_response(self, *_: Any, input: Any, **more: Any) -> ModelResponse:
        return as_response(await crowd_reply(lambda: seen(input)))


async def w5(options: Options) -> AsyncIterator[Figures]:
    ann = desk(CrowdModel(Play([])))["ann"]

    async def converse(question: str) -> str:
        return str((await Runner.run(ann, question, max_turns=None, run_config=QUIET)).final_output)

    async for figures in crowd(options, converse):
        yield figures


async def through_the_sdk(options: Options) -> AsyncIterator[Figures]:
    async def conversation(base_url: str, stream: bool) -> Say:
        model = OpenAIResponsesModel(MODEL, AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0))
        ann = desk(model)["ann"]
        history: list[Any] = []

        async def say(text: str) -> None:
            nonlocal history
            asked = [*history, {"role": "user", "content": text}]
            if stream:
                result: Any = Runner.run_streamed(ann, asked, run_config=QUIET)
                async for _ in result.stream_events():
                    pass
            else:
                result = await Runner.run(ann, asked, run_config=QUIET)
            history = result.to_input_list()

        return say

    async for figures in w7(options, conversation):
        yield figures


async def w8(options: Options) -> AsyncIterator[Figures]:
    play, path = plain_chat(options.n), options.folder / "session.db"
    ann, session = desk(Fake(play))["ann"], SQLiteSession("s", path)
    with Clock(play) as clock:
        for number in range(options.n):
            await Runner.run(ann, play.user(number), run_config=QUIET, session=session)
    session.close()

    async def opening() -> tuple[SQLiteSession, list[Any]]:
        opened = SQLiteSession("s", path)
        return opened, await opened.get_items()

    async def closing(opened: tuple[SQLiteSession, list[Any]]) -> None:
        assert len(opened[1]) == 2 * options.n
        opened[0].close()

    figures = clock.figures(options.n, stored_bytes=size_of(path), written_bytes=clock.written)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await median_opening(opening, closing)
    yield figures


if __name__ == "__main__":
    workloads = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W7": through_the_sdk, "W8": w8}
    main("openai-agents", version("openai-agents"), workloads)
