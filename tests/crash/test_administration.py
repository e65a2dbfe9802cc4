"""Families are forked, loaded, copied, retired and deleted by a process that dies at every operation on its stores (D2, S2).

A child session waits with an approval that was given and not used. Whatever dies, it is used at most once, in the session that it was
given in, and no child session is without its parent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import CallLost
from legato.errors import LegatoError
from legato.stores import MemoryStore, Store, copy, retire
from legato.testing import Died, FailingStore, ScriptedModel, call
from legato.testing.effects import call_key, check_effects
from legato.testing.families import check_families
from legato.testing.promises import Rules, check_promises
from legato.testing.story import World
from legato.testing.violations import Violation
from legato.testing.waiting import check_waiting
from tests.sim.mutants import applied

LONG_AGO_DAYS = 1e-9
MAX_OPERATIONS = 300

Operation = Callable[[Store, Store, Workflow, dict[str, str]], Coroutine[Any, Any, Any]]
"""Does something to the session `s`, with an archive beside its store. The dict keeps what outlives the process."""


async def fork(store: Store, archive: Store, workflow: Workflow, kept: dict[str, str]) -> None:
    if not await store.read("branch"):
        await workflow.session("s", store=store).fork(id="branch")


async def load_copy(store: Store, archive: Store, workflow: Workflow, kept: dict[str, str]) -> None:
    if "text" not in kept:
        kept["text"] = await workflow.session("s", store=store).to_string()
    await workflow.load(kept["text"], id="copy", store=store).refresh()


async def copy_there_and_back(store: Store, archive: Store, workflow: Workflow, kept: dict[str, str]) -> None:
    await copy(store, archive)
    await copy(archive, store)


async def retire_and_bring_back(store: Store, archive: Store, workflow: Workflow, kept: dict[str, str]) -> None:
    time.sleep(0.002)  # times are whole milliseconds: what was recorded in this one is not old yet
    await retire(store, LONG_AGO_DAYS, archive=archive)
    await copy(archive, store)


async def delete(store: Store, archive: Store, workflow: Workflow, kept: dict[str, str]) -> None:
    await store.delete("s")


OPERATIONS: list[Operation] = [fork, load_copy, copy_there_and_back, retire_and_bring_back, delete]


def holding(world: World) -> Workflow:
    """A boss with a manager with a payer, who asks before it pays."""

    @tool(needs_approval=True)
    async def pay(cents: int, ctx: ToolContext[Any]) -> str:
        world.did(ctx, f"paid {cents}")
        return "paid"

    payer = Agent("payer", model=ScriptedModel(by_agent={"payer": [call("pay", cents=5), "Paid."]}), tools=[pay])
    script = ScriptedModel(by_agent={"manager": [call("ask_payer", task="Pay"), "Seen to."]})
    manager = Agent("manager", model=script, tools=[payer.as_tool()])
    model = ScriptedModel(by_agent={"boss": [call("ask_manager", task="See to it"), "All done."]})
    return HandoffBuilder("holding", [Agent("boss", model=model, tools=[manager.as_tool()])]).build()


async def approved(store: MemoryStore, world: World) -> Workflow:
    """A family with an approval that was given and not used."""
    workflow = holding(world)
    session = workflow.session("s", store=store)
    (request,) = (await session.run("Pay")).pending
    assert request.call is not None
    key = call_key(list(await store.read(request.session)), request.call)
    world.log.add_consent(request, key, "approve").confirmed = True
    await session.approve(request)
    return workflow


async def sweep(operation: Operation, when: str) -> tuple[list[Violation], int]:
    """Die at operation 1, 2, 3 ... on either store, do it again, and go on everywhere; what was broken, and how often it died."""
    broken: list[Violation] = []
    for number in range(1, MAX_OPERATIONS):
        store, archive, world = MemoryStore(), MemoryStore(), World()
        workflow = await approved(store, world)
        count, kept = 0, dict[str, str]()

        def plan(name: str, at: str, _: int, number: int = number) -> BaseException | None:
            nonlocal count
            count += at == when
            return Died(name) if count == number and at == when else None

        dying = [FailingStore(each, plan) for each in (store, archive)]
        died = False
        try:
            await operation(dying[0], dying[1], workflow, kept)
        except Died:
            died = True
            for each in dying:
                each.dead = True
                await each.bury()
            await go_on(store, workflow)
            await operation(store, archive, workflow, kept)
        await go_on(store, workflow)
        broken += await found(store, workflow, world)
        if operation is not delete and world.times("paid 5") != 1:
            broken.append(Violation("D2", f"killed {when} operation {number}: paid {world.times('paid 5')} times"))
        if not died:
            return broken, number - 1
    raise AssertionError("it never came to its end")


async def go_on(store: MemoryStore, workflow: Workflow) -> None:
    """Drive every session that is there; nobody answers anything."""
    for info in await store.list():
        if "/" not in info.ledger:
            await workflow.session(info.ledger, store=store).resume()


async def found(store: MemoryStore, workflow: Workflow, world: World) -> list[Violation]:
    ledgers = {info.ledger: await store.read(info.ledger) for info in await store.list()}
    rules = Rules.of(workflow)
    broken = [*check_effects(world.log, rules), *check_families(ledgers), *check_waiting(ledgers)]
    for name, facts in ledgers.items():
        broken += check_promises(facts, rules=rules.of_tools(), session=name)
        if any(isinstance(fact, CallLost) and fact.missing for fact in facts):
            broken.append(Violation("D2", f"{name} was separated from a child session"))
    return broken


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
async def test_killed_operation_uses_no_consent_twice(operation: Operation, when: str) -> None:
    broken, deaths = await sweep(operation, when)
    assert broken == []
    assert deaths > 0


@pytest.mark.parametrize(
    ("sentence", "operation"),
    [
        ("a fork keeps what was approved in its parent", fork),
        ("a copy keeps what was approved in the original", load_copy),
        ("a copy takes a session without its child sessions", retire_and_bring_back),
        ("retiring deletes child sessions before their parent", retire_and_bring_back),
        ("deleting a session leaves its child sessions", delete),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
async def test_killed_operation_finds_mutant(sentence: str, operation: Operation) -> None:
    with applied(sentence):
        try:
            broken, _ = await sweep(operation, "before")
        except (TimeoutError, LegatoError) as error:
            broken = [Violation("error", str(error))]
    assert broken
