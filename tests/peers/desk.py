"""The workflow that clients talk to, and what each must see and leave in the ledger.

Each column of the table is a workflow of its own, so that it is known whose session one is.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.core.view import ModelRequest
from legato.models.model import Emit
from legato.testing import ScriptedModel, call

PAUSE_S = 0.1
HELLO, SAID = "Hello, this is the desk.", "You said: Hello | What did I say?"
ORDER = '{"order": "7", "amount": 24.5}'


class SlowSpeaker(ScriptedModel):
    """Says a word at a time, with pauses, so that what is streamed comes in several pieces."""

    async def _emit_text(self, text: str, emit: Emit) -> None:
        for number, word in enumerate(text.split(" ")):
            emit(f" {word}" if number else word)
            await asyncio.sleep(PAUSE_S)


class Expectation(NamedTuple):
    """What a client sees in a column, and the facts that are in the ledger of its one session."""

    saw: dict[str, Any]
    said: list[str]
    replies: int
    approved: int = 0
    outputs: int = 0


TURNS = Expectation({"texts": [HELLO, SAID]}, ["Hello", "What did I say?"], 2)
COLUMNS: dict[str, Expectation] = {
    "plain": Expectation({"texts": [HELLO]}, ["Hello"], 1),
    "streamed": Expectation({"texts": [HELLO]}, ["Hello"], 1),
    "several turns": TURNS,
    "previous id": TURNS,
    "conversation": TURNS,
    "approval": Expectation(
        {"asked": [["refund", {"order_id": "7"}]], "texts": ["Order 7 is refunded."]}, ["Refund order 7."], 2, approved=1, outputs=1
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
    """The model that a client names for a column."""
    return column.replace(" ", "-")


def workflows() -> list[Workflow]:
    """A desk for each column."""
    return [_desk(workflow_name(column)) for column in COLUMNS]


def _desk(name: str) -> Workflow:
    @tool(needs_approval=True)
    def refund(order_id: str) -> str:
        """Pay an order back."""
        return f"Order {order_id} is refunded."

    return HandoffBuilder(name, [Agent("desk", model=SlowSpeaker(_reply), tools=[refund])]).build()


def _reply(seen: ModelRequest) -> Any:
    last = seen.messages[-1]
    if last.role == "tool":
        return last.text if "refunded" in last.text else f"It is {last.text}."
    if seen.turn_context.output:
        return ORDER
    if "weather" in last.text:
        return call("get_weather", city="Oslo")
    if "Refund" in last.text:
        return call("refund", order_id="7")
    said = [message.text for message in seen.messages if message.role == "user"]
    return f"You said: {' | '.join(said)}" if "What did I say?" in last.text else HELLO
