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

import _path  # noqa: F401 - adds this tree to the import path
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

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
QUIET = RunConfig(tracing_disabled=True)


class FakeModel(Model):
    """A model that replies with the next turns of a play."""

    def __init__(self, play: Play) -> None:
        self.play = play

    async def get_response(self, *_: Any, input: Any, **more: Any) -> ModelResponse:
        return make_response(self.play.reply(lambda: read_request_content(input)))

    def stream_response(self, *_: Any, **more: Any) -> Any:
        raise NotImplementedError


def make_response(turn: PlayTurn) -> ModelResponse:
    words = ResponseOutputText(type="output_text", text=turn.text, annotations=[])
    items: list[Any] = [ResponseOutputMessage(id="msg", type="message", role="assistant", status="completed", content=[words])]
    for call in turn.calls:
        items.append(ResponseFunctionToolCall(type="function_call", call_id=call.id, name=call.tool, arguments=encode_arguments(call)))
    return ModelResponse(output=items, usage=Usage(), response_id=None)


def read_request_content(input: str | list[Any]) -> RequestContent:
    items = [{"role": "user", "content": input}] if isinstance(input, str) else input
    texts: list[str] = []
    for item in items:
        content = item.get("content") or item.get("output") or ""
        texts += [content] if isinstance(content, str) else [part["text"] for part in content]
    return RequestContent(
        texts,
        [item["call_id"] for item in items if item.get("type") == "function_call"],
        [item["call_id"] for item in items if item.get("type") == "function_call_output"],
    )


def build_desk(model: Model, tools: list[FunctionTool] | None = None) -> dict[str, Agent[Any]]:
    """Two agents who may hand over to each other."""
    agents = {name: Agent(name=name, instructions=INSTRUCTIONS, model=model, tools=[*(tools or [])]) for name in AGENTS}
    for name, other in (AGENTS, AGENTS[::-1]):
        agents[name].handoffs = [to(agents[other])]
    return agents


def to(agent: Agent[Any]) -> Handoff[Any, Any]:
    return handoff(agent, tool_name_override=name_handoff_tool(agent.name))


def make_tools(play: Play, gated: bool = False) -> list[FunctionTool]:
    def make(name: str) -> FunctionTool:
        @function_tool(name_override=name, needs_approval=gated and name == TOOLS[0])
        async def look(key: str) -> str:
            """Look something up."""
            return play.make_tool_output(name, key)

        return look

    return [make(name) for name in TOOLS]


# -- workloads ---------------------------------------------------------------------------------------------------------------------


async def run_w1(options: Options) -> AsyncIterator[Figures]:
    play = make_ping_pong(options.n)
    ann = build_desk(FakeModel(play))["ann"]
    with Clock(play) as clock:
        await Runner.run(ann, play.make_user_message(0), max_turns=None, run_config=QUIET)
    yield clock.make_figures(options.n, extra=compare_first_and_last(play))


async def run_w2(options: Options) -> AsyncIterator[Figures]:
    play, path = make_ping_pong(options.n), options.folder / "session.db"
    ann, session = build_desk(FakeModel(play))["ann"], SQLiteSession("s", path)
    with Clock(play) as clock:
        await Runner.run(ann, play.make_user_message(0), max_turns=None, run_config=QUIET, session=session)
    session.close()
    yield clock.make_figures(
        options.n, "sqlite", stored_bytes=measure_size(path), written_bytes=clock.written_bytes, extra=compare_first_and_last(play)
    )


async def run_w3(options: Options) -> AsyncIterator[Figures]:
    if options.is_selected("memory"):
        play = make_tool_chat(options.n)
        ann = build_desk(FakeModel(play), make_tools(play))["ann"]
        history: list[Any] = []
        with Clock(play) as clock:
            for number in range(options.n):
                messages = [*history, {"role": "user", "content": play.make_user_message(number)}]
                history = (await Runner.run(ann, messages, run_config=QUIET)).to_input_list()
        yield clock.make_figures(options.n, "memory")
    if options.is_selected("sqlite"):
        play, path = make_tool_chat(options.n), options.folder / "session.db"
        ann, session = build_desk(FakeModel(play), make_tools(play))["ann"], SQLiteSession("s", path)
        with Clock(play) as clock:
            for number in range(options.n):
                await Runner.run(ann, play.make_user_message(number), run_config=QUIET, session=session)
        session.close()
        yield clock.make_figures(options.n, "sqlite", stored_bytes=measure_size(path), written_bytes=clock.written_bytes)


async def run_w4(options: Options) -> AsyncIterator[Figures]:
    for variant in ("session and run state", "session kept open"):
        if options.is_selected(variant):
            yield await run_approval_cycles(options.n, variant, options.folder / variant)


async def run_approval_cycles(n: int, variant: str, path: Path) -> Figures:
    """Store the history in a session, and the interrupted run as a string in a file; both are read again for each approval."""
    play, state_file = make_tool_chat(n), path.with_name("state.json")
    ann = build_desk(FakeModel(play), make_tools(play, gated=True))["ann"]
    with Clock(play) as clock:
        session = SQLiteSession("s", path)
        for number in range(n):
            result = await Runner.run(ann, play.make_user_message(number), run_config=QUIET, session=session)
            _write(state_file, result.to_state().to_string())
            if variant != "session kept open":
                session.close()
                session = SQLiteSession("s", path)
            state = await RunState.from_string(ann, state_file.read_text())
            for interruption in state.get_interruptions():
                state.approve(interruption)
            await Runner.run(ann, state, run_config=QUIET, session=session)
        session.close()
    figures = clock.make_figures(n, variant, written_bytes=clock.written_bytes)
    figures.extra["run_state_bytes"] = measure_size(state_file)
    figures.stored_bytes = measure_size(path) + measure_size(state_file)
    return figures


def _write(path: Path, text: str) -> None:
    path.write_text(text)


class CrowdModel(FakeModel):
    """One model for all conversations."""

    async def get_response(self, *_: Any, input: Any, **more: Any) -> ModelResponse:
        return make_response(await reply_in_crowd(lambda: read_request_content(input)))


async def run_w5(options: Options) -> AsyncIterator[Figures]:
    ann = build_desk(CrowdModel(Play([])))["ann"]

    async def run_conversation(question: str) -> str:
        return str((await Runner.run(ann, question, max_turns=None, run_config=QUIET)).final_output)

    async for figures in measure_crowd(options, run_conversation):
        yield figures


async def run_w7(options: Options) -> AsyncIterator[Figures]:
    async def start_conversation(base_url: str, stream: bool) -> SendMessage:
        model = OpenAIResponsesModel(MODEL, AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0))
        ann = build_desk(model)["ann"]
        history: list[Any] = []

        async def say(text: str) -> None:
            nonlocal history
            messages = [*history, {"role": "user", "content": text}]
            if stream:
                result: Any = Runner.run_streamed(ann, messages, run_config=QUIET)
                async for _ in result.stream_events():
                    pass
            else:
                result = await Runner.run(ann, messages, run_config=QUIET)
            history = result.to_input_list()

        return say

    async for figures in measure_sdk_calls(options, start_conversation):
        yield figures


async def run_w8(options: Options) -> AsyncIterator[Figures]:
    play, path = make_plain_chat(options.n), options.folder / "session.db"
    ann, session = build_desk(FakeModel(play))["ann"], SQLiteSession("s", path)
    with Clock(play) as clock:
        for number in range(options.n):
            await Runner.run(ann, play.make_user_message(number), run_config=QUIET, session=session)
    session.close()

    async def open_conversation() -> tuple[SQLiteSession, list[Any]]:
        opened = SQLiteSession("s", path)
        return opened, await opened.get_items()

    async def close_conversation(opened: tuple[SQLiteSession, list[Any]]) -> None:
        assert len(opened[1]) == 2 * options.n
        opened[0].close()

    figures = clock.make_figures(options.n, stored_bytes=measure_size(path), written_bytes=clock.written_bytes)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await measure_opening(open_conversation, close_conversation)
    yield figures


if __name__ == "__main__":
    workloads = {"W1": run_w1, "W2": run_w2, "W3": run_w3, "W4": run_w4, "W5": run_w5, "W7": run_w7, "W8": run_w8}
    main("openai-agents", version("openai-agents"), workloads)
