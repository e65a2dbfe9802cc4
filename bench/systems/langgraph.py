"""LangGraph with langgraph-swarm: `create_agent`, `create_handoff_tool`, `create_swarm`; `AsyncSqliteSaver` on a file for what is durable.

A variant named *delta* keeps messages in a `DeltaChannel`, which stores what was added instead of the whole list. It is in beta, and the
default of deepagents, whose state schema is used here; `create_agent` and `create_swarm` alone do not use it.

In its favour: where nothing is stored there is no checkpointer, and the state is handed from one run to the next; the recursion limit is
lifted, as the documentation allows; with a checkpointer, its default durability ("async": a step is written while the next one runs).
What was not possible: with `HumanInTheLoopMiddleware` the open calls of a batch wait together with the gated one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _path  # noqa: F401 - adds this tree to the import path
from deepagents import DeepAgentState
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from langgraph_swarm import SwarmState, create_handoff_tool, create_swarm

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
    make_ping_pong,
    make_plain_chat,
    make_tool_chat,
    name_handoff_tool,
)

DELTA = "sqlite delta"
SQLITE = ("sqlite", DELTA)
THREAD: Any = {"configurable": {"thread_id": "s"}, "recursion_limit": 1_000_000}


class FakeModel(BaseChatModel):
    """A model that replies with the next turns of a play."""

    play: Any = None

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **more: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **more: Any) -> ChatResult:
        return make_result(self.play.reply(lambda: read_request_content(messages)))


def make_result(turn: PlayTurn) -> ChatResult:
    calls = [{"id": call.id, "name": call.tool, "args": {} if call.target else {"key": call.key}} for call in turn.calls]
    return ChatResult(generations=[ChatGeneration(message=AIMessage(content=turn.text, tool_calls=calls))])


def read_request_content(messages: list[BaseMessage]) -> RequestContent:
    calls = [call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return RequestContent(
        [str(message.content) for message in messages],
        [str(id) for id in calls],
        [message.tool_call_id for message in messages if isinstance(message, ToolMessage)],
    )


class DeltaSwarmState(DeepAgentState):
    """The state of a swarm with its messages in a `DeltaChannel`."""

    active_agent: str | None


def build_desk(model: Any, saver: Any = None, delta: bool = False) -> Any:
    """Two agents who may hand over to each other."""
    ann, bob = AGENTS
    agent_state: Any = DeepAgentState if delta else AgentState
    swarm_state: Any = DeltaSwarmState if delta else SwarmState

    def agent(name: str, other: str) -> Any:
        handoff = create_handoff_tool(agent_name=other, name=name_handoff_tool(other))
        return create_agent(model, [handoff], system_prompt=INSTRUCTIONS, name=name, state_schema=agent_state)

    agents = [agent(ann, bob), agent(bob, ann)]
    return create_swarm(agents, default_active_agent=ann, state_schema=swarm_state).compile(checkpointer=saver)


def build_chat_agent(model: Any, tools: list[BaseTool], saver: Any = None, gated: str = "", delta: bool = False) -> Any:
    middleware = [HumanInTheLoopMiddleware(interrupt_on={gated: True})] if gated else []
    state: Any = DeepAgentState if delta else AgentState
    return create_agent(model, tools, system_prompt=INSTRUCTIONS, name="ann", checkpointer=saver, middleware=middleware, state_schema=state)


def make_tools(play: Play) -> list[BaseTool]:
    def make(name: str) -> BaseTool:
        @tool(name)
        async def look(key: str) -> str:
            """Look something up."""
            return play.make_tool_output(name, key)

        return look

    return [make(name) for name in TOOLS]


def user(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


# -- workloads ---------------------------------------------------------------------------------------------------------------------


async def run_w1(options: Options) -> AsyncIterator[Figures]:
    play = make_ping_pong(options.n)
    app = build_desk(FakeModel(play=play))
    with Clock(play) as clock:
        await app.ainvoke(user(play.make_user_message(0)), THREAD)
    yield clock.make_figures(options.n, extra=compare_first_and_last(play))


async def run_w2(options: Options) -> AsyncIterator[Figures]:
    for variant in SQLITE:
        if not options.is_selected(variant):
            continue
        play, path = make_ping_pong(options.n), options.folder / f"{variant}.db"
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            app = build_desk(FakeModel(play=play), saver, delta=variant == DELTA)
            with Clock(play) as clock:
                await app.ainvoke(user(play.make_user_message(0)), THREAD)
        yield clock.make_figures(
            options.n, variant, stored_bytes=measure_size(path), written_bytes=clock.written_bytes, extra=compare_first_and_last(play)
        )


async def run_w3(options: Options) -> AsyncIterator[Figures]:
    if options.is_selected("memory"):
        play = make_tool_chat(options.n)
        agent = build_chat_agent(FakeModel(play=play), make_tools(play))
        messages: list[Any] = []
        with Clock(play) as clock:
            for number in range(options.n):
                messages = (await agent.ainvoke({"messages": [*messages, HumanMessage(play.make_user_message(number))]}, THREAD))[
                    "messages"
                ]
        yield clock.make_figures(options.n, "memory")
    for variant in SQLITE:
        if not options.is_selected(variant):
            continue
        play, path = make_tool_chat(options.n), options.folder / f"{variant}.db"
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            agent = build_chat_agent(FakeModel(play=play), make_tools(play), saver, delta=variant == DELTA)
            with Clock(play) as clock:
                for number in range(options.n):
                    await agent.ainvoke(user(play.make_user_message(number)), THREAD)
        yield clock.make_figures(options.n, variant, stored_bytes=measure_size(path), written_bytes=clock.written_bytes)


async def run_w4(options: Options) -> AsyncIterator[Figures]:
    for variant in ("sqlite", "sqlite kept open", DELTA, f"{DELTA} kept open"):
        if options.is_selected(variant):
            yield await run_approval_cycles(options.n, variant, str(options.folder / f"{variant}.db"))


async def run_approval_cycles(n: int, variant: str, path: str) -> Figures:
    play = make_tool_chat(n)
    agent = build_chat_agent(FakeModel(play=play), make_tools(play), gated=TOOLS[0], delta=variant.startswith(DELTA))
    approved = Command(resume={"decisions": [{"type": "approve"}]})

    async def step(input: Any) -> None:
        async with AsyncSqliteSaver.from_conn_string(path) as agent.checkpointer:
            await agent.ainvoke(input, THREAD)

    with Clock(play) as clock:
        if not variant.endswith("kept open"):
            for number in range(n):
                await step(user(play.make_user_message(number)))
                await step(approved)
        else:
            async with AsyncSqliteSaver.from_conn_string(path) as agent.checkpointer:
                for number in range(n):
                    await agent.ainvoke(user(play.make_user_message(number)), THREAD)
                    await agent.ainvoke(approved, THREAD)
    return clock.make_figures(n, variant, stored_bytes=measure_size(Path(path)), written_bytes=clock.written_bytes)


class CrowdModel(FakeModel):
    """One model for all conversations."""

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **more: Any) -> ChatResult:
        return make_result(await reply_in_crowd(lambda: read_request_content(messages)))


async def run_w5(options: Options) -> AsyncIterator[Figures]:
    app = build_desk(CrowdModel())

    async def run_conversation(question: str) -> str:
        state = await app.ainvoke(user(question), {"recursion_limit": 1_000_000})
        return str(state["messages"][-1].content)

    async for figures in measure_crowd(options, run_conversation):
        yield figures


async def run_w7(options: Options) -> AsyncIterator[Figures]:
    async def start_conversation(base_url: str, stream: bool) -> SendMessage:
        model = ChatOpenAI(model=MODEL, base_url=base_url, api_key=KEY, use_responses_api=True, max_retries=0, store=False)  # type: ignore[arg-type]
        agent = build_chat_agent(model, [])
        state: dict[str, Any] = {"messages": []}

        async def say(text: str) -> None:
            nonlocal state
            request = {"messages": [*state["messages"], HumanMessage(text)]}
            if stream:
                async for mode, piece in agent.astream(request, stream_mode=["messages", "values"]):
                    if mode == "values":
                        state = piece
            else:
                state = await agent.ainvoke(request)

        return say

    async for figures in measure_sdk_calls(options, start_conversation):
        yield figures


async def run_w8(options: Options) -> AsyncIterator[Figures]:
    play, path = make_plain_chat(options.n), options.folder / "checkpoints.db"
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        agent = build_chat_agent(FakeModel(play=play), [], saver)
        with Clock(play) as clock:
            for number in range(options.n):
                await agent.ainvoke(user(play.make_user_message(number)), THREAD)

    async def open_conversation() -> tuple[Any, Any]:
        connection = AsyncSqliteSaver.from_conn_string(str(path))
        saver = await connection.__aenter__()
        agent.checkpointer = saver
        return connection, await agent.aget_state(THREAD)

    async def close_conversation(opened: tuple[Any, Any]) -> None:
        connection, state = opened
        assert len(state.values["messages"]) == 2 * options.n
        await connection.__aexit__(None, None, None)

    figures = clock.make_figures(options.n, stored_bytes=measure_size(path), written_bytes=clock.written_bytes)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await measure_opening(open_conversation, close_conversation)
    yield figures


if __name__ == "__main__":
    workloads = {"W1": run_w1, "W2": run_w2, "W3": run_w3, "W4": run_w4, "W5": run_w5, "W7": run_w7, "W8": run_w8}
    main("langgraph", version("langgraph"), workloads)
