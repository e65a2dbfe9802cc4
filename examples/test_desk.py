"""Testing your own workflow.

With scripted models every word is yours, and no server is needed. The strict emulator, over HTTP and the
provider's own SDK, refuses what the provider would refuse. The crash sweep kills the process at every point.

Run it: pytest examples/test_desk.py
It needs pytest and pytest-asyncio, and no key.
"""

import pytest

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.emulator import serve
from legato.models import Model, OpenAIResponses
from legato.stores import MemoryStore, Store
from legato.testing import Person, ScriptedModel, Story, Told, World, call, crash_sweep, handoff

ASKED = "Please refund order A-17."


def desk(model: Model | str, store: Store, world: World) -> Workflow:
    """What is tested. In your project this is an import."""

    @tool(needs_approval=True)
    async def refund(order_id: str, context: ToolContext[None]) -> str:
        """Refund an order."""
        world.did(context, "refund")
        return f"order {order_id} is refunded"

    triage = Agent("triage", instructions="Route the customer.", model=model)
    refunds = Agent("refunds", instructions="You refund orders.", model=model, tools=[refund])
    return HandoffBuilder(name="desk", participants=[triage, refunds]).with_checkpointing(store).build()


def scripted() -> ScriptedModel:
    return ScriptedModel(by_agent={"triage": [handoff("refunds")], "refunds": [call("refund", order_id="A-17"), "It is done."]})


@pytest.mark.asyncio
async def test_a_refund_waits_for_a_person_and_is_then_paid_once() -> None:
    world = World()
    with scripted() as model:  # which complains, at the end of the block, if it was not asked for all its replies
        session = desk(model, MemoryStore(), world).session()
        result = await session.run(ASKED)
        assert [request.tool for request in result.pending] == ["refund"]
        assert world.times("refund") == 0
        await session.approve(result.pending[0])
        assert (await session.resume()).text == "It is done."
    assert world.times("refund") == 1
    assert model.requests[-1].messages[0].text == ASKED, "whoever has the conversation sees all of it"


@pytest.mark.asyncio
async def test_a_refund_that_a_person_rejects_is_not_paid() -> None:
    world = World()
    person = Person([ASKED], decide=lambda request: ("reject", "It was never paid."))
    session = await person.play(desk(scripted(), MemoryStore(), world).session())
    assert world.times("refund") == 0
    assert "It was never paid." in (await session.seen()).messages[-1].text


@pytest.mark.asyncio
async def test_the_provider_has_nothing_to_complain_about() -> None:
    async with serve() as emulator:
        model = OpenAIResponses("gpt-5.1", base_url=emulator.openai_url, api_key="any")
        session = await Person([ASKED]).play(desk(model, MemoryStore(), World()).session())
        assert "order A-17 is refunded" in session.messages[-1].text
        assert [exchange.status for exchange in emulator.exchanges] == [200, 200, 200]
        await model.close()


def test_wherever_the_process_dies_the_refund_is_paid_once() -> None:
    def check(told: Told) -> None:
        assert told.world.times("refund") == 1
        assert [message.text for message in told.session.messages] == [ASKED, "It is done."]

    report = crash_sweep(Story(lambda store, world: desk(scripted(), store, world), Person([ASKED]), check))
    assert report.deaths > 20
    assert not report.violations, report.violations
