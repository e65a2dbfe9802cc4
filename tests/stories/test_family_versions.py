"""A session and its child sessions are of one version: in branches of any point, after interruptions, in copies and in strings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from legato import Agent, Result, ToolContext, Workflow, tool
from legato.core.facts import CallLost, CallPaused, CallStarted, ChildUsageReported
from legato.core.view import Request
from legato.errors import LedgerExists, ModelFailed
from legato.models.base import Emit, Reply
from legato.runtime.session import Session
from legato.stores import MemoryStore, Store, copy
from legato.testing import Died, FailingStore, ScriptedModel, call
from legato.testing.story import World
from tests.stories.test_families import boss
from tests.stories.test_nested import lengths, office, waiting


class FailingOnce(ScriptedModel):
    """A script whose second reply fails, once."""

    failed = False

    async def reply(self, request: Request, emit: Emit) -> Reply:
        if request.agent_turn == 1 and not self.failed:
            self.failed = True
            raise ModelFailed("overloaded")
        return await super().reply(request, emit)


def payer_that_failed(world: World) -> Workflow:
    """The child session of this one fails before it pays, and pays when it is resumed."""

    @tool
    async def look() -> str:
        return "seen"

    @tool
    async def pay(ctx: ToolContext[Any]) -> str:
        world.did(ctx, "paid")
        return "paid"

    model = FailingOnce(by_agent={"inner": [call("look"), call("pay"), "Paid."]})
    return boss(Agent("inner", model=model, tools=[look, pay]).as_tool(), calls=call("ask_inner", task="Pay"))


async def test_branch_of_a_working_child_asks(store: Store) -> None:
    """Where the parent's attempt was running, what its child had done by then is unknown, although it had waited before."""
    world = World()
    session = payer_that_failed(world).session("s", store=store)
    await session.run("Go")
    await session.resume()
    assert world.times("paid") == 1
    last = max(at for at, fact in enumerate(session.facts) if isinstance(fact, ChildUsageReported))
    result = await (await session.fork(last, id="branch")).resume()
    assert [(request.kind, request.tool) for request in result.pending] == [("outcome", "ask_inner")]
    assert world.times("paid") == 1


async def test_interrupted_fork_is_not_completed_with_an_old_child() -> None:
    """A fork died between child and parent, and the original went on: the same id cannot be completed with the older child."""
    world, store = World(), MemoryStore()
    session = await waiting(store, world)

    def dies(operation: str, when: str, number: int) -> Died | None:
        return Died() if (operation, when) == ("fork", "after") else None

    failing = FailingStore(store, dies)
    with pytest.raises(Died):
        await office(world).session("s", store=failing).fork(id="branch")
    await failing.bury()
    await session.approve(session.pending[0])
    with pytest.raises(LedgerExists):
        await session.fork(id="branch")
    assert (await (await session.fork(id="another")).resume()).pending


async def test_new_attempt_of_a_missing_child_is_not_missing(store: Store) -> None:
    """A driver that found a child missing goes on with the one that a person had it begin."""
    world, begun, end = World(), asyncio.Event(), asyncio.Event()

    @tool(idempotent=True)
    async def wait() -> str:
        begun.set()
        await end.wait()
        return "waited"

    def workflow() -> Workflow:
        return office(world, tools=[wait])

    end.set()
    session = workflow().session("s", store=store)
    await session.run("Pay ann")
    begun.clear()
    end.clear()
    started = [at for at, fact in enumerate(session.facts) if isinstance(fact, CallStarted)]
    branch = await session.fork(max(started[:2]) + 1, id="branch")
    driving = asyncio.ensure_future(_resumed(branch))
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


async def _resumed(session: Session) -> Result:
    return await session.resume()


async def test_copy_takes_no_part_of_a_family_that_differs(store: Store) -> None:
    """A child session was answered differently in the target: its parent is not brought without it."""
    world, target = World(), MemoryStore()
    session = await waiting(store, world)
    await copy(store, target)
    there = await office(world).session("s", store=target).refresh()
    await there.reject(there.pending[0], "no")
    await session.approve(session.pending[0])
    await session.resume()
    before = await lengths(target)
    with pytest.raises(LedgerExists):
        await copy(store, target)
    assert await lengths(target) == before


async def test_refused_string_changes_no_child(store: Store) -> None:
    """The parent has gone another way: what came along for its child is not recorded either."""
    world = World()
    session = await waiting(store, world)
    copied = office(world).load(await session.to_string(), store=MemoryStore())
    await copied.approve((await copied.resume()).pending[0])
    text = await copied.to_string()
    await session.say("Wait")
    before = await lengths(store)
    with pytest.raises(LedgerExists):
        await office(world).load(text, store=store).refresh()
    assert await lengths(store) == before
