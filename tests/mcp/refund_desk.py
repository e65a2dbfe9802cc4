"""A small workflow, for `legato mcp tests.mcp.refund_desk:desk`."""

from pathlib import Path

from legato import Agent, HandoffBuilder, tool
from legato.testing import ScriptedModel, call, handoff
from legato.tools import Secret


@tool(needs_approval=True)
async def refund(order: str, cents: int, pin: Secret[str]) -> str:
    """Refund an order."""
    with Path("refunds").open("a") as done:
        done.write(f"{order} {cents}\n")
    return f"refunded {cents}"


@tool
def check_shelf() -> str:
    """Look at the shelf."""
    print("this is no protocol")  # output of user code must not reach the protocol's stream
    return "an empty shelf"


def reply(seen):
    heard = seen.messages[-1]
    if heard.author_name == "check_shelf":
        return f"I saw {heard.text}."
    if heard.author_name == "refund":
        return f"Done: {heard.text}"
    if seen.agent == "triage":
        return handoff("refunds") if "broken" in heard.text else call("check_shelf")
    return call("refund", order="7", cents=250, pin="canary-pin-1234")


model = ScriptedModel(reply)
desk = (
    HandoffBuilder(
        name="the desk",
        participants=[Agent("triage", model=model, tools=[check_shelf]), Agent("refunds", model=model, tools=[refund])],
        description="A support desk.",
    )
    .add_handoff("triage", ["refunds"])
    .add_handoff("refunds", ["triage"])
    .build()
)
nothing = "no workflow"
