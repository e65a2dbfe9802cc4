"""Stories for the sweep alone: each has the effects that are worst to lose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Workflow, guardrail, tool
from legato.core.facts import MessageReceived
from legato.core.view import Request
from legato.errors import ModelFailed
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
    assert [fact.content for fact in told.session.facts if isinstance(fact, MessageReceived)] == ["Pay both"]


def office(world: World, reply: Callable[[Request], Any]) -> Workflow:
    """A boss whose payer pays, asks to pay more, and then has a model that fails as `reply` says."""

    @tool
    async def pay(cents: int, ctx: ToolContext[Any]) -> str:
        world.did(ctx, f"paid {cents}")
        return "paid"

    @tool(needs_approval=True)
    async def pay_more(cents: int, ctx: ToolContext[Any]) -> str:
        world.did(ctx, f"paid {cents}")
        return "paid"

    payer = Agent("payer", model=ScriptedModel(reply), tools=[pay, pay_more])
    model = ScriptedModel(by_agent={"boss": [call("ask_payer", task="Pay both"), "All paid."]})
    return HandoffBuilder("office", [Agent("boss", model=model, tools=[payer.as_tool()])]).build()


def overloaded(store: Store, world: World) -> Workflow:
    """The child has paid, and then its model fails for good, twice."""

    def reply(seen: Request) -> Any:
        if seen.agent_turn == 2 and world.notes["failures"] < 2:
            world.notes["failures"] += 1
            raise ModelFailed("the model is overloaded")
        return (call("pay", cents=5), call("pay_more", cents=7), "Paid.")[seen.agent_turn]

    return office(world, reply)


def unsteady(store: Store, world: World) -> Workflow:
    """A guardrail of the child raises an error of its own, once, after the child has paid."""

    @guardrail("output")
    def policy(context: Any, text: str) -> None:
        world.notes["looks"] += 1
        if world.notes["looks"] == 1:
            raise RuntimeError("the policy service is down")

    @tool
    async def pay(cents: int, ctx: ToolContext[Any]) -> str:
        world.did(ctx, f"paid {cents}")
        return "paid"

    @tool(needs_approval=True)
    async def pay_more(cents: int, ctx: ToolContext[Any]) -> str:
        world.did(ctx, f"paid {cents}")
        return "paid"

    script = ScriptedModel(by_agent={"payer": [call("pay", cents=5), call("pay_more", cents=7), "Paid."]})
    payer = Agent("payer", model=script, tools=[pay, pay_more], guardrails=[policy])
    model = ScriptedModel(by_agent={"boss": [call("ask_payer", task="Pay both"), "All paid."]})
    return HandoffBuilder("office", [Agent("boss", model=model, tools=[payer.as_tool()])]).build()


def busy(store: Store, world: World) -> Workflow:
    """The provider is busy before each reply: it says when to come again, once within patience and once far beyond it."""

    def reply(seen: Request) -> Any:
        world.notes[f"asked {seen.agent_turn}"] += 1
        if world.notes[f"asked {seen.agent_turn}"] <= 2:
            raise ModelFailed("come again", retryable=True, retry_after=(30.0, 4000.0)[world.notes[f"asked {seen.agent_turn}"] - 1])
        return (call("pay", cents=5), call("pay_more", cents=7), "Paid.")[seen.agent_turn]

    return office(world, reply)


def paid_both(told: Told) -> None:
    assert [told.world.times(f"paid {cents}") for cents in (5, 7)] == [1, 1]
    assert told.session.messages[-1].text == "All paid."


OWN = {
    "two payments, an audit and a handoff in one reply: each payment is made once": Story(payments, Person(["Pay both"]), paid_once),
    "a child session fails after it has paid: its parent goes on with it": Story(overloaded, Person(["Pay both"], resumes=20), paid_both),
    "a guardrail of a child session raises after it has paid: its parent goes on with it": Story(
        unsteady, Person(["Pay both"], resumes=20), paid_both
    ),
    "a provider tells to come again later, and much later: nothing is paid twice": Story(busy, Person(["Pay both"], resumes=20), paid_both),
}
