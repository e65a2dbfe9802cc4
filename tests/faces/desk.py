"""The program that most tests serve; tests copy it. `fake_model.yaml` has the replies of its models."""

from typing import Literal

from legato import Agent, HandoffBuilder, Limits, Secret, history, tool

ORDERS = {"7": ("a teapot", 24.50), "8": ("six cups", 36.00)}


@tool
def look_up_order(order_id: str) -> str:
    """Say what an order was, what it cost and where it is."""
    what, price = ORDERS[order_id]
    return f"order {order_id} is {what} for {price:.2f}, delivered on Monday"


@tool(needs_approval=True)
def refund(order_id: str, amount: float, why: Literal["broken", "late", "unwanted"], pin: Secret[str], tell_customer: bool = True) -> str:
    """Pay an order back."""
    return f"{amount:.2f} for order {order_id} ({why}) is on its way, {'with' if tell_customer else 'without'} a letter"


triage = Agent(
    name="triage",
    description="Finds out what the customer wants.",
    instructions="You are triage, the first at a support desk for tea things. Hand over to whoever can help.",
    model="openai:gpt-5.1",
)
orders = Agent(
    name="orders",
    description="Knows what was ordered and where it is.",
    instructions="You answer questions about orders. Look them up first.",
    model="openai:gpt-5.1",
    tools=[look_up_order],
)
refunds = Agent(
    name="refunds",
    description="Pays money back.",
    instructions="You pay money back where it is due.",
    model="openai:gpt-5.1",
    tools=[refund],
    history=history.own_tools(),
)
desk = (
    HandoffBuilder(name="desk", participants=[triage, orders, refunds])
    .add_handoff(triage, [orders, refunds])
    .add_handoff(orders, [refunds])
    .add_handoff(refunds, [orders])
    .with_next_turn("start")
    .with_limits(Limits(turns=30, same_edge=3))
    .build()
)
