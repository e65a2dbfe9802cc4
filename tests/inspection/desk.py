"""A desk whose people are asked things, and an account of what was sent."""

from __future__ import annotations

from typing import Any

from legato import Agent, HandoffBuilder, Limits, Secret, Workflow, tool
from legato.runtime.session import Session
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call, handoff

PIN = "canary-4711"


@tool(needs_approval=True)
def refund(order_id: str, amount: float, pin: Secret[str], note: Secret[str] = "") -> str:
    """Refund an order."""
    return f"{amount:.2f} for order {order_id} is on its way"


@tool(deferred=True)
def ask_stock(item: str) -> int:
    """Ask the people in the store room."""
    raise AssertionError("a deferred tool's body never runs")


@tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"order {order_id} is a teapot"


def desk(*script: Any, **by_agent: list[Any]) -> Workflow:
    """Triage hands over to refunds and back; models say what they are told."""
    model = ScriptedModel(list(script)) if script else ScriptedModel(by_agent=by_agent)
    triage = Agent("triage", "Route the customer.", model, [look_up, ask_stock])
    refunds = Agent("refunds", "Handle refunds.", model, [refund])
    return HandoffBuilder("desk", [triage, refunds]).with_limits(Limits(handoffs=4)).build()


def refunding() -> Workflow:
    """Comes to where a refund is to be approved."""
    asks = call("refund", order_id="7", amount=24.5, pin=PIN)
    return desk(triage=[call("look_up", order_id="7"), handoff("refunds", "money back")], refunds=[asks, "It is on its way.", "Yes."])


async def refunded() -> Session:
    """A session in which a person changed the arguments of a refund, which was then paid."""
    session = refunding().session("s", store=MemoryStore())
    await session.run("I want my money back")
    await session.edit(session.pending[0], {"order_id": "7", "amount": 20.0, "pin": PIN})
    await session.resume()
    return session
