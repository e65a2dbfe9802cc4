"""Helpers of the tests of Anthropic's models: two agents, scripted replies of the emulator, and a scripted client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anthropic
import httpx2

from legato import Agent, HandoffBuilder, Session, Workflow, tool
from legato.core.facts import ModelReplied
from legato.core.turn_context import TurnContext
from legato.core.view import ModelRequest
from legato.emulator import Emulator
from legato.emulator.exchanges import Exchange
from legato.emulator.fake_models.base import ModelPrompt, ReplyCall, ReplyText, ReplyThought
from legato.models.anthropic import Anthropic
from tests.providers.formats.anthropic.conversations import make_message_group, make_request


@asynccontextmanager
async def close_models(*models: Any):  # type: ignore[no-untyped-def]
    """Provide the models, and close them at the end."""
    async with AsyncExitStack() as stack:
        for model in models:
            stack.push_async_callback(model.close)
        yield models[0] if len(models) == 1 else models


def make_anthropic(emulator: Emulator, name: str = "claude-opus-5-5", **options: Any) -> Anthropic:
    return Anthropic(name, base_url=emulator.url, api_key="sk-ant-test", **options)


@tool
async def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order}: one teapot"


def make_desk(model: Any, other: Any = None, **edges: Any) -> Workflow:
    """Two agents that hand over to each other, one with a tool."""
    front = Agent("front", instructions="You greet.", model=model)
    back = Agent("back", instructions="You look things up.", model=other or model, tools=[look_up])
    return HandoffBuilder("desk", [front, back]).add_handoff(front, [back], **edges).add_handoff(back, [front]).build()


def handoff_call(agent: str) -> ReplyCall:
    return ReplyCall(f"handoff_to_{agent}")


def script_replies(*replies: list[Any]) -> Callable[[ModelPrompt], list[Any]]:
    """Return a fake model that gives these replies, one after the other."""
    remaining = list(replies)
    return lambda prompt: [item for item in remaining.pop(0) if prompt.has_reasoning or not isinstance(item, ReplyThought)]


ROUND_TRIP = (
    [ReplyThought("front 1"), handoff_call("back")],
    [ReplyThought("back 1"), ReplyText("Let me see."), ReplyCall("look_up", '{"order": "A-17"}')],
    [ReplyThought("back 2"), handoff_call("front")],
    [ReplyThought("front 2"), ReplyText("It is a teapot.")],
    [ReplyThought("front 3"), handoff_call("back")],
    [ReplyThought("back 3"), ReplyText("Yes?")],
)


def find_sent_thinking(body: dict[str, Any]) -> list[str]:
    return [block["thinking"] for message in body["messages"] for block in message["content"] if block["type"] == "thinking"]


async def read_exchanges(emulator: Emulator) -> list[Exchange]:
    """Return the exchanges once the server recorded all of them: a client may read the end of an answer earlier."""
    for _ in range(1000):
        if len(recorded := emulator.exchanges) == emulator.log.requests:
            return recorded
        await asyncio.sleep(0.005)
    raise AssertionError("the emulator did not record every exchange")


async def find_refusals(emulator: Emulator) -> list[str]:
    return [f"{exchange}: {exchange.violations}" for exchange in await read_exchanges(emulator) if exchange.status != 200]


def find_replies(session: Session) -> list[ModelReplied]:
    return [fact for fact in session.facts if isinstance(fact, ModelReplied)]


def make_scripted_client(*bodies: dict[str, Any]) -> tuple[anthropic.AsyncAnthropic, list[dict[str, Any]]]:
    """Return a client whose provider gives these answers, one after the other, and the list of its requests."""
    remaining, requests = list(bodies), list[dict[str, Any]]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(json.loads(request.content))
        body = remaining.pop(0)
        return httpx2.Response(400 if body.get("type") == "error" else 200, json=body)

    transport = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return anthropic.AsyncAnthropic(api_key="x", base_url="https://provider.example", http_client=transport, max_retries=0), requests


def message_body(*content: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    return {"type": "message", "content": list(content), "stop_reason": stop, "usage": {"input_tokens": 3, "output_tokens": 2}}


def make_simple_request(context: TurnContext | None = None) -> ModelRequest:
    return make_request(context or TurnContext("a", "You help."), [make_message_group(0, "Hello")])
