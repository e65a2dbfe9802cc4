"""Helpers of the tests of OpenAIChat: a workflow, checks of the emulator's log, and servers with scripted answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import openai

from legato import Agent, HandoffBuilder, Session, Workflow, tool
from legato.core.facts import ModelReplied, ModelRequestFailed
from legato.core.model_reply import ModelReply
from legato.emulator import Emulator
from legato.emulator.exchanges import Exchange
from legato.models.chat import OpenAIChat
from legato.providers.rules.chat.rules import check_request
from tests.providers.formats.chat.conversations import ConversationBuilder


def make_model(emulator: Emulator, name: str = "gpt-5", **more: Any) -> OpenAIChat:
    return OpenAIChat(name, base_url=emulator.openai_url, api_key="sk-test", **more)


@tool
def look_up_order(order_id: str) -> str:
    """Look up an order by its id."""
    return f"order {order_id}: one teapot"


def make_desk(model: OpenAIChat, second: str = "refunds") -> Workflow:
    triage = Agent("triage", instructions="Route the customer.", model=model)
    refunds = Agent(
        second, instructions="Handle refunds of orders.", description="refunds of broken orders", model=model, tools=[look_up_order]
    )
    return HandoffBuilder("desk", [triage, refunds]).add_handoff(triage, [refunds]).add_handoff(refunds, [triage]).build()


async def check_log(emulator: Emulator, *, allowed_faults: int = 0) -> list[Exchange]:
    """Check that nothing was refused, and that all requests are legal by a second check beside the emulator's own."""
    exchanges = await read_exchanges(emulator)
    assert emulator.log.refusals == {}
    assert sum(exchange.status != 200 for exchange in exchanges) <= allowed_faults
    for exchange in exchanges:
        assert check_request(exchange.request_body) == []
        open_ids: list[str] = []
        for message in exchange.request_body["messages"]:
            if message["role"] == "tool":
                assert message["tool_call_id"] == open_ids.pop(0)  # in the order of the calls, right after them
            else:
                assert open_ids == []
                open_ids = [call["id"] for call in message.get("tool_calls", ())]
        assert open_ids == []
    return exchanges


async def read_exchanges(emulator: Emulator) -> list[Exchange]:
    """Return the exchanges once the server recorded all of them: a client may read the end of an answer earlier."""
    for _ in range(2000):
        if len(emulator.exchanges) == emulator.log.requests:
            return emulator.exchanges
        await asyncio.sleep(0.005)
    raise AssertionError("the emulator did not record every exchange")


def find_replies(session: Session) -> list[ModelReplied]:
    return [fact for fact in session.state.facts if isinstance(fact, ModelReplied)]


def find_failed_requests(session: Session) -> list[ModelRequestFailed]:
    return [fact for fact in session.state.facts if isinstance(fact, ModelRequestFailed)]


async def request_reply(model: Any, builder: ConversationBuilder | None = None) -> tuple[ModelReply, str]:
    deltas: list[str] = []
    return await model.reply((builder or ConversationBuilder().add_message("Hello")).build_request(), deltas.append), "".join(deltas)


class ScriptedServer:
    """A compatible server with a list of answers. It records the requests and their keys."""

    def __init__(self, *answers: Any, status: int = 200, content_type: str = "application/json") -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.content_type = content_type
        self.status = status

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(json.loads(request.content))
        self.keys.append(request.headers["authorization"])
        answer = self.answers.pop(0)
        status, body = answer if isinstance(answer, tuple) else (self.status, answer)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx2.Response(status, content=content, headers={"content-type": self.content_type})

    def make_model(self, **more: Any) -> OpenAIChat:
        transport = httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer))
        client = openai.AsyncOpenAI(base_url="http://server/v1", api_key="sk-test", max_retries=0, http_client=transport)
        return OpenAIChat("m", client=client, **more)
