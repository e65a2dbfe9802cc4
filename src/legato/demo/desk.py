"""The support desk: two agents, three tools, one model. May know: the public API, as any user's program. Decides: what the desk says.

The model is a function of what it sees and keeps no memory, as a real one: so it is right after a restart, and it can only know what
Legato shows it. The bank is a text file that knows nothing of Legato.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from legato import Agent, HandoffBuilder, Message, Middleware, Workflow, tool
from legato.core.view import Request
from legato.models import Reply
from legato.stores import SQLiteStore
from legato.testing import ScriptedModel, call, handoff

SESSION = "customer-42"
BANK_SECONDS = 1.5
"""How long the bank takes to confirm what it has booked: time enough for a process to die in."""

ORDERS = {"7": ("a teapot", 2400), "8": ("six cups", 3600), "9": ("a tea tray", 1850)}


class Places:
    """The files of one demo, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "desk.sqlite"
        self.bank = folder / "bank.txt"
        self.requests = folder / "requests.jsonl"

    def booked(self) -> list[str]:
        """The lines of the bank's own book."""
        return self.bank.read_text().splitlines() if self.bank.exists() else []


def money(cents: int) -> str:
    return f"{cents / 100:.2f}"


def build(places: Places) -> Workflow:
    """The workflow, on the folder's SQLite file."""

    @tool
    def look_up_order(order_id: str) -> str:
        """Say what an order was and what it cost."""
        if order_id not in ORDERS:
            return f"there is no order {order_id}"
        what, cents = ORDERS[order_id]
        return f"order {order_id}: {what}, {money(cents)}, delivered on Monday"

    @tool
    def book_pickup(order_id: str) -> str:
        """Have a courier fetch what arrived broken."""
        return f"a courier fetches order {order_id} on Tuesday at nine"

    @tool(needs_approval=True)
    async def refund(order_id: str, cents: int) -> str:
        """Pay an order back."""
        reference = f"R-{len(places.booked()) + 1:03}"
        _write(places.bank, f"{reference}  order {order_id}  {money(cents)}")  # from here on the money is gone
        await asyncio.sleep(BANK_SECONDS)  # and until here nobody knows
        return f"refunded {money(cents)}, reference {reference}"

    model = ScriptedModel(reply_to, name="tea-desk", delay=0.05)
    notes = RequestNotes(places)
    triage = Agent(
        name="triage",
        instructions="Greet the customer. Answer questions about orders. Hand over to refunds if money is wanted back.",
        description="Answers questions.",
        model=model,
        tools=[look_up_order],
        middleware=[notes],
    )
    refunds = Agent(
        name="refunds",
        instructions="Give money back where it is due. Hand everything else to triage.",
        description="Pays money back.",
        model=model,
        tools=[look_up_order, book_pickup, refund],
        middleware=[notes],
    )
    return (
        HandoffBuilder(name="tea desk", participants=[triage, refunds])
        .with_start_agent(triage)
        .add_handoff(triage, [refunds])
        .add_handoff(refunds, [triage])
        .with_checkpointing(SQLiteStore(places.ledger))
        .build()
    )


class RequestNotes(Middleware):
    """Writes down every request at the moment it goes to the model, outside the ledger, to compare the two in the end."""

    def __init__(self, places: Places) -> None:
        self._places = places

    async def around_model(self, request: Request, proceed: Callable[[Request], Awaitable[Reply]]) -> Reply:
        _write(self._places.requests, json.dumps({"turn": request.turn, "agent": request.agent, "messages": noted(request)}))
        return await proceed(request)


def noted(request: Request) -> list[list[str]]:
    """A request's messages as plain values: role, author, words, calls."""
    return [
        [message.role, message.author_name, message.text, message.call or " ".join(each.id for each in message.calls)]
        for message in request.messages
    ]


def _write(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


# -- the model ---------------------------------------------------------------------------------------------------------


def reply_to(seen: Request) -> Any:
    """What the desk's model says to what it sees."""
    return {"triage": _triage, "refunds": _refunds}[seen.agent](seen.messages)


def _triage(messages: list[Message]) -> Any:
    asked, since = _newest(messages)
    if found := _output(since, "look_up_order"):
        return f"I have it here: {found}."
    if _wants_money(asked):
        about = f"money back for order {_order(messages) or '?'}"
        return ["I am sorry to hear that. My colleague will take care of it.", handoff("refunds", about)]
    if "reference" in asked.lower() or "again" in asked.lower():
        return _from_memory(messages)
    if number := _order(messages):
        if "order" in asked.lower():
            return call("look_up_order", order_id=number)
        return _from_memory(messages)
    return "Hello! I can look up an order for you, or find somebody who pays it back. Which order is it?"


def _refunds(messages: list[Message]) -> Any:
    asked, since = _newest(messages)
    number = _order(messages)
    if not _wants_money(asked):
        return handoff("triage", "a question")
    if not number:
        return "Which order is it? Its number is on the parcel."
    if (paid := _output(since, "refund")) is not None:
        return _about_payment(number, paid, _output(since, "book_pickup") or "")
    if (found := _output(since, "look_up_order")) is None:
        return call("look_up_order", order_id=number)
    if number not in ORDERS:
        return f"I cannot find it: {found}. Could you check the number?"
    what, cents = ORDERS[number]
    return [
        f"That was {what} for {money(cents)}. I will have it fetched, and ask for your {money(cents)}.",
        call("book_pickup", order_id=number),
        call("refund", order_id=number, cents=cents),
    ]


def _about_payment(number: str, paid: str, pickup: str) -> str:
    if "refunded" in paid:
        amount = re.search(r"refunded ([\d.]+)", paid)
        reference = _reference(paid)
        sent = f"{amount[1] if amount else 'Your money'} for order {number} is on its way{f', reference {reference}' if reference else ''}"
        return f"Done: {sent}. And {pickup}." if pickup else f"Done: {sent}."
    told = paid.rpartition("a person declined this call.")[2].rpartition("a person declared it failed.")[2].strip()
    return f"I could not pay order {number} back{f': {told}' if told else ''}. I am sorry."


def _from_memory(messages: list[Message]) -> str:
    """What triage knows of what happened while others were in control: it saw all of it."""
    paid = next((message.text for message in reversed(messages) if message.author_name == "refund" and "refunded" in message.text), "")
    pickup = next((message.text for message in reversed(messages) if message.author_name == "book_pickup"), "")
    if not paid:
        return "You are welcome. Is there anything else?"
    reference = _reference(paid)
    told = f"Your reference is {reference}" if reference else "Your money is on its way"
    return f"You are welcome. {told}, and {pickup}." if pickup else f"You are welcome. {told}."


def _newest(messages: list[Message]) -> tuple[str, list[Message]]:
    """The user's newest message, and what happened since."""
    last = max(index for index, message in enumerate(messages) if message.role == "user")
    return messages[last].text, messages[last + 1 :]


def _output(messages: list[Message], tool_name: str) -> str | None:
    return next((message.text for message in reversed(messages) if message.role == "tool" and message.author_name == tool_name), None)


def _order(messages: list[Message]) -> str:
    numbers = [match for message in messages if message.role == "user" for match in re.findall(r"\d+", message.text)]
    return numbers[-1] if numbers else ""


def _wants_money(asked: str) -> bool:
    return bool(re.search(r"broke|refund|money|crack|damage|return|pay", asked.lower()))


def _reference(text: str) -> str:
    found = re.search(r"R-\d+", text)
    return found[0] if found else ""
