"""The workflows of the clients, and the expected client reports and facts.

Each column of the table has a workflow of its own, so that a session belongs to one column.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.core.view import ModelRequest
from legato.models.model import Emit
from legato.testing import ScriptedModel, call

WORD_PAUSE_S = 0.1
GREETING, REPEATED_MESSAGES = "Hello, this is the desk.", "You said: Hello | What did I say?"
ORDER_JSON = '{"order": "7", "amount": 24.5}'


class SlowModel(ScriptedModel):
    """A model that emits one word at a time, with pauses, so that streams have several pieces."""

    async def _emit_text(self, text: str, emit: Emit) -> None:
        for number, word in enumerate(text.split(" ")):
            emit(f" {word}" if number else word)
            await asyncio.sleep(WORD_PAUSE_S)


class Expectation(NamedTuple):
    """The expected report of a client in a column, and the expected facts in the ledger of its one session."""

    client_report: dict[str, Any]
    messages: list[str]
    replies: int
    approvals: int = 0
    outputs: int = 0


TWO_TURNS = Expectation({"texts": [GREETING, REPEATED_MESSAGES]}, ["Hello", "What did I say?"], 2)
EXPECTATIONS: dict[str, Expectation] = {
    "plain": Expectation({"texts": [GREETING]}, ["Hello"], 1),
    "streamed": Expectation({"texts": [GREETING]}, ["Hello"], 1),
    "several turns": TWO_TURNS,
    "previous id": TWO_TURNS,
    "conversation": TWO_TURNS,
    "approval": Expectation(
        {"approval_requests": [["refund", {"order_id": "7"}]], "texts": ["Order 7 is refunded."]},
        ["Refund order 7."],
        2,
        approvals=1,
        outputs=1,
    ),
    "client tools": Expectation(
        {"calls": [["get_weather", {"city": "Oslo"}]], "texts": ["It is sunny, 21 degrees, in Oslo."]},
        ["What is the weather in Oslo?"],
        2,
        outputs=1,
    ),
    "structured output": Expectation({"data": {"order": "7", "amount": 24.5}}, ["Give me the order as data."], 1),
}


def workflow_name(column: str) -> str:
    """Return the model name that a client uses for a column."""
    return column.replace(" ", "-")


def build_workflows() -> list[Workflow]:
    """Build a desk for each column."""
    return [_build_desk(workflow_name(column)) for column in EXPECTATIONS]


def _build_desk(name: str) -> Workflow:
    @tool(needs_approval=True)
    def refund(order_id: str) -> str:
        """Pay an order back."""
        return f"Order {order_id} is refunded."

    return HandoffBuilder(name, [Agent("desk", model=SlowModel(_reply), tools=[refund])]).build()


def _reply(request: ModelRequest) -> Any:
    last = request.messages[-1]
    if last.role == "tool":
        return last.text if "refunded" in last.text else f"It is {last.text}."
    if request.turn_context.output:
        return ORDER_JSON
    if "weather" in last.text:
        return call("get_weather", city="Oslo")
    if "Refund" in last.text:
        return call("refund", order_id="7")
    texts = [message.text for message in request.messages if message.role == "user"]
    return f"You said: {' | '.join(texts)}" if "What did I say?" in last.text else GREETING
