"""Session trees are forked, loaded, copied, retired and deleted by a process that dies at every store operation (D2, S2).

A child session has an approval that was given and not used. Wherever the process dies, the approval is used at most once, in the session in
which it was given, and no child session is left without its parent session.
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
from legato.testing.child_session_checks import check_child_sessions
from legato.testing.effect_log import check_effects, find_idempotency_key
from legato.testing.promise_checks import WorkflowRules, check_promises
from legato.testing.session_tree_checks import check_session_trees
from legato.testing.story import World
from legato.testing.violations import Violation
from tests.sim.mutants import apply_mutant

MIN_AGE_DAYS = 1e-9
MAX_OPERATIONS = 300

Operation = Callable[[Store, Store, Workflow, dict[str, str]], Coroutine[Any, Any, Any]]
"""An operation on the session `s`: `operation(store, archive, workflow, files)`. `files` outlives the process."""


async def fork_session(store: Store, archive: Store, workflow: Workflow, files: dict[str, str]) -> None:
    if not await store.read("branch"):
        await workflow.session("s", store=store).fork(id="branch")


async def load_copy_of_session(store: Store, archive: Store, workflow: Workflow, files: dict[str, str]) -> None:
    if "text" not in files:
        files["text"] = await workflow.session("s", store=store).to_string()
    await workflow.load(files["text"], id="copy", store=store).refresh()


async def copy_store_and_back(store: Store, archive: Store, workflow: Workflow, files: dict[str, str]) -> None:
    await copy(store, archive)
    await copy(archive, store)


async def retire_and_restore(store: Store, archive: Store, workflow: Workflow, files: dict[str, str]) -> None:
    time.sleep(0.002)  # ages are whole milliseconds: a fact of this millisecond has no age yet
    await retire(store, MIN_AGE_DAYS, archive=archive)
    await copy(archive, store)


async def delete_session(store: Store, archive: Store, workflow: Workflow, files: dict[str, str]) -> None:
    await store.delete("s")


OPERATIONS: list[Operation] = [fork_session, load_copy_of_session, copy_store_and_back, retire_and_restore, delete_session]


def build_holding(world: World) -> Workflow:
    """Build a boss with a manager with a payer, who needs approval to pay."""

    @tool(needs_approval=True)
    async def pay(cents: int, ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, f"paid {cents}")
        return "paid"

    payer = Agent("payer", model=ScriptedModel(by_agent={"payer": [call("pay", cents=5), "Paid."]}), tools=[pay])
    script = ScriptedModel(by_agent={"manager": [call("ask_payer", task="Pay"), "It is paid."]})
    manager = Agent("manager", model=script, tools=[payer.as_tool()])
    model = ScriptedModel(by_agent={"boss": [call("ask_manager", task="Have it paid"), "All done."]})
    return HandoffBuilder("holding", [Agent("boss", model=model, tools=[manager.as_tool()])]).build()


async def prepare_approved_session(store: MemoryStore, world: World) -> Workflow:
    """Create a session tree with an approval that was given and not used."""
    workflow = build_holding(world)
    session = workflow.session("s", store=store)
    (request,) = (await session.run("Pay")).pending
    assert request.call is not None
    key = find_idempotency_key(list(await store.read(request.session)), request.call)
    world.effect_log.add_consent(request, key, "approve").is_confirmed = True
    await session.approve(request)
    return workflow


async def sweep_operation(operation: Operation, when: str) -> tuple[list[Violation], int]:
    """Die at store operation 1, 2, 3 ... of the operation, repeat it, and drive all sessions. Return the violations and the deaths."""
    violations: list[Violation] = []
    for number in range(1, MAX_OPERATIONS):
        store, archive, world = MemoryStore(), MemoryStore(), World()
        workflow = await prepare_approved_session(store, world)
        count, files = 0, dict[str, str]()

        def plan_fault(name: str, at: str, _: int, number: int = number) -> BaseException | None:
            nonlocal count
            count += at == when
            return Died(name) if count == number and at == when else None

        dying = [FailingStore(each, plan_fault) for each in (store, archive)]
        has_died = False
        try:
            await operation(dying[0], dying[1], workflow, files)
        except Died:
            has_died = True
            for each in dying:
                each.is_dead = True
                await each.release_leases()
            await drive_all_sessions(store, workflow)
            await operation(store, archive, workflow, files)
        await drive_all_sessions(store, workflow)
        violations += await find_violations(store, workflow, world)
        if operation is not delete_session and world.count("paid 5") != 1:
            violations.append(Violation("D2", f"killed {when} operation {number}: paid {world.count('paid 5')} times"))
        if not has_died:
            return violations, number - 1
    raise AssertionError(f"the operation did not end within {MAX_OPERATIONS} store operations")


async def drive_all_sessions(store: MemoryStore, workflow: Workflow) -> None:
    """Drive every session, without answering requests."""
    for info in await store.list():
        if "/" not in info.ledger:
            await workflow.session(info.ledger, store=store).resume()


async def find_violations(store: MemoryStore, workflow: Workflow, world: World) -> list[Violation]:
    ledgers = {info.ledger: await store.read(info.ledger) for info in await store.list()}
    rules = WorkflowRules.from_workflow(workflow)
    violations = [*check_effects(world.effect_log, rules), *check_session_trees(ledgers), *check_child_sessions(ledgers)]
    for name, facts in ledgers.items():
        violations += check_promises(facts, rules=rules.for_child_sessions(), session=name)
        if any(isinstance(fact, CallLost) and fact.missing for fact in facts):
            violations.append(Violation("D2", f"{name} was separated from a child session"))
    return violations


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
async def test_killed_operation_uses_no_consent_twice(operation: Operation, when: str) -> None:
    violations, deaths = await sweep_operation(operation, when)
    assert violations == []
    assert deaths > 0


@pytest.mark.parametrize(
    ("mutant", "operation"),
    [
        ("a fork keeps the unused approvals of its parent", fork_session),
        ("a copy keeps the unused approvals of the original", load_copy_of_session),
        ("a copy of a session lacks its child sessions", retire_and_restore),
        ("retiring deletes child sessions before their parent", retire_and_restore),
        ("deleting a session leaves its child sessions", delete_session),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
async def test_killed_operation_finds_mutant(mutant: str, operation: Operation) -> None:
    with apply_mutant(mutant):
        try:
            violations, _ = await sweep_operation(operation, "before")
        except (TimeoutError, LegatoError) as error:
            violations = [Violation("error", str(error))]
    assert violations
