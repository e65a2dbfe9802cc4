"""A support desk with approvals and secret arguments, for tests of what people see."""

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


def build_desk(*script: Any, **by_agent: list[Any]) -> Workflow:
    """Build a desk with two agents that hand over to one another; a model replies from one script, or from one per agent."""
    model = ScriptedModel(list(script)) if script else ScriptedModel(by_agent=by_agent)
    triage = Agent("triage", "Route the customer.", model, [look_up, ask_stock])
    refunds = Agent("refunds", "Handle refunds.", model, [refund])
    return HandoffBuilder("desk", [triage, refunds]).with_limits(Limits(handoffs=4)).build()


def build_refund_desk() -> Workflow:
    """Build a desk that runs until a refund waits for approval."""
    asks = call("refund", order_id="7", amount=24.5, pin=PIN)
    return build_desk(triage=[call("look_up", order_id="7"), handoff("refunds", "money back")], refunds=[asks, "It is on its way.", "Yes."])


async def run_edited_refund() -> Session:
    """Run a session in which a person edits the arguments of a refund, which then runs."""
    session = build_refund_desk().session("s", store=MemoryStore())
    await session.run("I want my money back")
    await session.edit(session.pending[0], {"order_id": "7", "amount": 20.0, "pin": PIN})
    await session.resume()
    return session
