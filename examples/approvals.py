"""Approvals: a person decides before a tool runs.

The model requests three refunds at once. A person approves the first, edits the second, and rejects the third
with a reason that the model gets. With a store, the process may end between request and answer.

Run it: python examples/approvals.py
With OPENAI_API_KEY set, OpenAI answers. Without, the emulator stands in with the script below, and it prints:

    clerk wants to run refund({"order_id": "A-17"}). Approve, edit or reject?
    clerk wants to run refund({"order_id": "B-22"}). Approve, edit or reject?
    clerk wants to run refund({"order_id": "C-31"}). Approve, edit or reject?
    tool_returned: refund({"order_id": "A-17"}) = 100 % of order A-17 is on its way
    tool_returned: refund({"order_id": "B-22", "percent": 50}) = 50 % of order B-22 is on its way
    message: clerk: A-17 is refunded, B-22 to one half. C-31 is not, since it was never paid.
"""

import asyncio

from legato import Agent, HandoffBuilder, Pending, Session, tool
from legato.emulator import stand_in
from legato.emulator.fake_models import ScriptRule


@tool(needs_approval=True)
async def refund(order_id: str, percent: int = 100) -> str:
    """Refund an order, whole or in part."""
    return f"{percent} % of order {order_id} is on its way"


clerk = Agent("clerk", instructions="You refund orders.", model="openai:gpt-5.1", tools=[refund])
desk = HandoffBuilder(name="desk", participants=[clerk]).build()


async def decide(session: Session, request: Pending) -> None:
    """Answer a request as a person would."""
    print(request.prompt)
    match request.arguments.get("order_id"):
        case "A-17":
            await session.approve(request)
        case "B-22":
            await session.edit(request, {"order_id": "B-22", "percent": 50})
        case other:
            await session.reject(request, f"Order {other} was never paid.")


async def main() -> None:
    session = desk.session("customer-42")
    result = await session.run("Please refund my orders A-17, B-22 and C-31.")
    for request in result.pending:
        await decide(session, request)
    async for event in session.resume():
        if event.type in ("tool_returned", "message", "model_failed"):
            print(event)


# The emulated model's reply after the refunds. A real model needs no script.
SCRIPT = [ScriptRule(after_tool="refund", say="A-17 is refunded, B-22 to one half. C-31 is not, since it was never paid.")]

if __name__ == "__main__":
    with stand_in(SCRIPT):
        asyncio.run(main())
