"""Microsoft Agent Framework: `HandoffBuilder` for handoffs, an `Agent` with a session for chats.

Durable is what the documentation names for each: `FileCheckpointStorage` for workflows, `FileHistoryProvider` (an append-only file) for an
agent's chat. An approval is carried as the session's own dictionary, as JSON in a file.

What was not possible: a handoff workflow stops after 100 supersteps and `HandoffBuilder` has no option for it, so a private attribute is
set; a workflow holds one conversation, so W5 builds one for each; and where one call of a batch needs approval, all of them wait for it.
In its favour: the telemetry layer is left out of the fake client.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _path  # noqa: F401 - this tree can be imported from here on
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FileCheckpointStorage,
    FileHistoryProvider,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    Workflow,
    tool,
)
from agent_framework_openai import OpenAIChatClient
from agent_framework_orchestrations import HandoffBuilder

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


class Fake(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Says what the play has for it."""

    def __init__(self, play: Play) -> None:
        super().__init__()
        self.play = play

    def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **more: Any) -> Awaitable[Any]:
        return self.reply(messages, options)

    async def reply(self, messages: Sequence[Message], options: Mapping[str, Any]) -> ChatResponse:
        return as_response(self.play.next(lambda: seen(messages)))


def as_response(turn: Turn) -> ChatResponse:
    contents = [Content.from_text(turn.text)]
    contents += [Content.from_function_call(call.id, call.tool, arguments=arguments(call)) for call in turn.calls]
    return ChatResponse(messages=[Message(role="assistant", contents=contents)])


def seen(messages: Sequence[Message]) -> Seen:
    contents = [content for message in messages for content in message.contents]
    return Seen(
        [str(content.text if content.type == "text" else content.result) for content in contents],
        [content.call_id for content in contents if content.type == "function_call"],
        [content.call_id for content in contents if content.type == "function_result"],
    )


def desk(client: Any, checkpoints: FileCheckpointStorage | None = None) -> Workflow:
    """Two agents who may hand over to each other."""
    ann, bob = (
        Agent(client=client, id=name, name=name, instructions=INSTRUCTIONS, require_per_service_call_history_persistence=True)
        for name in AGENTS
    )
    builder = HandoffBuilder(name="desk", participants=[ann, bob]).with_start_agent(ann).add_handoff(ann, [bob]).add_handoff(bob, [ann])
    if checkpoints:
        builder.with_checkpointing(checkpoints)
    workflow = builder.build()
    workflow._runner._max_iterations = 1_000_000  # the builder has no option for it, and 100 is where it stops
    return workflow


def tools_of(play: Play, gated: bool = False) -> list[FunctionTool]:
    def make(name: str) -> FunctionTool:
        @tool(name=name, approval_mode="always_require" if gated and name == TOOLS[0] else "never_require")
        async def look(key: str) -> str:
            """Look something up."""
            return play.output(name, key)

        return look

    return [make(name) for name in TOOLS]


# -- the workloads -----------------------------------------------------------------------------------------------------------------


async def w1(options: Options) -> AsyncIterator[Figures]:
    play = ping_pong(options.n)
    workflow = desk(Fake(play))
    with Clock(play) as clock:
        await workflow.run(play.user(0))
    yield clock.figures(options.n, extra=first_and_last(play), note="the limit of 100 supersteps was lifted by a private attribute")


async def w2(options: Options) -> AsyncIterator[Figures]:
    play, path = ping_pong(options.n), options.folder / "checkpoints"
    # `list[...]` is what a workflow that waits for its user keeps; without this its last checkpoints fail.
    workflow = desk(Fake(play), FileCheckpointStorage(path, allowed_checkpoint_types=["types:GenericAlias"]))
    with Clock(play) as clock:
        await workflow.run(play.user(0))
    yield clock.figures(options.n, "file checkpoints", stored_bytes=size_of(path), written_bytes=clock.written, extra=first_and_last(play))


def chatting(client: Any, tools: list[FunctionTool] | None = None, history: Path | None = None) -> Agent[Any]:
    providers = [FileHistoryProvider(history)] if history else None
    return Agent(client=client, name="ann", instructions=INSTRUCTIONS, tools=tools, context_providers=providers)


async def w3(options: Options) -> AsyncIterator[Figures]:
    for variant in ("memory", "file history"):
        if options.wants(variant):
            play, path = chat_with_tools(options.n), None if variant == "memory" else options.folder / "history"
            agent, session = chatting(Fake(play), tools_of(play), path), AgentSession(session_id="s")
            with Clock(play) as clock:
                for number in range(options.n):
                    await agent.run(play.user(number), session=session)
            yield clock.figures(options.n, variant, stored_bytes=size_of(path) if path else None, written_bytes=clock.written)


async def w4(options: Options) -> AsyncIterator[Figures]:
    play, kept = chat_with_tools(options.n), options.folder / "session.json"
    agent = chatting(Fake(play), tools_of(play, gated=True))
    with Clock(play) as clock:
        session = AgentSession(session_id="s")
        for number in range(options.n):
            response = await agent.run(play.user(number), session=session)
            requests = [request.to_dict() for request in response.user_input_requests]
            kept.write_text(json.dumps({"session": session.to_dict(), "requests": requests}))
            loaded = json.loads(kept.read_text())
            session = AgentSession.from_dict(loaded["session"])
            answers = [Content.from_dict(request).to_function_approval_response(True) for request in loaded["requests"]]
            await agent.run(Message(role="user", contents=answers), session=session)
    yield clock.figures(options.n, "session as JSON", stored_bytes=size_of(kept), written_bytes=clock.written)


class CrowdClient(Fake):
    """One client for everybody."""

    async def reply(self, messages: Sequence[Message], options: Mapping[str, Any]) -> ChatResponse:
        return as_response(await crowd_reply(lambda: seen(messages)))


async def w5(options: Options) -> AsyncIterator[Figures]:
    client = CrowdClient(Play([]))

    async def converse(question: str) -> str:
        return str((await desk(client).run(question)).get_outputs()[-1].text)

    async for figures in crowd(options, converse):
        yield figures


async def through_the_sdk(options: Options) -> AsyncIterator[Figures]:
    async def conversation(base_url: str, stream: bool) -> Say:
        client = OpenAIChatClient(model=MODEL, api_key=KEY, base_url=base_url)
        agent = Agent(client=client, name="ann", instructions=INSTRUCTIONS, default_options={"store": False})
        session = agent.create_session()

        async def say(text: str) -> None:
            if stream:
                async for _ in agent.run(text, session=session, stream=True):
                    pass
            else:
                await agent.run(text, session=session)

        return say

    async for figures in w7(options, conversation):
        yield figures


async def w8(options: Options) -> AsyncIterator[Figures]:
    play, path = plain_chat(options.n), options.folder / "history"
    agent, session = chatting(Fake(play), history=path), AgentSession(session_id="s")
    with Clock(play) as clock:
        for number in range(options.n):
            await agent.run(play.user(number), session=session)

    async def opening() -> list[Message]:
        return await FileHistoryProvider(path).get_messages("s")

    async def closing(opened: list[Message]) -> None:
        assert len(opened) == 2 * options.n

    figures = clock.figures(options.n, stored_bytes=size_of(path), written_bytes=clock.written)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await median_opening(opening, closing)
    yield figures


if __name__ == "__main__":
    workloads = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W7": through_the_sdk, "W8": w8}
    main("agent-framework", version("agent-framework-core"), workloads)
