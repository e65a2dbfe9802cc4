"""History policies: what an agent sees of the conversation.

The same conversation runs once with each policy of the second agent; what that agent saw is read back from the
ledger. A policy chooses the parts of a request, and never separates a call from its output.

Run it: python examples/history_policies.py
With OPENAI_API_KEY set, OpenAI answers. Without, the emulator stands in with the script below, and it prints:

    with history.everything(), refunds saw:
        user: Where is the parcel of order A-17?
        shipping: [track_parcel({"order_id": "A-17"})]
        track_parcel: in Lyon since Monday
        shipping: It has been in Lyon since Monday.
        user: Too late. I want a refund.
        shipping: [handoff_to_refunds({})]
        handoff_to_refunds: Control passed to refunds.
    with history.dialogue(), refunds saw:
        user: Where is the parcel of order A-17?
        shipping: It has been in Lyon since Monday.
        user: Too late. I want a refund.
    with history.last(1), refunds saw:
        user: Too late. I want a refund.
        shipping: [handoff_to_refunds({})]
        handoff_to_refunds: Control passed to refunds.
    with history.since_handoff(), refunds saw:
        shipping: [handoff_to_refunds({})]
        handoff_to_refunds: Control passed to refunds.
"""

import asyncio

from legato import Agent, HandoffBuilder, Workflow, history, tool
from legato.emulator import stand_in
from legato.emulator.fake_models import ScriptedCall, ScriptRule

MODEL = "openai:gpt-5.1"
POLICIES = {
    "everything()": history.everything(),
    "dialogue()": history.dialogue(),
    "last(1)": history.last(1),
    "since_handoff()": history.since_handoff(),
}


@tool
def track_parcel(order_id: str) -> str:
    """Find out where the parcel of an order is."""
    return "in Lyon since Monday"


def build_desk(policy: history.History) -> Workflow:
    shipping = Agent("shipping", instructions="You know where parcels are.", model=MODEL, tools=[track_parcel])
    refunds = Agent("refunds", instructions="You refund orders.", model=MODEL, history=policy)
    return HandoffBuilder(name="desk", participants=[shipping, refunds]).build()


# The emulated model's replies. A real model needs no script.
SCRIPT = [
    ScriptRule(after_tool="track_parcel", say="It has been in Lyon since Monday."),
    ScriptRule(said="parcel", say=ScriptedCall("track_parcel", {"order_id": "A-17"})),
    ScriptRule(tool="handoff_to_refunds", say=ScriptedCall("handoff_to_refunds", {})),
    ScriptRule(say="You will have your money back tomorrow."),
]


async def main() -> None:
    for name, policy in POLICIES.items():
        session = build_desk(policy).session()
        for text in ("Where is the parcel of order A-17?", "Too late. I want a refund."):
            result = await session.run(text)
            if result.error:
                raise SystemExit(result.error)
        print(f"with history.{name}, {(await session.seen()).agent} saw:")
        for message in (await session.seen()).messages:
            print("   ", message)


if __name__ == "__main__":
    with stand_in(SCRIPT):
        asyncio.run(main())
