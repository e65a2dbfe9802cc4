"""A long realistic conversation, for measuring the cost of its size.

It has two agents and one tool. The customer says two sentences, the agent some more. The agent uses the tool for every fourth question,
and hands over at every tenth. `reply_to_question` is the fake model: its reply follows from the request alone.

`python -m tests.providers.long_conversation` serves it in a process of its own, so that its CPU time does not count for the client.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from legato import Agent, HandoffBuilder, Limits, Workflow, tool
from legato.emulator import serve
from legato.emulator.fake_models.base import ModelPrompt, ReplyCall, ReplyText, ReplyThought
from legato.models.model import Model

QUESTIONS_PER_LOOKUP = 4
"""The agent uses the tool once per this number of questions."""
QUESTIONS_PER_HANDOFF = 10
"""The agent hands over once per this number of questions."""

ORDERS = "the porcelain teapot", "the walnut bookshelf", "two pairs of reading glasses", "the garden hose", "the blue winter coat"
PLACES = "Leipzig", "the depot at the harbour", "your neighbour at number 14", "the parcel shop", "Aarhus"


def make_question(number: int) -> str:
    """Return the customer's message of this number."""
    what, where = ORDERS[number % len(ORDERS)], PLACES[(number * 3) % len(PLACES)]
    return (
        f"Thanks. My question number {number} is about {what} from order A-{number:04}. The tracking page has named {where} since "
        "Monday and nothing has moved; could you tell me where it is and when I can expect it?"
    )


def make_answer(number: int) -> str:
    """Return the agent's answer of this number."""
    what, where = ORDERS[number % len(ORDERS)], PLACES[(number * 3) % len(PLACES)]
    return (
        f"I have looked at order A-{number:04} for you. {what.capitalize()} reached {where} on Monday evening and was held back there, "
        "because the label could not be read by the sorting machine. A colleague has printed a new one this morning, so it goes out with "
        "the van that leaves at noon. You should have it by Thursday, and you will get a message with a link one hour before it arrives. "
        "If it is not there by Friday, write to me again and I will send a second one at no cost."
    )


@tool
def look_up_order(order: str, with_history: bool = False) -> str:
    """Look an order up: what it holds, where it is, and all that has happened to it so far."""
    found = {"state": "held", "at": "sorting centre", "since": "Monday 18:42", "label": "unreadable", "weight": 2.4}
    return json.dumps({"order": order, **found})


def make_desk(model: Model, other: Model | None = None) -> Workflow:
    """Build the workflow of the two agents, without a limit of turns."""
    front = Agent("front", "You are the front desk. Answer briefly, and hand over what you cannot know.", model, [look_up_order])
    depot = Agent("depot", "You are the depot. You know where every parcel is.", other or model, [look_up_order])
    builder = HandoffBuilder("desk", [front, depot]).add_handoff(front, [depot]).add_handoff(depot, [front])
    return builder.with_limits(Limits(turns=1_000_000)).build()


def reply_to_question(prompt: ModelPrompt) -> list[Any]:
    """Return the fake model's reply."""
    number = sum(heard.text.startswith("Thanks.") for heard in prompt.messages if heard.role == "user")
    thoughts = [ReplyThought(f"The customer asks about order {number}. I should see what is known.")] if prompt.has_reasoning else []
    if prompt.messages[-1].role == "tool":
        return [*thoughts, ReplyText(make_answer(number))]
    if number % QUESTIONS_PER_HANDOFF == 0:
        to = next(tool.name for tool in prompt.tools if tool.name.startswith("handoff_to_"))
        return [*thoughts, ReplyText("One moment, my colleague knows more about this."), ReplyCall(to, '{"reason": "it is at the depot"}')]
    if number % QUESTIONS_PER_LOOKUP == 0:
        return [*thoughts, ReplyText("Let me look that up."), ReplyCall("look_up_order", json.dumps({"order": f"A-{number:04}"}))]
    return [*thoughts, ReplyText(make_answer(number))]


@contextmanager
def serve_in_process() -> Iterator[str]:
    """Run an emulator with this fake model in a process of its own, and provide its address."""
    with subprocess.Popen([sys.executable, "-m", __spec__.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.stdin.close()
            child.wait(20)


if __name__ == "__main__":
    with serve(fake_model=reply_to_question, max_exchanges=1) as emulator:
        print(emulator.url, flush=True)
        sys.stdin.read()
