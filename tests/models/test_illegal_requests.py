"""A request that the provider would certainly refuse is never sent (C5): whoever runs the session is told, and loses nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from legato import Agent, Middleware
from legato.core.facts import ModelRequestFailed
from legato.emulator import serve
from legato.errors import IllegalRequest
from legato.models import FallbackModel, OpenAIChat, OpenAIResponses
from legato.testing import ScriptedModel


class Spoils(Middleware):
    """Middleware that gives the model what no provider takes: a tool that is called as nothing is."""

    def __init__(self) -> None:
        self.at_work = True

    async def around_model(self, request: Any, proceed: Any) -> Any:
        if self.at_work:
            tools = tuple(replace(tool, parameters='{"type": "array"}') for tool in request.frame.tools)
            request = replace(request, frame=replace(request.frame, tools=tools))
        return await proceed(request)


def look_up(order: str) -> str:
    """Look up an order."""
    return "a teapot"


@pytest.mark.parametrize("kind", [OpenAIResponses, OpenAIChat])
async def test_an_illegal_request_is_raised_with_its_clause_and_a_dump_and_the_session_goes_on_when_it_is_mended(kind: Any) -> None:
    async with serve() as emulator:
        model = kind("gpt-4.1", base_url=emulator.openai_url, api_key="sk-secret")
        spoils = Spoils()
        session = Agent("a", model=model, tools=[look_up], middleware=[spoils])._workflow().session("s")
        with pytest.raises(IllegalRequest, match="breaks clause") as raised:
            await session.run("Where is order 7?")
        assert json.loads(raised.value.dump)["tools"]
        assert b"sk-secret" not in raised.value.dump
        assert emulator.log.requests == 0
        assert not [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
        spoils.at_work = False
        result = await session.resume()
        assert result.status == "waiting"
        assert emulator.summary().endswith(f"200 x{emulator.log.requests}")
        await model.close()


async def test_no_other_model_stands_in_for_a_bug_of_ours() -> None:
    model = OpenAIResponses("gpt-4.1", base_url="http://127.0.0.1:9/v1", api_key="any")
    agent = Agent("a", model=FallbackModel(model, ScriptedModel(["Hello"])), tools=[look_up], middleware=[Spoils()])
    with pytest.raises(IllegalRequest):
        await agent.run("Where is order 7?")
