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

import _path  # noqa: F401 - adds this tree to the import path
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


class FakeModel(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A model that replies with the next turns of a play."""

    def __init__(self, play: Play) -> None:
        super().__init__()
        self.play = play

    def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **more: Any) -> Awaitable[Any]:
        return self.reply(messages, options)

    async def reply(self, messages: Sequence[Message], options: Mapping[str, Any]) -> ChatResponse:
        return make_response(self.play.reply(lambda: read_request_content(messages)))


def make_response(turn: PlayTurn) -> ChatResponse:
    contents = [Content.from_text(turn.text)]
    contents += [Content.from_function_call(call.id, call.tool, arguments=encode_arguments(call)) for call in turn.calls]
    return ChatResponse(messages=[Message(role="assistant", contents=contents)])


def read_request_content(messages: Sequence[Message]) -> RequestContent:
    contents = [content for message in messages for content in message.contents]
    return RequestContent(
        [str(content.text if content.type == "text" else content.result) for content in contents],
        [content.call_id for content in contents if content.type == "function_call"],
        [content.call_id for content in contents if content.type == "function_result"],
    )


def build_desk(client: Any, checkpoints: FileCheckpointStorage | None = None) -> Workflow:
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


def make_tools(play: Play, gated: bool = False) -> list[FunctionTool]:
    def make(name: str) -> FunctionTool:
        @tool(name=name, approval_mode="always_require" if gated and name == TOOLS[0] else "never_require")
        async def look(key: str) -> str:
            """Look something up."""
            return play.make_tool_output(name, key)

        return look

    return [make(name) for name in TOOLS]


# -- workloads ---------------------------------------------------------------------------------------------------------------------


async def run_w1(options: Options) -> AsyncIterator[Figures]:
    play = make_ping_pong(options.n)
    workflow = build_desk(FakeModel(play))
    with Clock(play) as clock:
        await workflow.run(play.make_user_message(0))
    yield clock.make_figures(
        options.n, extra=compare_first_and_last(play), note="the limit of 100 supersteps was lifted by a private attribute"
    )


async def run_w2(options: Options) -> AsyncIterator[Figures]:
    play, path = make_ping_pong(options.n), options.folder / "checkpoints"
    # A workflow that waits for its user has a `list[...]` in its checkpoints; without this the last ones fail.
    workflow = build_desk(FakeModel(play), FileCheckpointStorage(path, allowed_checkpoint_types=["types:GenericAlias"]))
    with Clock(play) as clock:
        await workflow.run(play.make_user_message(0))
    yield clock.make_figures(
        options.n,
        "file checkpoints",
        stored_bytes=measure_size(path),
        written_bytes=clock.written_bytes,
        extra=compare_first_and_last(play),
    )


def build_chat_agent(client: Any, tools: list[FunctionTool] | None = None, history: Path | None = None) -> Agent[Any]:
    providers = [FileHistoryProvider(history)] if history else None
    return Agent(client=client, name="ann", instructions=INSTRUCTIONS, tools=tools, context_providers=providers)


async def run_w3(options: Options) -> AsyncIterator[Figures]:
    for variant in ("memory", "file history"):
        if options.is_selected(variant):
            play, path = make_tool_chat(options.n), None if variant == "memory" else options.folder / "history"
            agent, session = build_chat_agent(FakeModel(play), make_tools(play), path), AgentSession(session_id="s")
            with Clock(play) as clock:
                for number in range(options.n):
                    await agent.run(play.make_user_message(number), session=session)
            yield clock.make_figures(
                options.n, variant, stored_bytes=measure_size(path) if path else None, written_bytes=clock.written_bytes
            )


async def run_w4(options: Options) -> AsyncIterator[Figures]:
    play, file = make_tool_chat(options.n), options.folder / "session.json"
    agent = build_chat_agent(FakeModel(play), make_tools(play, gated=True))
    with Clock(play) as clock:
        session = AgentSession(session_id="s")
        for number in range(options.n):
            response = await agent.run(play.make_user_message(number), session=session)
            requests = [request.to_dict() for request in response.user_input_requests]
            file.write_text(json.dumps({"session": session.to_dict(), "requests": requests}))
            loaded = json.loads(file.read_text())
            session = AgentSession.from_dict(loaded["session"])
            answers = [Content.from_dict(request).to_function_approval_response(True) for request in loaded["requests"]]
            await agent.run(Message(role="user", contents=answers), session=session)
    yield clock.make_figures(options.n, "session as JSON", stored_bytes=measure_size(file), written_bytes=clock.written_bytes)


class CrowdClient(FakeModel):
    """One client for all conversations."""

    async def reply(self, messages: Sequence[Message], options: Mapping[str, Any]) -> ChatResponse:
        return make_response(await reply_in_crowd(lambda: read_request_content(messages)))


async def run_w5(options: Options) -> AsyncIterator[Figures]:
    client = CrowdClient(Play([]))

    async def run_conversation(question: str) -> str:
        return str((await build_desk(client).run(question)).get_outputs()[-1].text)

    async for figures in measure_crowd(options, run_conversation):
        yield figures


async def run_w7(options: Options) -> AsyncIterator[Figures]:
    async def start_conversation(base_url: str, stream: bool) -> SendMessage:
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

    async for figures in measure_sdk_calls(options, start_conversation):
        yield figures


async def run_w8(options: Options) -> AsyncIterator[Figures]:
    play, path = make_plain_chat(options.n), options.folder / "history"
    agent, session = build_chat_agent(FakeModel(play), history=path), AgentSession(session_id="s")
    with Clock(play) as clock:
        for number in range(options.n):
            await agent.run(play.make_user_message(number), session=session)

    async def open_conversation() -> list[Message]:
        return await FileHistoryProvider(path).get_messages("s")

    async def close_conversation(opened: list[Message]) -> None:
        assert len(opened) == 2 * options.n

    figures = clock.make_figures(options.n, stored_bytes=measure_size(path), written_bytes=clock.written_bytes)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await measure_opening(open_conversation, close_conversation)
    yield figures


if __name__ == "__main__":
    workloads = {"W1": run_w1, "W2": run_w2, "W3": run_w3, "W4": run_w4, "W5": run_w5, "W7": run_w7, "W8": run_w8}
    main("agent-framework", version("agent-framework-core"), workloads)
