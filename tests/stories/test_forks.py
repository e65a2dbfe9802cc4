"""Forks of a session (37)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, ToolContext, tool
from legato.core.facts import CallStarted, ModelReplied, Opened
from legato.errors import BadInput, LegatoError, NotPending
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call
from legato.testing.scripted_users import ScriptedUser
from legato.testing.story import World
from tests.stories import approvals, conversation_checks, handoffs


async def test_fork_at_every_position_continues(store: Store, stream: bool) -> None:
    world = World()
    workflow = handoffs.build_round_trip(world, handoffs.history.everything())
    session = workflow.session("trunk", store=store)
    await session.run("Weigh them")
    facts = session.facts
    for at in range(len(facts) + 1):
        branch = await session.fork(at, f"branch-{at}")
        assert branch.facts[:at] == facts[:at]

        def decide(request: Any) -> Any:
            return ("answer", f"{request.arguments['what']} weighs 3 kg") if request.kind == "outcome" else "approve"

        await ScriptedUser(["Weigh them"], decide, stream=stream).play(branch)
        assert branch.status == "waiting"
        assert branch.messages[-1].text == "All known."
        assert [message.text for message in branch.messages] == [message.text for message in session.messages]
        await conversation_checks.rebuild_requests(branch)
    await session.refresh()
    assert session.facts == facts  # the trunk is unchanged


async def test_approval_in_one_branch_is_not_shared(store: Store) -> None:
    world = World()
    workflow = approvals.build_refund_desk(world, "queue")
    trunk = workflow.session("trunk", store=store)
    await trunk.run("Refund order 7")
    branch = await trunk.fork(id="branch")
    (here,), (there,) = trunk.pending, branch.pending
    assert here.id != there.id
    with pytest.raises(NotPending):
        await branch.approve(here)
    with pytest.raises(NotPending):
        await trunk.approve(there.id)
    await trunk.approve(here)
    await trunk.resume()
    await branch.refresh()
    assert [request.id for request in branch.pending] == [there.id]
    await branch.reject(there, "not here")
    await branch.resume()
    assert world.count("refunded 7") == 1
    assert conversation_checks.list_outputs((await conversation_checks.rebuild_requests(trunk))[-1]) == ["refunded 7"]
    assert "not here" in conversation_checks.list_outputs((await conversation_checks.rebuild_requests(branch))[-1])[0]


async def test_fork_does_not_inherit_standing_approvals(store: Store) -> None:
    world = World()
    workflow = approvals.build_standing_desk(world)
    trunk = workflow.session("trunk", store=store)
    await trunk.run("Send")
    await trunk.approve(trunk.pending[0], always=True)
    branch = await trunk.fork(id="branch")
    await branch.resume()
    assert branch.status == "pending"
    assert [request.arguments["to"] for request in branch.pending] == ["ann"]
    await branch.approve(branch.pending[0])
    await branch.resume()
    assert [request.arguments["to"] for request in branch.pending] == ["bob", "cid"]
    await trunk.resume()
    assert [request.arguments["to"] for request in trunk.pending] == ["dan"]


async def test_fork_during_a_running_tool_requests_the_outcome(store: Store) -> None:
    """The branch requests the outcome of the running tool, and the trunk continues."""
    started, go = asyncio.Event(), asyncio.Event()
    keys: list[str] = []

    @tool
    async def pay(ctx: ToolContext[Any]) -> str:
        keys.append(ctx.idempotency_key)
        started.set()
        await go.wait()
        return "paid"

    model = ScriptedModel(by_agent={"payer": [call("pay"), "Settled."]})
    workflow = HandoffBuilder("pay", [Agent("payer", model=model, tools=[pay])]).build()
    trunk = workflow.session("trunk", store=store)
    driving = asyncio.ensure_future(run_and_get_text(trunk.run("Pay")))
    await started.wait()
    branch = await workflow.session("trunk", store=store).fork(id="branch")
    result = await branch.resume()
    assert result.status == "pending"
    (request,) = result.pending
    assert request.kind == "outcome"
    await branch.approve(request)  # run it again, in the branch
    going = asyncio.ensure_future(run_and_get_text(branch.resume()))
    await asyncio.sleep(0.02)
    go.set()
    assert await driving == "Settled."
    assert await going == "Settled."
    assert len(keys) == 2
    assert len(set(keys)) == 1  # the key names the original call, so a service that knows keys pays once
    await conversation_checks.rebuild_requests(trunk)
    await conversation_checks.rebuild_requests(branch)
    assert [fact.attempt for fact in branch.facts if isinstance(fact, CallStarted)] == [1, 2]


async def run_and_get_text(run: Any) -> str:
    return str((await run).text)


async def test_forks_of_forks_share_earlier_facts(store: Store) -> None:
    workflow = handoffs.build_three_turns(World())
    trunk = workflow.session("trunk", store=store)
    await trunk.run("My order came broken")
    length = len(trunk.facts)
    await trunk.run("Order 7")
    past = await trunk.fork(length, "past")
    await past.run("Order 8")
    further = await past.fork(id="further")
    await further.run("Thanks for order 8")
    await trunk.run("Thanks for order 7")
    for session, texts in (
        (trunk, ["My order came broken", "Order 7", "Thanks for order 7"]),
        (past, ["My order came broken", "Order 8"]),
        (further, ["My order came broken", "Order 8", "Thanks for order 8"]),
    ):
        await session.refresh()
        assert [message.text for message in session.messages if message.role == "user"] == texts
        await conversation_checks.rebuild_requests(session)
    assert sum(isinstance(fact, Opened) for fact in further.facts) == 3


async def test_fork_at_an_invalid_position_is_refused(store: Store) -> None:
    workflow = handoffs.build_three_turns(World())
    session = workflow.session("s", store=store)
    await session.run("My order came broken")
    for at in (-1, 99, True, "2"):
        with pytest.raises(BadInput):
            await session.fork(at)  # type: ignore[arg-type]
    await session.fork(id="taken")
    with pytest.raises(LegatoError):
        await session.fork(id="taken")
    with pytest.raises(LegatoError):
        await session.fork(id="s")


async def test_fork_rebuilds_the_same_past_requests(store: Store) -> None:
    workflow = handoffs.build_three_turns(World())
    trunk = workflow.session("trunk", store=store)
    await ScriptedUser(["My order came broken", "Order 7", "Thanks"]).play(trunk)
    branch = await trunk.fork(id="branch")
    replies = sum(isinstance(fact, ModelReplied) for fact in branch.facts)
    for number in range(replies):
        in_branch, in_trunk = await branch.seen(number), await trunk.seen(number)
        assert (in_branch.turn_context, in_branch.messages) == (in_trunk.turn_context, in_trunk.messages)
