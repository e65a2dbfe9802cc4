"""Google's Agent Development Kit. Handoffs are its `transfer_to_agent` between an agent and its sub-agent; `SqliteSessionService` on a file
for what is durable; tool confirmation for approvals.

What was not possible: it does not use the `openai` SDK by itself, so W7 goes through its `LiteLlm` model, which speaks Chat Completions.
Texts and calls of other agents are rendered for an agent as context ("[ann] said: ..."): that is by design, and counts as present.
In its favour: the limit on model calls is lifted, as the documentation allows.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from importlib.metadata import version
from typing import Any

import _path  # noqa: F401 - adds this tree to the import path
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import FunctionTool
from google.genai import types

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
)

APP, USER = "desk", "u"
UNLIMITED = RunConfig(max_llm_calls=1_000_000)
CONFIRMATION = "adk_request_confirmation"

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices, in the background
logging.getLogger("google_adk").setLevel(logging.ERROR)
sys.setrecursionlimit(100_000)  # a transfer runs inside the run of the agent that made it


class FakeModel(BaseLlm):
    """A model that replies with the next turns of a play."""

    model: str = "fake"
    play: Any = None

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield make_response(self.play.reply(lambda: read_request_content(llm_request)))


def make_response(turn: PlayTurn) -> LlmResponse:
    parts = [types.Part(text=turn.text)]
    for call in turn.calls:
        name, arguments = ("transfer_to_agent", {"agent_name": call.target}) if call.target else (call.tool, {"key": call.key})
        parts.append(types.Part(function_call=types.FunctionCall(id=call.id, name=name, args=arguments)))
    return LlmResponse(content=types.Content(role="model", parts=parts))


def read_request_content(request: LlmRequest) -> RequestContent:
    parts = [part for content in request.contents for part in content.parts or []]
    responses = [part.function_response for part in parts if part.function_response]
    texts = [part.text for part in parts if part.text]
    return RequestContent(
        [*texts, *(json.dumps(response.response) for response in responses)],
        [part.function_call.id or "" for part in parts if part.function_call],
        [response.id or "" for response in responses],
        unmatched_call_count=sum("called tool" in text for text in texts),
    )


def build_desk(model: Any) -> LlmAgent:
    """Two agents who may transfer to each other: one is the other's parent."""
    ann, bob = AGENTS
    colleague = LlmAgent(name=bob, description="Knows about parcels.", model=model, instruction=INSTRUCTIONS)
    return LlmAgent(name=ann, description="The front desk.", model=model, instruction=INSTRUCTIONS, sub_agents=[colleague])


def build_chat_agent(model: Any, tools: list[Any] | None = None) -> LlmAgent:
    return LlmAgent(name="ann", model=model, instruction=INSTRUCTIONS, tools=tools or [])


def make_tools(play: Play, gated: bool = False) -> list[FunctionTool]:
    def make(name: str) -> FunctionTool:
        async def look(key: str) -> str:
            """Look something up."""
            return play.make_tool_output(name, key)

        look.__name__ = name
        return FunctionTool(look, require_confirmation=gated and name == TOOLS[0])

    return [make(name) for name in TOOLS]


async def make_runner(agent: LlmAgent, service: BaseSessionService, session: str = "s", new: bool = True) -> Runner:
    if new:
        await service.create_session(app_name=APP, user_id=USER, session_id=session)
    return Runner(agent=agent, app_name=APP, session_service=service)


async def say(runner: Runner, *parts: types.Part, session: str = "s", config: RunConfig = UNLIMITED) -> list[Any]:
    message = types.Content(role="user", parts=list(parts))
    return [event async for event in runner.run_async(user_id=USER, session_id=session, new_message=message, run_config=config)]


def text(words: str) -> types.Part:
    return types.Part(text=words)


# -- workloads ---------------------------------------------------------------------------------------------------------------------


async def run_w1(options: Options) -> AsyncIterator[Figures]:
    play = make_ping_pong(options.n)
    runner = await make_runner(build_desk(FakeModel(play=play)), InMemorySessionService())
    with Clock(play) as clock:
        await say(runner, text(play.make_user_message(0)))
    yield clock.make_figures(options.n, extra=compare_first_and_last(play))


async def run_w2(options: Options) -> AsyncIterator[Figures]:
    play, path = make_ping_pong(options.n), options.folder / "sessions.db"
    runner = await make_runner(build_desk(FakeModel(play=play)), SqliteSessionService(str(path)))
    with Clock(play) as clock:
        await say(runner, text(play.make_user_message(0)))
    yield clock.make_figures(
        options.n, "sqlite", stored_bytes=measure_size(path), written_bytes=clock.written_bytes, extra=compare_first_and_last(play)
    )


async def run_w3(options: Options) -> AsyncIterator[Figures]:
    for variant in ("memory", "sqlite"):
        if options.is_selected(variant):
            play, path = make_tool_chat(options.n), options.folder / "sessions.db"
            service = InMemorySessionService() if variant == "memory" else SqliteSessionService(str(path))
            runner = await make_runner(build_chat_agent(FakeModel(play=play), make_tools(play)), service)
            with Clock(play) as clock:
                for number in range(options.n):
                    await say(runner, text(play.make_user_message(number)))
            yield clock.make_figures(options.n, variant, stored_bytes=measure_size(path) or None, written_bytes=clock.written_bytes)


async def run_w4(options: Options) -> AsyncIterator[Figures]:
    """The service opens the file again for each operation, so there is only one variant."""
    play, path = make_tool_chat(options.n), options.folder / "sessions.db"
    agent = build_chat_agent(FakeModel(play=play), make_tools(play, gated=True))

    async def open_runner(new: bool = False) -> Runner:
        """Open the session as another process would."""
        return await make_runner(agent, SqliteSessionService(str(path)), new=new)

    with Clock(play) as clock:
        runner = await open_runner(new=True)
        for number in range(options.n):
            events = await say(runner, text(play.make_user_message(number)))
            confirmation_calls = [call for event in events for call in event.get_function_calls() if call.name == CONFIRMATION]
            runner = await open_runner()
            answers = [types.FunctionResponse(id=call.id, name=CONFIRMATION, response={"confirmed": True}) for call in confirmation_calls]
            await say(runner, *(types.Part(function_response=answer) for answer in answers))
    yield clock.make_figures(options.n, "sqlite", stored_bytes=measure_size(path), written_bytes=clock.written_bytes)


class CrowdModel(FakeModel):
    """One model for all conversations."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield make_response(await reply_in_crowd(lambda: read_request_content(llm_request)))


async def run_w5(options: Options) -> AsyncIterator[Figures]:
    agent, service, numbers = build_desk(CrowdModel()), InMemorySessionService(), itertools.count()

    async def run_conversation(question: str) -> str:
        session = str(next(numbers))
        runner = await make_runner(agent, service, session)
        events = await say(runner, text(question), session=session)
        return str(events[-1].content.parts[0].text)

    async for figures in measure_crowd(options, run_conversation):
        yield figures


async def run_w7(options: Options) -> AsyncIterator[Figures]:
    from google.adk.models.lite_llm import LiteLlm

    async def start_conversation(base_url: str, stream: bool) -> SendMessage:
        model = LiteLlm(model=f"openai/{MODEL}", api_base=base_url, api_key=KEY)
        runner = await make_runner(build_chat_agent(model), InMemorySessionService())
        config = RunConfig(max_llm_calls=1_000_000, streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
        return lambda words: say(runner, text(words), config=config)

    async for figures in measure_sdk_calls(options, start_conversation):
        figures.note = "through LiteLlm, by Chat Completions"
        yield figures


async def run_w8(options: Options) -> AsyncIterator[Figures]:
    play, path = make_plain_chat(options.n), options.folder / "sessions.db"
    runner = await make_runner(build_chat_agent(FakeModel(play=play)), SqliteSessionService(str(path)))
    with Clock(play) as clock:
        for number in range(options.n):
            await say(runner, text(play.make_user_message(number)))

    async def open_conversation() -> Any:
        return await SqliteSessionService(str(path)).get_session(app_name=APP, user_id=USER, session_id="s")

    async def close_conversation(session: Any) -> None:
        assert len(session.events) == 2 * options.n

    figures = clock.make_figures(options.n, stored_bytes=measure_size(path), written_bytes=clock.written_bytes)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await measure_opening(open_conversation, close_conversation)
    yield figures


if __name__ == "__main__":
    workloads = {"W1": run_w1, "W2": run_w2, "W3": run_w3, "W4": run_w4, "W5": run_w5, "W7": run_w7, "W8": run_w8}
    main("google-adk", version("google-adk"), workloads)
