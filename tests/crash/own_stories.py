"""Stories for the sweep alone: each has the effects that are worst to lose."""

from __future__ import annotations

from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import Said
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff
from legato.testing.people import Person
from legato.testing.story import Story, Told, World


def payments(store: Store, world: World) -> Workflow:
    @tool(needs_approval=True)
    async def pay(cents: int, ctx: ToolContext[Any]) -> str:
        world.did(ctx, f"paid {cents}")
        return f"paid {cents}"

    @tool(idempotent=True)
    async def receipt(cents: int, ctx: ToolContext[Any]) -> str:
        world.did(ctx, f"receipt {cents}")
        return "sent"

    @tool
    async def audit(ctx: ToolContext[Any]) -> str:
        world.did(ctx, "audited")
        return "audited"

    model = ScriptedModel(
        by_agent={
            "clerk": [[call("pay", cents=5), call("audit"), call("pay", cents=7), handoff("auditor")], "Anything else?"],
            "auditor": [[call("receipt", cents=12), call("audit"), handoff("clerk", "done")]],
        }
    )
    clerk, auditor = Agent("clerk", model=model, tools=[pay, audit]), Agent("auditor", model=model, tools=[receipt, audit])
    return HandoffBuilder("payments", [clerk, auditor]).build()


def paid_once(told: Told) -> None:
    assert [told.world.times(f"paid {cents}") for cents in (5, 7)] == [1, 1]
    assert told.world.times("audited") == 2
    assert told.world.times("receipt 12") >= 1
    assert told.session.messages[-1].text == "Anything else?"
    assert [fact.content for fact in told.session.facts if isinstance(fact, Said)] == ["Pay both"]


OWN = {"two payments, an audit and a handoff in one reply: each payment is made once": Story(payments, Person(["Pay both"]), paid_once)}
