"""Google's Agent Development Kit. Handoffs are its `transfer_to_agent` between an agent and its sub-agent; `SqliteSessionService` on a file
for what is durable; tool confirmation for approvals.

What was not possible: it does not use the `openai` SDK by itself, so W7 goes through its `LiteLlm` model, which speaks Chat Completions.
Colleagues' words and calls are retold to an agent as context ("[ann] said: ..."): that is how it is meant, and is counted as seen.
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

import _path  # noqa: F401 - this tree can be imported from here on
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import FunctionTool
from google.genai import types

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
    ping_pong,
    plain_chat,
)

APP, USER = "desk", "u"
UNLIMITED = RunConfig(max_llm_calls=1_000_000)
CONFIRMATION = "adk_request_confirmation"

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices, in the background
logging.getLogger("google_adk").setLevel(logging.ERROR)
sys.setrecursionlimit(100_000)  # a transfer runs inside the run of the agent that made it


class Fake(BaseLlm):
    """Says what the play has for it."""

    model: str = "fake"
    play: Any = None

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield as_response(self.play.next(lambda: seen(llm_request)))


def as_response(turn: Turn) -> LlmResponse:
    parts = [types.Part(text=turn.text)]
    for call in turn.calls:
        name, given = ("transfer_to_agent", {"agent_name": call.to}) if call.to else (call.tool, {"key": call.key})
        parts.append(types.Part(function_call=types.FunctionCall(id=call.id, name=name, args=given)))
    return LlmResponse(content=types.Content(role="model", parts=parts))


def seen(request: LlmRequest) -> Seen:
    parts = [part for content in request.contents for part in content.parts or []]
    responses = [part.function_response for part in parts if part.function_response]
    texts = [part.text for part in parts if part.text]
    return Seen(
        [*texts, *(json.dumps(response.response) for response in responses)],
        [part.function_call.id or "" for part in parts if part.function_call],
        [response.id or "" for response in responses],
        retold_calls=sum("called tool" in text for text in texts),
    )


def desk(model: Any) -> LlmAgent:
    """Two agents who may transfer to each other: one is the other's parent."""
    ann, bob = AGENTS
    colleague = LlmAgent(name=bob, description="Knows about parcels.", model=model, instruction=INSTRUCTIONS)
    return LlmAgent(name=ann, description="The front desk.", model=model, instruction=INSTRUCTIONS, sub_agents=[colleague])


def chatting(model: Any, tools: list[Any] | None = None) -> LlmAgent:
    return LlmAgent(name="ann", model=model, instruction=INSTRUCTIONS, tools=tools or [])


def tools_of(play: Play, gated: bool = False) -> list[FunctionTool]:
    def make(name: str) -> FunctionTool:
        async def look(key: str) -> str:
            """Look something up."""
            return play.output(name, key)

        look.__name__ = name
        return FunctionTool(look, require_confirmation=gated and name == TOOLS[0])

    return [make(name) for name in TOOLS]


async def runner_of(agent: LlmAgent, service: BaseSessionService, session: str = "s", new: bool = True) -> Runner:
    if new:
        await service.create_session(app_name=APP, user_id=USER, session_id=session)
    return Runner(agent=agent, app_name=APP, session_service=service)


async def say(runner: Runner, *parts: types.Part, session: str = "s", config: RunConfig = UNLIMITED) -> list[Any]:
    message = types.Content(role="user", parts=list(parts))
    return [event async for event in runner.run_async(user_id=USER, session_id=session, new_message=message, run_config=config)]


def text(words: str) -> types.Part:
    return types.Part(text=words)


# -- the workloads -----------------------------------------------------------------------------------------------------------------


async def w1(options: Options) -> AsyncIterator[Figures]:
    play = ping_pong(options.n)
    runner = await runner_of(desk(Fake(play=play)), InMemorySessionService())
    with Clock(play) as clock:
        await say(runner, text(play.user(0)))
    yield clock.figures(options.n, extra=first_and_last(play))


async def w2(options: Options) -> AsyncIterator[Figures]:
    play, path = ping_pong(options.n), options.folder / "sessions.db"
    runner = await runner_of(desk(Fake(play=play)), SqliteSessionService(str(path)))
    with Clock(play) as clock:
        await say(runner, text(play.user(0)))
    yield clock.figures(options.n, "sqlite", stored_bytes=size_of(path), written_bytes=clock.written, extra=first_and_last(play))


async def w3(options: Options) -> AsyncIterator[Figures]:
    for variant in ("memory", "sqlite"):
        if options.wants(variant):
            play, path = chat_with_tools(options.n), options.folder / "sessions.db"
            service = InMemorySessionService() if variant == "memory" else SqliteSessionService(str(path))
            runner = await runner_of(chatting(Fake(play=play), tools_of(play)), service)
            with Clock(play) as clock:
                for number in range(options.n):
                    await say(runner, text(play.user(number)))
            yield clock.figures(options.n, variant, stored_bytes=size_of(path) or None, written_bytes=clock.written)


async def w4(options: Options) -> AsyncIterator[Figures]:
    """The service opens the file anew for whatever it does, so there is no other way to measure."""
    play, path = chat_with_tools(options.n), options.folder / "sessions.db"
    agent = chatting(Fake(play=play), tools_of(play, gated=True))

    async def opened(new: bool = False) -> Runner:
        """As another process would find it."""
        return await runner_of(agent, SqliteSessionService(str(path)), new=new)

    with Clock(play) as clock:
        runner = await opened(new=True)
        for number in range(options.n):
            events = await say(runner, text(play.user(number)))
            asked = [call for event in events for call in event.get_function_calls() if call.name == CONFIRMATION]
            runner = await opened()
            answers = [types.FunctionResponse(id=call.id, name=CONFIRMATION, response={"confirmed": True}) for call in asked]
            await say(runner, *(types.Part(function_response=answer) for answer in answers))
    yield clock.figures(options.n, "sqlite", stored_bytes=size_of(path), written_bytes=clock.written)


class CrowdModel(Fake):
    """One model for everybody."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield as_response(await crowd_reply(lambda: seen(llm_request)))


async def w5(options: Options) -> AsyncIterator[Figures]:
    agent, service, numbers = desk(CrowdModel()), InMemorySessionService(), itertools.count()

    async def converse(question: str) -> str:
        session = str(next(numbers))
        runner = await runner_of(agent, service, session)
        events = await say(runner, text(question), session=session)
        return str(events[-1].content.parts[0].text)

    async for figures in crowd(options, converse):
        yield figures


async def through_the_sdk(options: Options) -> AsyncIterator[Figures]:
    from google.adk.models.lite_llm import LiteLlm

    async def conversation(base_url: str, stream: bool) -> Say:
        model = LiteLlm(model=f"openai/{MODEL}", api_base=base_url, api_key=KEY)
        runner = await runner_of(chatting(model), InMemorySessionService())
        config = RunConfig(max_llm_calls=1_000_000, streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
        return lambda words: say(runner, text(words), config=config)

    async for figures in w7(options, conversation):
        figures.note = "through LiteLlm, by Chat Completions"
        yield figures


async def w8(options: Options) -> AsyncIterator[Figures]:
    play, path = plain_chat(options.n), options.folder / "sessions.db"
    runner = await runner_of(chatting(Fake(play=play)), SqliteSessionService(str(path)))
    with Clock(play) as clock:
        for number in range(options.n):
            await say(runner, text(play.user(number)))

    async def opening() -> Any:
        return await SqliteSessionService(str(path)).get_session(app_name=APP, user_id=USER, session_id="s")

    async def closing(session: Any) -> None:
        assert len(session.events) == 2 * options.n

    figures = clock.figures(options.n, stored_bytes=size_of(path), written_bytes=clock.written)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await median_opening(opening, closing)
    yield figures


if __name__ == "__main__":
    workloads = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W7": through_the_sdk, "W8": w8}
    main("google-adk", version("google-adk"), workloads)
