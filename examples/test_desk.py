"""Testing your own workflow.

Scripted models reply as the test says, without a server. The strict emulator, over HTTP and the provider's own SDK,
refuses what the provider would refuse. The crash sweep kills the process at every point.

Run it: pytest examples/test_desk.py
It needs pytest and pytest-asyncio, and no key.
"""

import pytest

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.emulator import serve
from legato.models import Model, OpenAIResponses
from legato.stores import MemoryStore, Store
from legato.testing import ScriptedModel, ScriptedUser, Story, StoryResult, World, call, crash_sweep, handoff

REQUEST = "Please refund order A-17."


def build_desk(model: Model | str, store: Store, world: World) -> Workflow:
    """Build the workflow under test. In your project, this is an import."""

    @tool(needs_approval=True)
    async def refund(order_id: str, context: ToolContext[None]) -> str:
        """Refund an order."""
        world.record_effect(context, "refund")
        return f"order {order_id} is refunded"

    triage = Agent("triage", instructions="Route the customer.", model=model)
    refunds = Agent("refunds", instructions="You refund orders.", model=model, tools=[refund])
    return HandoffBuilder(name="desk", participants=[triage, refunds]).with_checkpointing(store).build()


def make_model() -> ScriptedModel:
    return ScriptedModel(by_agent={"triage": [handoff("refunds")], "refunds": [call("refund", order_id="A-17"), "It is done."]})


@pytest.mark.asyncio
async def test_refund_is_paid_once_after_approval() -> None:
    world = World()
    with make_model() as model:  # raises at the end of the block if a reply was not requested
        session = build_desk(model, MemoryStore(), world).session()
        result = await session.run(REQUEST)
        assert [request.tool for request in result.pending] == ["refund"]
        assert world.count("refund") == 0
        await session.approve(result.pending[0])
        assert (await session.resume()).text == "It is done."
    assert world.count("refund") == 1
    assert model.requests[-1].messages[0].text == REQUEST, "each agent sees the whole conversation"


@pytest.mark.asyncio
async def test_rejected_refund_is_not_paid() -> None:
    world = World()
    user = ScriptedUser([REQUEST], decide=lambda request: ("reject", "It was never paid."))
    session = await user.play(build_desk(make_model(), MemoryStore(), world).session())
    assert world.count("refund") == 0
    assert "It was never paid." in (await session.seen()).messages[-1].text


@pytest.mark.asyncio
async def test_the_provider_accepts_all_requests() -> None:
    async with serve() as emulator:
        model = OpenAIResponses("gpt-5.1", base_url=emulator.openai_url, api_key="any")
        session = await ScriptedUser([REQUEST]).play(build_desk(model, MemoryStore(), World()).session())
        assert "order A-17 is refunded" in session.messages[-1].text
        assert [exchange.status for exchange in emulator.exchanges] == [200, 200, 200]
        await model.close()


def test_refund_is_paid_once_despite_crashes() -> None:
    def check(outcome: StoryResult) -> None:
        assert outcome.world.count("refund") == 1
        assert [message.text for message in outcome.session.messages] == [REQUEST, "It is done."]

    report = crash_sweep(Story(lambda store, world: build_desk(make_model(), store, world), ScriptedUser([REQUEST]), check))
    assert report.deaths > 20
    assert not report.violations, report.violations
