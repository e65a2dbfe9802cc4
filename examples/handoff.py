"""A handoff.

Triage hands the customer over, and each agent sees the whole conversation. The next message goes to the agent
who spoke last; if it is a matter for another agent, that agent hands over in turn.

Run it: python examples/handoff.py
With OPENAI_API_KEY set, OpenAI answers. Without, the emulator stands in, and it prints:

    said: user: Where is the parcel of order A-17?
    handoff_sent: triage -> shipping (Where is the parcel of order A-17?)
    message: shipping: From track parcel (A-17): it is in Lyon, and comes on Thursday. Is there anything else I can help you with?
    said: user: When is the shop in Lyon open?
    handoff_sent: shipping -> shops (When is the shop in Lyon open?)
    message: shops: From opening hours (Lyon): open from 9 to 18, on Sundays closed. Let me know if you need anything else.
    said: user: Thank you!
    message: shops: You are welcome! Have a good day.
"""

import asyncio

from legato import Agent, HandoffBuilder, tool
from legato.emulator import stand_in

MODEL = "openai:gpt-5.1"


@tool
def track_parcel(order_id: str) -> str:
    """Find out where the parcel of an order is."""
    return "it is in Lyon, and comes on Thursday"


@tool
def opening_hours(city: str) -> str:
    """Say when the shop in a city is open."""
    return "open from 9 to 18, on Sundays closed"


triage = Agent("triage", instructions="Find out what the customer needs, and hand over.", model=MODEL)
shipping = Agent("shipping", instructions="You know where parcels are.", model=MODEL, tools=[track_parcel])
shops = Agent("shops", instructions="You know our shops.", model=MODEL, tools=[opening_hours])

desk = (
    HandoffBuilder(name="desk", participants=[triage, shipping, shops])
    .with_start_agent(triage)
    .add_handoff(triage, [shipping, shops])
    .add_handoff(shipping, [triage, shops])
    .add_handoff(shops, [triage, shipping])
    .build()
)


async def main() -> None:
    session = desk.session("customer-42")
    for text in ("Where is the parcel of order A-17?", "When is the shop in Lyon open?", "Thank you!"):
        async for event in session.run(text):
            if event.type in ("said", "handoff_sent", "message", "model_failed"):
                print(event)


if __name__ == "__main__":
    with stand_in():
        asyncio.run(main())
