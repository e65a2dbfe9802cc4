"""What the tests of OpenAIChat share: a desk, a look into the emulator's log, and servers with manners of their own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import openai

from legato import Agent, HandoffBuilder, Session, Workflow, tool
from legato.core.facts import ModelReplied, ModelRequestFailed
from legato.core.model_reply import Reply
from legato.emulator import Emulator
from legato.emulator.exchanges import Exchange
from legato.models.chat import OpenAIChat
from legato.providers.rules.chat.laws import judge
from tests.providers.chat.talk import Talk


def model(emulator: Emulator, name: str = "gpt-5", **more: Any) -> OpenAIChat:
    return OpenAIChat(name, base_url=emulator.openai_url, api_key="sk-test", **more)


@tool
def look_up_order(order_id: str) -> str:
    """Look up an order by its id."""
    return f"order {order_id}: one teapot"


def desk(model: OpenAIChat, second: str = "refunds") -> Workflow:
    triage = Agent("triage", instructions="Route the customer.", model=model)
    refunds = Agent(
        second, instructions="Handle refunds of orders.", description="refunds of broken orders", model=model, tools=[look_up_order]
    )
    return HandoffBuilder("desk", [triage, refunds]).add_handoff(triage, [refunds]).add_handoff(refunds, [triage]).build()


async def check_log(emulator: Emulator, *, faults: int = 0) -> list[Exchange]:
    """Nothing was refused; and what was sent is right by another reading of the bodies than the emulator's own."""
    exchanges = await noted(emulator)
    assert emulator.log.refusals == {}
    assert sum(exchange.status != 200 for exchange in exchanges) <= faults
    for exchange in exchanges:
        assert judge(exchange.request) == []
        open_ids: list[str] = []
        for message in exchange.request["messages"]:
            if message["role"] == "tool":
                assert message["tool_call_id"] == open_ids.pop(0)  # in the order of the calls, right after them
            else:
                assert open_ids == []
                open_ids = [call["id"] for call in message.get("tool_calls", ())]
        assert open_ids == []
    return exchanges


async def noted(emulator: Emulator) -> list[Exchange]:
    """The exchanges, once the server has noted them all: who reads the last byte of an answer may be faster."""
    for _ in range(2000):
        if len(emulator.exchanges) == emulator.log.requests:
            return emulator.exchanges
        await asyncio.sleep(0.005)
    raise AssertionError("the emulator has not noted every exchange")


def replies(session: Session) -> list[ModelReplied]:
    return [fact for fact in session.state.facts if isinstance(fact, ModelReplied)]


def attempts(session: Session) -> list[ModelRequestFailed]:
    return [fact for fact in session.state.facts if isinstance(fact, ModelRequestFailed)]


async def asked(model: Any, talk: Talk | None = None) -> tuple[Reply, str]:
    heard: list[str] = []
    return await model.reply((talk or Talk().says("Hello")).request(), heard.append), "".join(heard)


class Server:
    """A server that speaks like OpenAI's, in its own way: it answers one after the other, and keeps what it was asked."""

    def __init__(self, *answers: Any, status: int = 200, content_type: str = "application/json") -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.content_type = content_type
        self.status = status

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(json.loads(request.content))
        self.keys.append(request.headers["authorization"])
        answer = self.answers.pop(0)
        status, body = answer if isinstance(answer, tuple) else (self.status, answer)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx2.Response(status, content=content, headers={"content-type": self.content_type})

    def model(self, **more: Any) -> OpenAIChat:
        transport = httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer))
        client = openai.AsyncOpenAI(base_url="http://server/v1", api_key="sk-test", max_retries=0, http_client=transport)
        return OpenAIChat("m", client=client, **more)
