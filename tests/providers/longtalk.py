"""A long conversation, as people have them: for what size costs on a wire.

Two agents at a desk, one tool. The customer says two sentences, the agent some more; every fourth time it looks something up first, and
every tenth time it hands over. `speak` is the emulator's mind: it says what is due from what it was told, and nothing else.

`python -m tests.providers.longtalk` serves it in a process of its own, so that the CPU time of whoever asks is theirs alone.
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
from legato.emulator.minds.base import Prompt, Thought, Use, Words
from legato.models.base import Model

STEP = 4
"""Every so manieth question, something is looked up first."""
PASS = 10
"""Every so manieth, the other agent takes over."""

ORDERS = "the porcelain teapot", "the walnut bookshelf", "two pairs of reading glasses", "the garden hose", "the blue winter coat"
PLACES = "Leipzig", "the depot at the harbour", "your neighbour at number 14", "the parcel shop", "Aarhus"


def question(number: int) -> str:
    """What the customer says."""
    what, where = ORDERS[number % len(ORDERS)], PLACES[(number * 3) % len(PLACES)]
    return (
        f"Thanks. My question number {number} is about {what} from order A-{number:04}. The tracking page has named {where} since "
        "Monday and nothing has moved; could you tell me where it is and when I can expect it?"
    )


def answer(number: int) -> str:
    """What the agent says."""
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


def desk(model: Model, other: Model | None = None) -> Workflow:
    """The two agents. A run may be as long as it likes."""
    front = Agent("front", "You are the front desk. Answer briefly, and hand over what you cannot know.", model, [look_up_order])
    depot = Agent("depot", "You are the depot. You know where every parcel is.", other or model, [look_up_order])
    builder = HandoffBuilder("desk", [front, depot]).add_handoff(front, [depot]).add_handoff(depot, [front])
    return builder.with_limits(Limits(turns=1_000_000)).build()


def speak(prompt: Prompt) -> list[Any]:
    """What the model says."""
    number = sum(heard.text.startswith("Thanks.") for heard in prompt.heard if heard.who == "user")
    thoughts = [Thought(f"The customer asks about order {number}. I should see what is known.")] if prompt.thinks else []
    if prompt.heard[-1].who == "tool":
        return [*thoughts, Words(answer(number))]
    if number % PASS == 0:
        to = next(tool.name for tool in prompt.tools if tool.name.startswith("handoff_to_"))
        return [*thoughts, Words("One moment, my colleague knows more about this."), Use(to, '{"reason": "it is at the depot"}')]
    if number % STEP == 0:
        return [*thoughts, Words("Let me look that up."), Use("look_up_order", json.dumps({"order": f"A-{number:04}"}))]
    return [*thoughts, Words(answer(number))]


@contextmanager
def served() -> Iterator[str]:
    """The address of an emulator with this mind, in a process of its own."""
    with subprocess.Popen([sys.executable, "-m", __spec__.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.stdin.close()
            child.wait(20)


if __name__ == "__main__":
    with serve(mind=speak, keep=1) as emulator:
        print(emulator.url, flush=True)
        sys.stdin.read()
