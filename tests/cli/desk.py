"""A user's program for tests of the command, which copy it into a folder of their own."""

import asyncio
from pathlib import Path

from legato import Agent, HandoffBuilder, Limits, Secret, tool
from legato.errors import ModelFailed
from legato.models import Call, ModelReply, OutputText, Usage

PIN = "canary-4711"


@tool(needs_approval=True)
def refund(order_id: str, amount: float, pin: Secret[str]) -> str:
    """Refund an order."""
    return f"{amount:.2f} for order {order_id} is on its way"


@tool(deferred=True)
def ask_stock(item: str) -> int:
    """Ask the people in the store room."""
    raise AssertionError("a deferred tool's body never runs")


@tool
async def pay(cents: int) -> str:
    """Pay, which takes a while."""
    with Path("paid.txt").open("a") as book:
        book.write(f"{cents}\n")
    await asyncio.sleep(float(Path("seconds.txt").read_text()) if Path("seconds.txt").exists() else 0)
    return f"paid {cents}"


class ClerkModel:
    """A model whose reply depends on the request alone, in any process."""

    name = "clerk-1"

    async def reply(self, request, emit):
        last = request.messages[-1]
        said = [message.text for message in request.messages if message.role == "user"][-1]
        item = self._item(request.agent, last, said)
        if isinstance(item, str):
            for piece in item.split(" "):
                emit(f"{piece} ")
                await asyncio.sleep(0.1 if "slow" in said else 0)
            item = OutputText(f"{item} ")
        return ModelReply(items=(item,), usage=Usage(input=100, output=10))

    def _item(self, agent, last, said):
        if last.role == "tool" and not last.author_name.startswith("handoff"):
            return f"It says: {last.text.splitlines()[-1]}"
        if "loop" in said:
            return Call("handoff_to_refunds" if agent == "triage" else "handoff_to_triage")
        if "stock" in said:
            return Call("ask_stock", '{"item": "cups"}')
        if "pay" in said:
            return Call("pay", '{"cents": 500}')
        if "fail" in said and not Path("mended.txt").exists():
            raise ModelFailed("the provider is on holiday")
        if "slow" in said:
            return " ".join(f"word{number}" for number in range(15))
        if "refund" in said:
            if agent == "triage":
                return Call("handoff_to_refunds", '{"reason": "money back"}')
            return Call("refund", f'{{"order_id": "7", "amount": 24.5, "pin": "{PIN}"}}')
        return f"Hello, I am {agent}."


clerk = ClerkModel()
triage = Agent("triage", instructions="Route the customer.", model=clerk, tools=[ask_stock, pay])
refunds = Agent("refunds", instructions="Handle refunds.", model=clerk, tools=[refund])
desk = (
    HandoffBuilder(name="desk", participants=[triage, refunds])
    .add_handoff(triage, [refunds])
    .add_handoff(refunds, [triage], needs_approval=False)
    .with_next_turn("start")
    .with_limits(Limits(handoffs=4))
    .build()
)
