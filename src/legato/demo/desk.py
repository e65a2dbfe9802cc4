"""The support desk: two agents, three tools. May know: the public API, as any user's program. Decides: what the desk can do.

The model is the provider's, through the provider's own SDK. The bank is a text file that knows nothing of Legato.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from legato import Agent, HandoffBuilder, Middleware, Workflow, tool
from legato.models import OpenAIResponses
from legato.stores import SQLiteStore

SESSION = "customer-42"
MODEL = "gpt-5.1"
BANK_SECONDS = 1.5
"""How long the bank takes to confirm what it has booked: time enough for a process to die in."""

ORDERS = {"7": ("a teapot", 2400), "8": ("six cups", 3600), "9": ("a tea tray", 1850)}

TRIAGE = """You are the first at a support desk for tea things. Answer questions about orders; look them up first.
If money is wanted back, hand over to refunds at once. Be brief and friendly."""

REFUNDS = """You give money back where it is due. Look the order up. If it arrived broken, book a pickup and call refund for its price,
both in one reply and without asking first: a supervisor is asked before anything is paid. Then tell the customer how it went.
Hand everything that is not about paying back to triage. Be brief and friendly."""


class Places:
    """The files of one demo, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "desk.sqlite"
        self.bank = folder / "bank.txt"
        self.traffic = folder / "http.jsonl"
        self.processes = folder / "processes.txt"
        self.provider = folder / "provider.sqlite"
        self.port = folder / "provider.port"

    def booked(self) -> list[str]:
        """The lines of the bank's own book."""
        return self.bank.read_text().splitlines() if self.bank.exists() else []

    def count(self, what: str) -> int:
        """How many of the processes that drove the conversation were "started", or "killed"."""
        return sum(line.startswith(what) for line in self.processes.read_text().splitlines()) if self.processes.exists() else 0


def money(cents: int) -> str:
    return f"{cents / 100:.2f}"


def build(places: Places, model: str = MODEL, client: Any = None, middleware: Sequence[Middleware] = ()) -> Workflow:
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
        write_down(places.bank, f"{reference}  order {order_id}  {money(cents)}")  # from here on the money is gone
        await asyncio.sleep(BANK_SECONDS)  # and until here nobody knows
        return f"refunded {money(cents)}, reference {reference}"

    # The provider keeps each reply, and a request sends what is new: so it shows at once if a death or a handoff confuses the two.
    asked = OpenAIResponses(model, memory="chained", client=client)
    triage = Agent(
        name="triage", instructions=TRIAGE, description="Answers questions.", model=asked, tools=[look_up_order], middleware=middleware
    )
    refunds = Agent(
        name="refunds",
        instructions=REFUNDS,
        description="Pays money back.",
        model=asked,
        tools=[look_up_order, book_pickup, refund],
        middleware=middleware,
    )
    return (
        HandoffBuilder(name="tea desk", participants=[triage, refunds])
        .with_start_agent(triage)
        .add_handoff(triage, [refunds])
        .add_handoff(refunds, [triage])
        .with_checkpointing(SQLiteStore(places.ledger))
        .build()
    )


def write_down(path: Path, line: str) -> None:
    """Add a line to a file, on the disk."""
    with path.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
