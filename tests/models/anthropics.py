"""What the tests of Anthropic's models share: two agents, an emulator that says what it is told to, and a provider of paper."""

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
from legato.core.turn_context import Frame
from legato.core.view import Request
from legato.emulator import Emulator
from legato.emulator.exchanges import Exchange
from legato.emulator.minds.base import Prompt, Thought, Use, Words
from legato.models.anthropic import Anthropic
from tests.providers.anthropic.talks import asked, said


@asynccontextmanager
async def talking(*models: Any):  # type: ignore[no-untyped-def]
    """The models, closed in the end."""
    async with AsyncExitStack() as stack:
        for model in models:
            stack.push_async_callback(model.close)
        yield models[0] if len(models) == 1 else models


def model_at(emulator: Emulator, name: str = "claude-opus-5-5", **options: Any) -> Anthropic:
    return Anthropic(name, base_url=emulator.url, api_key="sk-ant-test", **options)


@tool
async def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order}: one teapot"


def desk(model: Any, other: Any = None, **edges: Any) -> Workflow:
    """Two agents that hand over to each other, one with a tool."""
    front = Agent("front", instructions="You greet.", model=model)
    back = Agent("back", instructions="You look things up.", model=other or model, tools=[look_up])
    return HandoffBuilder("desk", [front, back]).add_handoff(front, [back], **edges).add_handoff(back, [front]).build()


def to(agent: str) -> Use:
    return Use(f"handoff_to_{agent}")


def saying(*replies: list[Any]) -> Callable[[Prompt], list[Any]]:
    """A mind that says these, one after the other, whoever asks."""
    left = list(replies)
    return lambda prompt: [item for item in left.pop(0) if prompt.thinks or not isinstance(item, Thought)]


ROUND_TRIP = (
    [Thought("front 1"), to("back")],
    [Thought("back 1"), Words("Let me see."), Use("look_up", '{"order": "A-17"}')],
    [Thought("back 2"), to("front")],
    [Thought("front 2"), Words("It is a teapot.")],
    [Thought("front 3"), to("back")],
    [Thought("back 3"), Words("Yes?")],
)


def thoughts(body: dict[str, Any]) -> list[str]:
    return [block["thinking"] for message in body["messages"] for block in message["content"] if block["type"] == "thinking"]


async def exchanges(emulator: Emulator) -> list[Exchange]:
    """The exchanges, once the server has noted them all: the last byte of an answer is read before it has."""
    for _ in range(1000):
        if len(noted := emulator.exchanges) == emulator.log.requests:
            return noted
        await asyncio.sleep(0.005)
    raise AssertionError("the emulator has not noted every exchange")


async def refusals(emulator: Emulator) -> list[str]:
    return [f"{exchange}: {exchange.verdict}" for exchange in await exchanges(emulator) if exchange.status != 200]


def answers(session: Session) -> list[ModelReplied]:
    return [fact for fact in session.facts if isinstance(fact, ModelReplied)]


def scripted(*bodies: dict[str, Any]) -> tuple[anthropic.AsyncAnthropic, list[dict[str, Any]]]:
    """A client whose provider answers these, one after the other; and what it was asked."""
    left, seen = list(bodies), list[dict[str, Any]]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(json.loads(request.content))
        body = left.pop(0)
        return httpx2.Response(400 if body.get("type") == "error" else 200, json=body)

    transport = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return anthropic.AsyncAnthropic(api_key="x", base_url="https://provider.example", http_client=transport, max_retries=0), seen


def message(*content: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    return {"type": "message", "content": list(content), "stop_reason": stop, "usage": {"input_tokens": 3, "output_tokens": 2}}


def request_of(frame: Frame | None = None) -> Request:
    return asked(frame or Frame("a", "You help."), [said(0, "Hello")])
