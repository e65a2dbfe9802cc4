"""A small desk, to be offered by `legato mcp tests.mcp.shop:desk`."""

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
def broken() -> str:
    """Look at the shelf."""
    print("this is no protocol")  # what user code prints must not be taken for words of the protocol
    return "an empty shelf"


def says(seen):
    heard = seen.messages[-1]
    if heard.author_name == "broken":
        return f"I saw {heard.text}."
    if heard.author_name == "refund":
        return f"Done: {heard.text}"
    if seen.agent == "triage":
        return handoff("refunds") if "broken" in heard.text else call("broken")
    return call("refund", order="7", cents=250, pin="canary-pin-1234")


model = ScriptedModel(says)
desk = (
    HandoffBuilder(
        name="the desk",
        participants=[Agent("triage", model=model, tools=[broken]), Agent("refunds", model=model, tools=[refund])],
        description="A support desk.",
    )
    .add_handoff("triage", ["refunds"])
    .add_handoff("refunds", ["triage"])
    .build()
)
nothing = "no workflow"
