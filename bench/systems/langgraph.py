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

import _path  # noqa: F401 - this tree can be imported from here on
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

from bench.measuring import Clock, Figures, Options, crowd, crowd_reply, first_and_last, main, median_opening, size_of
from bench.sdk_calls import KEY, MODEL, Say, w7
from bench.workloads import (
    AGENTS,
    INSTRUCTIONS,
    TOOLS,
    Play,
    Seen,
    Turn,
    chat_with_tools,
    handoff_to,
    ping_pong,
    plain_chat,
)

DELTA = "sqlite delta"
SQLITE = ("sqlite", DELTA)
THREAD: Any = {"configurable": {"thread_id": "s"}, "recursion_limit": 1_000_000}


class Fake(BaseChatModel):
    """Says what the play has for it."""

    play: Any = None

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **more: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **more: Any) -> ChatResult:
        return as_result(self.play.next(lambda: seen(messages)))


def as_result(turn: Turn) -> ChatResult:
    calls = [{"id": call.id, "name": call.tool, "args": {} if call.to else {"key": call.key}} for call in turn.calls]
    return ChatResult(generations=[ChatGeneration(message=AIMessage(content=turn.text, tool_calls=calls))])


def seen(messages: list[BaseMessage]) -> Seen:
    calls = [call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return Seen(
        [str(message.content) for message in messages],
        [str(id) for id in calls],
        [message.tool_call_id for message in messages if isinstance(message, ToolMessage)],
    )


class DeltaSwarmState(DeepAgentState):
    """The state of a swarm with its messages in a `DeltaChannel`."""

    active_agent: str | None


def desk(model: Any, saver: Any = None, delta: bool = False) -> Any:
    """Two agents who may hand over to each other."""
    ann, bob = AGENTS
    agent_state: Any = DeepAgentState if delta else AgentState
    swarm_state: Any = DeltaSwarmState if delta else SwarmState

    def agent(name: str, other: str) -> Any:
        handoff = create_handoff_tool(agent_name=other, name=handoff_to(other))
        return create_agent(model, [handoff], system_prompt=INSTRUCTIONS, name=name, state_schema=agent_state)

    agents = [agent(ann, bob), agent(bob, ann)]
    return create_swarm(agents, default_active_agent=ann, state_schema=swarm_state).compile(checkpointer=saver)


def chatting(model: Any, tools: list[BaseTool], saver: Any = None, gated: str = "", delta: bool = False) -> Any:
    middleware = [HumanInTheLoopMiddleware(interrupt_on={gated: True})] if gated else []
    state: Any = DeepAgentState if delta else AgentState
    return create_agent(model, tools, system_prompt=INSTRUCTIONS, name="ann", checkpointer=saver, middleware=middleware, state_schema=state)


def tools_of(play: Play) -> list[BaseTool]:
    def make(name: str) -> BaseTool:
        @tool(name)
        async def look(key: str) -> str:
            """Look something up."""
            return play.output(name, key)

        return look

    return [make(name) for name in TOOLS]


def user(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


# -- the workloads -----------------------------------------------------------------------------------------------------------------


async def w1(options: Options) -> AsyncIterator[Figures]:
    play = ping_pong(options.n)
    app = desk(Fake(play=play))
    with Clock(play) as clock:
        await app.ainvoke(user(play.user(0)), THREAD)
    yield clock.figures(options.n, extra=first_and_last(play))


async def w2(options: Options) -> AsyncIterator[Figures]:
    for variant in SQLITE:
        if not options.wants(variant):
            continue
        play, path = ping_pong(options.n), options.folder / f"{variant}.db"
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            app = desk(Fake(play=play), saver, delta=variant == DELTA)
            with Clock(play) as clock:
                await app.ainvoke(user(play.user(0)), THREAD)
        yield clock.figures(options.n, variant, stored_bytes=size_of(path), written_bytes=clock.written, extra=first_and_last(play))


async def w3(options: Options) -> AsyncIterator[Figures]:
    if options.wants("memory"):
        play = chat_with_tools(options.n)
        agent = chatting(Fake(play=play), tools_of(play))
        messages: list[Any] = []
        with Clock(play) as clock:
            for number in range(options.n):
                messages = (await agent.ainvoke({"messages": [*messages, HumanMessage(play.user(number))]}, THREAD))["messages"]
        yield clock.figures(options.n, "memory")
    for variant in SQLITE:
        if not options.wants(variant):
            continue
        play, path = chat_with_tools(options.n), options.folder / f"{variant}.db"
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            agent = chatting(Fake(play=play), tools_of(play), saver, delta=variant == DELTA)
            with Clock(play) as clock:
                for number in range(options.n):
                    await agent.ainvoke(user(play.user(number)), THREAD)
        yield clock.figures(options.n, variant, stored_bytes=size_of(path), written_bytes=clock.written)


async def w4(options: Options) -> AsyncIterator[Figures]:
    for variant in ("sqlite", "sqlite kept open", DELTA, f"{DELTA} kept open"):
        if options.wants(variant):
            yield await approvals(options.n, variant, str(options.folder / f"{variant}.db"))


async def approvals(n: int, variant: str, path: str) -> Figures:
    play = chat_with_tools(n)
    agent = chatting(Fake(play=play), tools_of(play), gated=TOOLS[0], delta=variant.startswith(DELTA))
    approved = Command(resume={"decisions": [{"type": "approve"}]})

    async def step(what: Any) -> None:
        async with AsyncSqliteSaver.from_conn_string(path) as agent.checkpointer:
            await agent.ainvoke(what, THREAD)

    with Clock(play) as clock:
        if not variant.endswith("kept open"):
            for number in range(n):
                await step(user(play.user(number)))
                await step(approved)
        else:
            async with AsyncSqliteSaver.from_conn_string(path) as agent.checkpointer:
                for number in range(n):
                    await agent.ainvoke(user(play.user(number)), THREAD)
                    await agent.ainvoke(approved, THREAD)
    return clock.figures(n, variant, stored_bytes=size_of(Path(path)), written_bytes=clock.written)


class CrowdModel(Fake):
    """One model for everybody."""

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **more: Any) -> ChatResult:
        return as_result(await crowd_reply(lambda: seen(messages)))


async def w5(options: Options) -> AsyncIterator[Figures]:
    app = desk(CrowdModel())

    async def converse(question: str) -> str:
        state = await app.ainvoke(user(question), {"recursion_limit": 1_000_000})
        return str(state["messages"][-1].content)

    async for figures in crowd(options, converse):
        yield figures


async def through_the_sdk(options: Options) -> AsyncIterator[Figures]:
    async def conversation(base_url: str, stream: bool) -> Say:
        model = ChatOpenAI(model=MODEL, base_url=base_url, api_key=KEY, use_responses_api=True, max_retries=0, store=False)  # type: ignore[arg-type]
        agent = chatting(model, [])
        state: dict[str, Any] = {"messages": []}

        async def say(text: str) -> None:
            nonlocal state
            asked = {"messages": [*state["messages"], HumanMessage(text)]}
            if stream:
                async for mode, piece in agent.astream(asked, stream_mode=["messages", "values"]):
                    if mode == "values":
                        state = piece
            else:
                state = await agent.ainvoke(asked)

        return say

    async for figures in w7(options, conversation):
        yield figures


async def w8(options: Options) -> AsyncIterator[Figures]:
    play, path = plain_chat(options.n), options.folder / "checkpoints.db"
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        agent = chatting(Fake(play=play), [], saver)
        with Clock(play) as clock:
            for number in range(options.n):
                await agent.ainvoke(user(play.user(number)), THREAD)

    async def opening() -> tuple[Any, Any]:
        connection = AsyncSqliteSaver.from_conn_string(str(path))
        saver = await connection.__aenter__()
        agent.checkpointer = saver
        return connection, await agent.aget_state(THREAD)

    async def closing(opened: tuple[Any, Any]) -> None:
        connection, state = opened
        assert len(state.values["messages"]) == 2 * options.n
        await connection.__aexit__(None, None, None)

    figures = clock.figures(options.n, stored_bytes=size_of(path), written_bytes=clock.written)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await median_opening(opening, closing)
    yield figures


if __name__ == "__main__":
    workloads = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W7": through_the_sdk, "W8": w8}
    main("langgraph", version("langgraph"), workloads)
