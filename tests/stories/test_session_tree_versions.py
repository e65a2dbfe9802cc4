"""Session trees have one version: in branches at any point, after interruptions, in copies and in exported strings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from legato import Agent, Result, ToolContext, Workflow, tool
from legato.core.facts import CallLost, CallPaused, CallStarted, ChildUsageReported
from legato.core.view import ModelRequest
from legato.errors import LedgerExists, ModelFailed
from legato.models.model import Emit, ModelReply
from legato.runtime.session import Session
from legato.stores import MemoryStore, Store, copy
from legato.testing import Died, FailingStore, ScriptedModel, call
from legato.testing.story import World
from tests.stories.test_child_sessions import build_office, list_lengths, start_pending_session
from tests.stories.test_session_trees import build_boss


class FailingOnceModel(ScriptedModel):
    """A scripted model whose second reply fails once."""

    failed = False

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        if request.agent_reply_count == 1 and not self.failed:
            self.failed = True
            raise ModelFailed("overloaded")
        return await super().reply(request, emit)


def build_failing_payer(world: World) -> Workflow:
    """Return a workflow whose child session fails before it pays, and pays when it is resumed."""

    @tool
    async def look() -> str:
        return "seen"

    @tool
    async def pay(ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, "paid")
        return "paid"

    model = FailingOnceModel(by_agent={"inner": [call("look"), call("pay"), "Paid."]})
    return build_boss(Agent("inner", model=model, tools=[look, pay]).as_tool(), calls=call("ask_inner", task="Pay"))


async def test_branch_of_working_child_requests_outcome(store: Store) -> None:
    """At a point where the parent's attempt was running, the progress of its child session is unknown."""
    world = World()
    session = build_failing_payer(world).session("s", store=store)
    await session.run("Go")
    await session.resume()
    assert world.count("paid") == 1
    last = max(at for at, fact in enumerate(session.facts) if isinstance(fact, ChildUsageReported))
    result = await (await session.fork(last, id="branch")).resume()
    assert [(request.kind, request.tool) for request in result.pending] == [("outcome", "ask_inner")]
    assert world.count("paid") == 1


async def test_interrupted_fork_refuses_an_outdated_child() -> None:
    """A fork died between child and parent, and the original continued: the fork cannot be completed with the older child."""
    world, store = World(), MemoryStore()
    session = await start_pending_session(store, world)

    def make_death(operation: str, when: str, number: int) -> Died | None:
        return Died() if (operation, when) == ("fork", "after") else None

    failing = FailingStore(store, make_death)
    with pytest.raises(Died):
        await build_office(world).session("s", store=failing).fork(id="branch")
    await failing.release_leases()
    await session.approve(session.pending[0])
    with pytest.raises(LedgerExists):
        await session.fork(id="branch")
    assert (await (await session.fork(id="another")).resume()).pending


async def test_new_attempt_finds_its_own_child(store: Store) -> None:
    """A driver that found a child session missing continues with the new one that a person approved."""
    world, begun, end = World(), asyncio.Event(), asyncio.Event()

    @tool(idempotent=True)
    async def wait() -> str:
        begun.set()
        await end.wait()
        return "waited"

    def workflow() -> Workflow:
        return build_office(world, tools=[wait])

    end.set()
    session = workflow().session("s", store=store)
    await session.run("Pay ann")
    begun.clear()
    end.clear()
    started = [at for at, fact in enumerate(session.facts) if isinstance(fact, CallStarted)]
    branch = await session.fork(max(started[:2]) + 1, id="branch")
    driving = asyncio.ensure_future(resume_session(branch))
    await begun.wait()
    person = await workflow().session("branch", store=store).refresh()
    await person.approve(person.pending[0])
    while not any(isinstance(fact, CallPaused) for fact in person.facts):
        await store.wait("branch", person.state.length, 5)
        await person.refresh()
    end.set()
    result = await driving
    assert [(request.kind, request.tool) for request in result.pending] == [("approval", "pay")]
    assert sum(isinstance(fact, CallLost) and fact.missing for fact in branch.facts) == 1


async def resume_session(session: Session) -> Result:
    return await session.resume()


async def test_copy_refuses_a_differing_session_tree(store: Store) -> None:
    """A child session was answered differently in the target, so its parent session is not copied without it."""
    world, target = World(), MemoryStore()
    session = await start_pending_session(store, world)
    await copy(store, target)
    copied = await build_office(world).session("s", store=target).refresh()
    await copied.reject(copied.pending[0], "no")
    await session.approve(session.pending[0])
    await session.resume()
    before = await list_lengths(target)
    with pytest.raises(LedgerExists):
        await copy(store, target)
    assert await list_lengths(target) == before


async def test_refused_string_changes_no_child(store: Store) -> None:
    """The parent session has diverged, so the facts for its child session are not recorded either."""
    world = World()
    session = await start_pending_session(store, world)
    copied = build_office(world).load(await session.to_string(), store=MemoryStore())
    await copied.approve((await copied.resume()).pending[0])
    text = await copied.to_string()
    await session.say("Wait")
    before = await list_lengths(store)
    with pytest.raises(LedgerExists):
        await build_office(world).load(text, store=store).refresh()
    assert await list_lengths(store) == before
