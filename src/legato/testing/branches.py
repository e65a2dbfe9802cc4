"""The branch sweep: a story is forked and copied at every fact, and no consent is used twice.

A story is told once. At each append a fork is made and a string is written, and at its end it is forked at each position. Then each
branch goes on: first with a person who answers nothing, then with one who approves everything. The log of effects, which is kept
outside of all ledgers, must show no effect that was approved elsewhere alone, and each at most once for each consent.

>>> from legato import Agent, HandoffBuilder
>>> from legato.testing import ScriptedModel
>>> from legato.testing.people import Person
>>> from legato.testing.story import Story
>>> def build(store, world):
...     return HandoffBuilder("desk", [Agent("triage", model=ScriptedModel(by_agent={"triage": ["Hello!"]}))]).build()
>>> report = branch_sweep(Story(build, Person(["Hi"]), lambda told: None))
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
from legato.runtime.definition import called
from legato.runtime.session import Session
from legato.stores.memory import MemoryStore
from legato.testing.crash import SweepReport
from legato.testing.effects import call_key, check_effects
from legato.testing.families import check_families
from legato.testing.loop import SimulatedLoop, Timeline
from legato.testing.people import Decide, Verdict
from legato.testing.promises import Rules, Violation, check_promises
from legato.testing.story import Story, World
from legato.testing.waiting import check_waiting

STEPS = 60
"""So many things the person of a branch does: with everything approved, some stories never end."""


def branch_sweep(story: Story, *, name: str = "story", stride: int = 1) -> SweepReport:
    """Fork and copy a story at every fact, go on in each branch, and report. `stride` takes only every n-th branch."""
    report = SweepReport()
    loop = SimulatedLoop(Timeline("branches"))
    try:
        loop.run_until_complete(_Branches(story, name, stride, report).sweep())
    finally:
        loop.bury()
    return report


class _Observed(MemoryStore):
    """Says when something was appended."""

    appended: Callable[[str], Coroutine[Any, Any, None]] | None = None

    async def append(self, ledger: str, *given: Any, **more: Any) -> int:
        length = await super().append(ledger, *given, **more)
        if self.appended is not None:
            await self.appended(ledger)
        return length


class _Branches:
    def __init__(self, story: Story, name: str, stride: int, report: SweepReport) -> None:
        self._story = story
        self._name = name
        self._stride = stride
        self._report = report
        self._world = World()
        self._store = _Observed()
        self._appends = 0
        self._forks: list[str] = []
        self._texts: list[str] = []

    async def sweep(self) -> None:
        self._workflow = self._story.build(self._store, self._world)  # here: a story may keep what belongs to this task
        session = self._workflow.session("story", store=self._store)
        self._store.appended = self._branch_off
        person = self._story.person
        await replace(person, decide=self._noting(person.decide), stream=False, watch=None).play(session)
        self._store.appended = None
        for at in range(1, session.state.length + 1, self._stride):
            await self._go_on(await session.fork(at, f"fork at {at}"))
        for id in self._forks:
            await self._go_on(await self._workflow.session(id, store=self._store).refresh())
        for number, text in enumerate(self._texts, 1):
            await self._go_on(await self._workflow.load(text, id=f"copy {number}", store=self._store).refresh())
        self._check()

    async def _branch_off(self, ledger: str) -> None:
        """Fork and write down what is being told, at this append."""
        self._appends += 1
        if self._appends % self._stride or not self._store._ledgers.get("story"):
            return
        self._store.appended, again = None, self._store.appended
        session = await self._workflow.session("story", store=self._store).refresh()
        if session.state.length:
            self._texts.append(await session.to_string(strict=False))
            self._forks.append((await session.fork(id=f"live fork {self._appends}")).id)
        self._store.appended = again

    async def _go_on(self, branch: Session) -> None:
        """First nobody answers; then somebody approves everything."""
        self._report.runs += 1
        with suppress(Exception):  # what a story's own code raises is no finding here
            for _ in range(3):
                if branch.status in ("running", "failed"):
                    await branch.resume()
        with suppress(Exception):
            person = replace(self._story.person, decide=self._noting(_approve), stream=False, watch=None, steps=STEPS, resumes=3)
            await person.play(branch)
        self._report.triples.add((self._name, branch.id, "branch"))

    def _noting(self, decide: Decide) -> Decide:
        """The same answers, noted outside of the ledgers."""

        async def noted(request: Pending) -> Verdict:
            verdict = await called(decide, request)
            if request.call is not None and verdict is not None:
                name, value = verdict if isinstance(verdict, tuple) else (verdict, None)
                key = call_key(self._store._ledgers[request.session].facts, request.call)
                arguments = value if name == "edit" else None
                shown = "approve" if name == "always" else str(name)
                self._world.log.add_consent(request, key, shown, arguments, always=name == "always").confirmed = True
            result: Verdict = verdict
            return result

        return noted

    def _check(self) -> None:
        ledgers: Mapping[str, Sequence[AnyFact]] = {name: kept.facts for name, kept in self._store._ledgers.items() if kept.facts}
        rules = Rules.of(self._workflow)
        broken = [*check_effects(self._world.log, rules), *check_waiting(ledgers), *check_families(ledgers)]
        for name, facts in ledgers.items():
            self._report.facts += len(facts)
            broken += check_promises(facts, rules=rules.of_tools(), session=name)
        self._report.violations += [((self._name, _branch_of(each), "branch"), each) for each in broken]


def _branch_of(violation: Violation) -> str:
    """The branch that a violation names, as far as it does."""
    return violation.what.rpartition(" in ")[2].split(",")[0] if " in " in violation.what else ""


def _approve(request: Pending) -> Verdict:
    """Everything is approved but limits, of which some stories never have enough."""
    match request.kind:
        case "result":
            return "answer", "done"
        case "limit":
            return "reject", "enough"
    return "approve"


__all__ = ["branch_sweep"]
