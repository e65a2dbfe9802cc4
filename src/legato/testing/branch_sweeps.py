"""The branch sweep: forks and copies a story at every fact, and checks that no consent is used twice.

The story runs once. At each append it is forked and exported as text, and at its end it is forked at each position. Then each branch
continues: first without answers, then with a user who approves everything. By the effect log, which is kept outside all ledgers, no effect
may rest on a consent given only in another branch, and each consent permits at most one effect.

>>> from legato import Agent, HandoffBuilder
>>> from legato.testing import ScriptedModel
>>> from legato.testing.scripted_users import ScriptedUser
>>> from legato.testing.story import Story
>>> def build(store, world):
...     return HandoffBuilder("desk", [Agent("triage", model=ScriptedModel(by_agent={"triage": ["Hello!"]}))]).build()
>>> report = branch_sweep(Story(build, ScriptedUser(["Hi"]), lambda result: None))
>>> report.violations, report.runs > 3
([], True)
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from legato.core.facts import AnyFact
from legato.core.pending_requests import Pending
from legato.runtime.definition import call_user_code
from legato.runtime.session import Session
from legato.stores.memory import MemoryStore
from legato.testing.child_session_checks import check_child_sessions
from legato.testing.crash_sweeps import SweepReport
from legato.testing.effect_log import check_effects, find_idempotency_key
from legato.testing.promise_checks import Violation, WorkflowRules, check_promises
from legato.testing.scripted_users import DecisionFunction, Verdict
from legato.testing.session_tree_checks import check_session_trees
from legato.testing.simulated_event_loop import SimulatedLoop, Timeline
from legato.testing.story import Story, World

MAX_USER_STEPS = 60
"""The steps of the user in one branch. With everything approved, some stories never end."""


def branch_sweep(story: Story, *, name: str = "story", stride: int = 1) -> SweepReport:
    """Fork and copy a story at every fact, continue each branch, and return a report. `stride` takes only every n-th branch."""
    report = SweepReport()
    loop = SimulatedLoop(Timeline("branches"))
    try:
        loop.run_until_complete(_BranchSweeper(story, name, stride, report).sweep())
    finally:
        loop.discard_tasks()
    return report


class _HookedStore(MemoryStore):
    """A store that calls `on_append` after each append."""

    on_append: Callable[[str], Coroutine[Any, Any, None]] | None = None

    async def append(self, ledger: str, *arguments: Any, **options: Any) -> int:
        length = await super().append(ledger, *arguments, **options)
        if self.on_append is not None:
            await self.on_append(ledger)
        return length


class _BranchSweeper:
    def __init__(self, story: Story, name: str, stride: int, report: SweepReport) -> None:
        self._story = story
        self._name = name
        self._stride = stride
        self._report = report
        self._world = World()
        self._store = _HookedStore()
        self._appends = 0
        self._forks: list[str] = []
        self._texts: list[str] = []

    async def sweep(self) -> None:
        self._workflow = self._story.build(self._store, self._world)  # in this task: a story may keep task-bound state
        session = self._workflow.session("story", store=self._store)
        self._store.on_append = self._branch_here
        user = self._story.user
        await replace(user, decide=self._log_consents(user.decide), stream=False, on_event=None).play(session)
        self._store.on_append = None
        for at in range(1, session.state.length + 1, self._stride):
            await self._continue_branch(await session.fork(at, f"fork at {at}"))
        for session_id in self._forks:
            await self._continue_branch(await self._workflow.session(session_id, store=self._store).refresh())
        for number, text in enumerate(self._texts, 1):
            await self._continue_branch(await self._workflow.load(text, id=f"copy {number}", store=self._store).refresh())
        self._check()

    async def _branch_here(self, ledger: str) -> None:
        """Fork and export the story at this append."""
        self._appends += 1
        if self._appends % self._stride or not self._store._ledgers.get("story"):
            return
        self._store.on_append, hook = None, self._store.on_append
        session = await self._workflow.session("story", store=self._store).refresh()
        if session.state.length:
            self._texts.append(await session.to_string(strict=False))
            self._forks.append((await session.fork(id=f"live fork {self._appends}")).id)
        self._store.on_append = hook

    async def _continue_branch(self, branch: Session) -> None:
        """Continue a branch, first without answers, then with a user who approves everything."""
        self._report.runs += 1
        with suppress(Exception):  # errors of the story's own code are not violations
            for _ in range(3):
                if branch.status in ("running", "failed"):
                    await branch.resume()
        with suppress(Exception):
            user = replace(
                self._story.user,
                decide=self._log_consents(_approve_all_but_limits),
                stream=False,
                on_event=None,
                max_steps=MAX_USER_STEPS,
                max_resumes=3,
            )
            await user.play(branch)
        self._report.cases.add((self._name, branch.id, "branch"))

    def _log_consents(self, decide: DecisionFunction) -> DecisionFunction:
        """Return the same function, which also logs its consents outside the ledgers."""

        async def decide_and_log(request: Pending) -> Verdict:
            verdict = await call_user_code(decide, request)
            if request.call is not None and verdict is not None:
                name, value = verdict if isinstance(verdict, tuple) else (verdict, None)
                key = find_idempotency_key(self._store._ledgers[request.session].facts, request.call)
                arguments = value if name == "edit" else None
                logged = "approve" if name == "always" else str(name)
                self._world.effect_log.add_consent(request, key, logged, arguments, is_standing=name == "always").is_confirmed = True
            result: Verdict = verdict
            return result

        return decide_and_log

    def _check(self) -> None:
        ledgers: Mapping[str, Sequence[AnyFact]] = {name: ledger.facts for name, ledger in self._store._ledgers.items() if ledger.facts}
        rules = WorkflowRules.from_workflow(self._workflow)
        violations = [*check_effects(self._world.effect_log, rules), *check_child_sessions(ledgers), *check_session_trees(ledgers)]
        for name, facts in ledgers.items():
            self._report.facts += len(facts)
            violations += check_promises(facts, rules=rules.for_child_sessions(), session=name)
        self._report.violations += [((self._name, _find_branch(each), "branch"), each) for each in violations]


def _find_branch(violation: Violation) -> str:
    """Return the branch that a violation's description names; empty if it names none."""
    return violation.description.rpartition(" in ")[2].split(",")[0] if " in " in violation.description else ""


def _approve_all_but_limits(request: Pending) -> Verdict:
    """Approve everything but limits, because some stories never end."""
    match request.kind:
        case "result":
            return "answer", "done"
        case "limit":
            return "reject", "enough"
    return "approve"


__all__ = ["branch_sweep"]
