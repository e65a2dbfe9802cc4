"""Typed outputs: a reply that is data.

The final reply must fit a pydantic model. The provider gets its schema; the model's own validators run when the reply
arrives. A reply that does not fit is not shown: the model gets the error, and replies again.

Run it: python examples/typed_output.py
With OPENAI_API_KEY set, OpenAI answers. Without, the emulator stands in with the script below, and it prints:

    judged: output: it does not fit the expected type. order_id: Value error, there is no order A-71, only A-17 and B-22
    message: clerk: {"order_id": "A-17", "topic": "refund", "urgent": true}
    Ticket(order_id='A-17', topic='refund', urgent=True)
"""

import asyncio
from typing import Literal

from pydantic import BaseModel, field_validator

from legato import Agent
from legato.emulator import stand_in
from legato.emulator.fake_models import ScriptRule

ORDERS = ["A-17", "B-22"]


class Ticket(BaseModel):
    order_id: str
    topic: Literal["delivery", "refund", "other"]
    urgent: bool

    @field_validator("order_id")
    @classmethod
    def exists(cls, order_id: str) -> str:
        if order_id not in ORDERS:
            raise ValueError(f"there is no order {order_id}, only {' and '.join(ORDERS)}")
        return order_id


clerk = Agent("clerk", instructions="Make a ticket of what the customer says.", model="openai:gpt-5.1", output_type=Ticket)

# The emulated model's replies: it misreads the order, and then corrects itself. A real model needs no script.
SCRIPT = [
    ScriptRule(said="not accepted", say='{"order_id": "A-17", "topic": "refund", "urgent": true}'),
    ScriptRule(say='{"order_id": "A-71", "topic": "refund", "urgent": true}'),
]


async def main() -> None:
    run = clerk.run("My order, A17 I think, arrived broken. I want my money back now!")
    async for event in run:
        if event.type in ("judged", "message", "model_failed"):
            print(event)
    ticket: Ticket = (await run).output
    print(repr(ticket))


if __name__ == "__main__":
    with stand_in(SCRIPT):
        asyncio.run(main())
