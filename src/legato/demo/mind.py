"""What the emulated model says at the desk. May know: what a model is sent. Decides: the demo's lines.

It is a function of the prompt and keeps no memory, as a real model: so it is right after a restart, and it can only know what it is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from legato.demo.desk import ORDERS, money
from legato.emulator.minds import Heard, Prompt, Thought, Use


def reply_to(prompt: Prompt) -> Any:
    """What the desk's model says to what it was sent."""
    said = _refunds(prompt.heard) if any(tool.name == "refund" for tool in prompt.tools) else _triage(prompt.heard)
    items = said if isinstance(said, list) else [said]
    return [Thought("What does the customer need?"), *items] if prompt.thinks else items


def _call(tool: str, **arguments: object) -> Use:
    return Use(tool, json.dumps(arguments))


def _triage(heard: Sequence[Heard]) -> Any:
    asked, since = _newest(heard)
    if found := _output(since, "look_up_order"):
        return f"I have it here: {found}."
    if _wants_money(asked):
        about = f"money back for order {_order(heard) or '?'}"
        return ["I am sorry to hear that. My colleague will take care of it.", _call("handoff_to_refunds", reason=about)]
    if "reference" in asked.lower() or "again" in asked.lower():
        return _from_memory(heard)
    if number := _order(heard):
        if "order" in asked.lower():
            return _call("look_up_order", order_id=number)
        return _from_memory(heard)
    return "Hello! I can look up an order for you, or find somebody who pays it back. Which order is it?"


def _refunds(heard: Sequence[Heard]) -> Any:
    asked, since = _newest(heard)
    number = _order(heard)
    if not _wants_money(asked):
        return _call("handoff_to_triage", reason="a question")
    if not number:
        return "Which order is it? Its number is on the parcel."
    if (paid := _output(since, "refund")) is not None:
        return _about_payment(number, paid, _output(since, "book_pickup") or "")
    if (found := _output(since, "look_up_order")) is None:
        return _call("look_up_order", order_id=number)
    if number not in ORDERS:
        return f"I cannot find it: {found}. Could you check the number?"
    what, cents = ORDERS[number]
    return [
        f"That was {what} for {money(cents)}. I will have it fetched, and ask for your {money(cents)}.",
        _call("book_pickup", order_id=number),
        _call("refund", order_id=number, cents=cents),
    ]


def _about_payment(number: str, paid: str, pickup: str) -> str:
    if "refunded" in paid:
        amount = re.search(r"refunded ([\d.]+)", paid)
        reference = _reference(paid)
        sent = f"{amount[1] if amount else 'Your money'} for order {number} is on its way{f', reference {reference}' if reference else ''}"
        return f"Done: {sent}. And {pickup}." if pickup else f"Done: {sent}."
    told = paid.rpartition("a person declined this call.")[2].rpartition("a person declared it failed.")[2].strip()
    return f"I could not pay order {number} back{f': {told}' if told else ''}. I am sorry."


def _from_memory(heard: Sequence[Heard]) -> str:
    """What triage knows of what happened while others were in control: it saw all of it."""
    paid = next((each.text for each in reversed(heard) if each.tool == "refund" and "refunded" in each.text), "")
    pickup = _output(heard, "book_pickup")
    if not paid:
        return "You are welcome. Is there anything else?"
    reference = _reference(paid)
    told = f"Your reference is {reference}" if reference else "Your money is on its way"
    return f"You are welcome. {told}, and {pickup}." if pickup else f"You are welcome. {told}."


def _newest(heard: Sequence[Heard]) -> tuple[str, Sequence[Heard]]:
    """The user's newest message, and what happened since."""
    last = max(index for index, each in enumerate(heard) if each.who == "user")
    return heard[last].text, heard[last + 1 :]


def _output(heard: Sequence[Heard], tool: str) -> str | None:
    return next((each.text for each in reversed(heard) if each.who == "tool" and each.tool == tool), None)


def _order(heard: Sequence[Heard]) -> str:
    numbers = [match for each in heard if each.who == "user" for match in re.findall(r"\d+", each.text)]
    return numbers[-1] if numbers else ""


def _wants_money(asked: str) -> bool:
    return bool(re.search(r"broke|refund|money|crack|damage|return|pay", asked.lower()))


def _reference(text: str) -> str:
    found = re.search(r"R-\d+", text)
    return found[0] if found else ""
