"""A request that the provider would certainly refuse is never sent (C5): it raises an error, and the session stays usable."""

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


class SpoilTools(Middleware):
    """Middleware that gives the model what no provider takes: a tool that is called as nothing is."""

    def __init__(self) -> None:
        self.is_active = True

    async def around_model(self, request: Any, proceed: Any) -> Any:
        if self.is_active:
            tools = tuple(replace(tool, parameters='{"type": "array"}') for tool in request.turn_context.tools)
            request = replace(request, turn_context=replace(request.turn_context, tools=tools))
        return await proceed(request)


def look_up(order: str) -> str:
    """Look up an order."""
    return "a teapot"


@pytest.mark.parametrize("kind", [OpenAIResponses, OpenAIChat])
async def test_illegal_request_is_raised_and_not_sent(kind: Any) -> None:
    """The error has the rule and a dump. When the cause is mended, the session continues."""
    async with serve() as emulator:
        model = kind("gpt-4.1", base_url=emulator.openai_url, api_key="sk-secret")
        spoils = SpoilTools()
        session = Agent("a", model=model, tools=[look_up], middleware=[spoils])._as_workflow().session("s")
        with pytest.raises(IllegalRequest, match="breaks the provider's rule") as raised:
            await session.run("Where is order 7?")
        assert json.loads(raised.value.dump)["tools"]
        assert b"sk-secret" not in raised.value.dump
        assert emulator.log.requests == 0
        assert not [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
        spoils.is_active = False
        result = await session.resume()
        assert result.status == "waiting"
        assert emulator.summary().endswith(f"200 x{emulator.log.requests}")
        await model.close()


async def test_illegal_request_does_not_fall_back() -> None:
    model = OpenAIResponses("gpt-4.1", base_url="http://127.0.0.1:9/v1", api_key="any")
    agent = Agent("a", model=FallbackModel(model, ScriptedModel(["Hello"])), tools=[look_up], middleware=[SpoilTools()])
    with pytest.raises(IllegalRequest):
        await agent.run("Where is order 7?")
