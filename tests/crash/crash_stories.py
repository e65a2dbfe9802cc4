"""Stories for the crash sweep only, with effects that must not be lost or repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Workflow, guardrail, tool
from legato.core.facts import MessageReceived
from legato.core.view import ModelRequest
from legato.errors import ModelFailed
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff
from legato.testing.scripted_users import ScriptedUser
from legato.testing.story import Story, StoryResult, World


def build_payments(store: Store, world: World) -> Workflow:
    @tool(needs_approval=True)
    async def pay(cents: int, ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, f"paid {cents}")
        return f"paid {cents}"

    @tool(idempotent=True)
    async def receipt(cents: int, ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, f"receipt {cents}")
        return "sent"

    @tool
    async def audit(ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, "audited")
        return "audited"

    model = ScriptedModel(
        by_agent={
            "clerk": [[call("pay", cents=5), call("audit"), call("pay", cents=7), handoff("auditor")], "Anything else?"],
            "auditor": [[call("receipt", cents=12), call("audit"), handoff("clerk", "done")]],
        }
    )
    clerk, auditor = Agent("clerk", model=model, tools=[pay, audit]), Agent("auditor", model=model, tools=[receipt, audit])
    return HandoffBuilder("payments", [clerk, auditor]).build()


def check_paid_once(result: StoryResult) -> None:
    assert [result.world.count(f"paid {cents}") for cents in (5, 7)] == [1, 1]
    assert result.world.count("audited") == 2
    assert result.world.count("receipt 12") >= 1
    assert result.session.messages[-1].text == "Anything else?"
    assert [fact.content for fact in result.session.facts if isinstance(fact, MessageReceived)] == ["Pay both"]


def build_office(world: World, reply: Callable[[ModelRequest], Any]) -> Workflow:
    """Build a boss with a payer, who pays, needs approval to pay more, and whose model replies or fails by the function `reply`."""

    @tool
    async def pay(cents: int, ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, f"paid {cents}")
        return "paid"

    @tool(needs_approval=True)
    async def pay_more(cents: int, ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, f"paid {cents}")
        return "paid"

    payer = Agent("payer", model=ScriptedModel(reply), tools=[pay, pay_more])
    model = ScriptedModel(by_agent={"boss": [call("ask_payer", task="Pay both"), "All paid."]})
    return HandoffBuilder("office", [Agent("boss", model=model, tools=[payer.as_tool()])]).build()


def build_overloaded(store: Store, world: World) -> Workflow:
    """Build an office whose child session fails twice after a payment."""

    def reply(request: ModelRequest) -> Any:
        if request.agent_reply_count == 2 and world.counters["failures"] < 2:
            world.counters["failures"] += 1
            raise ModelFailed("the model is overloaded")
        return (call("pay", cents=5), call("pay_more", cents=7), "Paid.")[request.agent_reply_count]

    return build_office(world, reply)


def build_unsteady(store: Store, world: World) -> Workflow:
    """Build an office in which a guardrail of the child session raises an error once, after a payment."""

    @guardrail("output")
    def policy(context: Any, text: str) -> None:
        world.counters["checks"] += 1
        if world.counters["checks"] == 1:
            raise RuntimeError("the policy service is down")

    @tool
    async def pay(cents: int, ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, f"paid {cents}")
        return "paid"

    @tool(needs_approval=True)
    async def pay_more(cents: int, ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, f"paid {cents}")
        return "paid"

    script = ScriptedModel(by_agent={"payer": [call("pay", cents=5), call("pay_more", cents=7), "Paid."]})
    payer = Agent("payer", model=script, tools=[pay, pay_more], guardrails=[policy])
    model = ScriptedModel(by_agent={"boss": [call("ask_payer", task="Pay both"), "All paid."]})
    return HandoffBuilder("office", [Agent("boss", model=model, tools=[payer.as_tool()])]).build()


def build_busy(store: Store, world: World) -> Workflow:
    """Build an office whose provider is busy twice before each reply: it asks to wait once for a short time, and once for very long."""

    def reply(request: ModelRequest) -> Any:
        name = f"requests for reply {request.agent_reply_count}"
        world.counters[name] += 1
        if world.counters[name] <= 2:
            raise ModelFailed("try again later", retryable=True, retry_after=(30.0, 4000.0)[world.counters[name] - 1])
        return (call("pay", cents=5), call("pay_more", cents=7), "Paid.")[request.agent_reply_count]

    return build_office(world, reply)


def check_paid_both(result: StoryResult) -> None:
    assert [result.world.count(f"paid {cents}") for cents in (5, 7)] == [1, 1]
    assert result.session.messages[-1].text == "All paid."


CRASH_STORIES = {
    "two payments, an audit and a handoff in one reply: each payment is made once": Story(
        build_payments, ScriptedUser(["Pay both"]), check_paid_once
    ),
    "a child session fails after a payment: its parent session continues it": Story(
        build_overloaded, ScriptedUser(["Pay both"], max_resumes=20), check_paid_both
    ),
    "a guardrail of a child session raises after a payment: its parent session continues it": Story(
        build_unsteady, ScriptedUser(["Pay both"], max_resumes=20), check_paid_both
    ),
    "a busy provider asks to wait, and then to wait much longer: nothing is paid twice": Story(
        build_busy, ScriptedUser(["Pay both"], max_resumes=20), check_paid_both
    ),
}
