"""The simulator with people who also administer stores: they copy, move, retire and delete sessions, and all of a store goes to another.

Users have `legato.testing.simulate`, which simulates what sessions do. What is done here to whole ledgers depends on no workflow: it
shows whether Legato keeps its promises meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from msgspec.structs import replace

from legato.core.facts import AnyFact, MessageReceived, Opened
from legato.core.messages import Sendable
from legato.core.view import Request
from legato.errors import LedgerConflict, LedgerExists, StoreError
from legato.models.base import Model, Reply
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.stores.copying import copy
from legato.stores.retiring import retire
from legato.testing import Deed, Died, FailingStore, Report
from legato.testing.actors import Actor
from legato.testing.simulator import Ledger, Process, RememberingStore, Schedule, play_schedules, run_now
from legato.testing.stage import Stage
from legato.workflow.workflow import Workflow

LONG_AGO_DAYS = 1e-9
"""Sessions to which nothing was appended for so long are retired: all of them."""

OFTEN = (*("say",) * 3, *("answer",) * 4, "cancel", "resume", "fork", "pause", "forge", "erase", "copy")
SELDOM = ("move", "retire", "delete")


def simulate(
    workflow: Workflow | Callable[[int], Workflow],
    seeds: Iterable[int],
    *,
    trace: bool = False,
    stop_at: int | None = None,
    model: Callable[[Model], Model] | None = None,
    message: Callable[[str], Sendable | Iterable[Sendable]] | None = None,
) -> AdministeredReport:
    """Play the workflow once per seed, under administrators too, and check every promise."""
    report = play_schedules(AdministeredSchedule, workflow, seeds, trace, False, stop_at, model, message)
    assert isinstance(report, AdministeredReport)
    return report


@dataclass
class AdministeredReport(Report):
    """What was played, with what administrators did."""

    copies: int = 0
    retired: int = 0

    def format_counts(self) -> str:
        return f"{super().format_counts()}, {self.copies:,} copies, {self.retired:,} retired or deleted"


class Administrator(Actor):
    """Somebody who also does things to whole sessions."""

    schedule: AdministeredSchedule

    def choose_action(self, dice: Random) -> str:
        seldom = dice.choice(SELDOM)
        return dice.choice((*OFTEN, seldom))

    async def act(self, session: Session, process: Process, action: str, value: Any) -> None:
        match action:
            case "copy":
                await self._copy(session, process)
            case "move":
                await self._move(session, process)
            case "retire":
                await self._retire(process)
            case "delete":
                await self.schedule.archive.delete(session.id)  # or a copy of it would come back
                await process.store.delete(session.id)
            case _:
                await super().act(session, process, action, value)

    async def _copy(self, session: Session, process: Process) -> None:
        """A string of the session is loaded beside it: what was allowed is asked again there."""
        schedule = self.schedule
        await session.refresh()
        if session.state.length and len(schedule.branches) < 3:
            text = await session.to_string()
            name = self.name_branch("c")
            await schedule.stage.workflow.load(text, id=name, store=process.store).refresh()
            schedule.report.copies += 1
            self.go_on_in(name)

    async def _move(self, session: Session, process: Process) -> None:
        """The session goes to another place, with what was allowed: where it was it is deleted first, if nobody goes on with it."""
        schedule, dice = self.schedule, self.schedule.dice
        await session.refresh()
        infos = await process.store.children(session.id)
        lease = await process.store.lease(session.id)
        if lease is None:
            return
        try:
            if not session.state.length:
                return
            text = await session.to_string()
            expected = {session.id: session.state.length, **{info.ledger: info.length for info in infos}}
            try:
                await schedule.base.delete(session.id, expected=expected)  # not to be interrupted between this and what follows
            except LedgerConflict:
                return  # somebody has gone on with it
            name = session.id if dice.random() < 0.5 or len(schedule.branches) >= 3 else self.name_branch("m")
            schedule.effects.move(session.id, name)
            await schedule.archive.delete(session.id)  # what was moved does not go on there either
            await schedule.stage.workflow.load(text, id=name, store=schedule.base, move=True).refresh()
        finally:
            await process.store.release(lease)
        schedule.tell(f"actor {self.index} moved {session.id} to {name}")
        schedule.report.copies += 1
        self.go_on_in(name)

    async def _retire(self, process: Process) -> None:
        """Every session that nobody drives goes to an archive, or is lost; sometimes killed in the middle. Later some come back."""
        schedule, dice = self.schedule, self.schedule.dice
        archive = schedule.archive if dice.random() < 0.8 or schedule.restores else None
        before = set(schedule.base._ledgers)
        if archive is None:
            await self._discard(before)
        done = await self._administer(lambda store: retire(store, LONG_AGO_DAYS, archive=archive), process)
        if archive is None:
            await self._discard(before - schedule.base._ledgers.keys())  # again: somebody may have archived them meanwhile
            if done:
                return
        await asyncio.sleep(dice.random() * 0.1)
        if dice.random() < 0.8:
            schedule.restores += 1
            with suppress(LedgerExists):  # another one began under that name
                await self._administer(lambda store: copy(schedule.archive, store), process)
            schedule.restores -= 1

    async def _discard(self, sessions: Iterable[str]) -> None:
        """Delete archived copies of sessions: they are older than what is retired for good, and are not to come back in its place."""
        for name in sorted(sessions):
            await self.schedule.archive.delete(name)

    async def _administer(self, doing: Callable[[Store], Coroutine[Any, Any, Any]], process: Process) -> bool:
        """Do something to a store in a process of its own, which may be killed. Whether it was done."""
        schedule, dice = self.schedule, self.schedule.dice
        dies_at = dice.randrange(1, 20) if dice.random() < 0.3 else 0
        dies_when = dice.choice(("before", "after"))

        async def wait() -> None:
            await asyncio.sleep(dice.random() * 0.01)

        def plan(operation: str, when: str, number: int) -> BaseException | None:
            return Died() if (number, when) == (dies_at, dies_when) else None

        store = FailingStore(schedule.base, plan, delay=wait)
        process.stores.append(store)
        try:
            done = await doing(store)
            schedule.tell(f"actor {self.index}: {done}")
            schedule.report.retired += len(getattr(done, "retired", ()))
        except Died:
            schedule.tell(f"actor {self.index}: it is killed")
            schedule.copy_was_killed = True
            await store.bury()
            return False
        return True


class Incarnation(Ledger):
    """A ledger beside others that had its id."""

    def fits(self, request: Request, last: AnyFact | None, is_replaced: bool) -> bool:
        """Whether the last fact that a request saw is here, if it is known, and what users say in it was said here, or erased here.

        `is_replaced`: sessions of this id were deleted and begun anew, perhaps with the same words. Then its replies were made here, too.
        """
        if is_replaced and not all(group.fact in self._facts_at(group.position) for group in request.groups if group.fact is not None):
            return False
        return (last is None or last in self._facts_at(request.upto)) and all(
            group.content in [fact.content for fact in self._facts_at(group.position) if isinstance(fact, MessageReceived)]
            for group in request.groups
            if group.kind == "said"
        )

    def _facts_at(self, position: int) -> list[AnyFact]:
        """The fact at a position as it was recorded, and as it is now."""
        return [facts[position] for facts in (self.before, self.facts) if position < len(facts)]


def birth_names(facts: Sequence[AnyFact]) -> set[str]:
    """The birth names that idempotency keys of calls in a ledger begin with."""
    return {fact.ledger for fact in facts if isinstance(fact, Opened)}


class AdministeredStore(RememberingStore):
    """Remembers what was deleted, too."""

    def __init__(self, erased: dict[str, dict[int, AnyFact]]) -> None:
        super().__init__(erased)
        self.deleted: list[Incarnation] = []

    def incarnations(self) -> list[Incarnation]:
        """The ledgers that are there."""
        return [Incarnation(*each) for each in super().list_ledgers()]

    async def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, born: str = "") -> bool:
        before = self.incarnations()
        done = await super().delete(ledger, expected=expected, born=born)
        self.deleted += [each for each in before if each.name not in self._ledgers]
        return done


class AdministeredSchedule(Schedule):
    """One seed, played with administrators."""

    report_type = AdministeredReport
    report: AdministeredReport
    base: AdministeredStore

    def __init__(self, stage: Stage, seed: int, trace: bool = False) -> None:
        self._erased: dict[str, dict[int, AnyFact]] = {}
        self.archive = self.make_store()
        self.restores = 0  # how many administrators bring back what is archived; one whose process died seems to go on
        self.copy_was_killed = False  # then child sessions may be there whose parent the next copy brings
        self.requested: list[tuple[str, AnyFact | None]] = []  # for which ledger each was sent, by its birth name, and the last fact it saw
        self.deleted: list[Incarnation] = []
        super().__init__(stage, seed, trace)

    def make_store(self) -> AdministeredStore:
        return AdministeredStore(self._erased)

    def make_actor(self, index: int) -> Actor:
        return Administrator(self, index)

    def before_settling(self) -> None:
        if self.dice.random() < 0.15:
            self._migrate()

    def _migrate(self) -> None:
        """All processes end, everything is copied to another store, by a copy that is killed once, and goes on there; or here again."""
        self.tell("everything goes to another store")
        for process in self.processes:
            process.store.die()
            for store in process.stores:
                store.dead = True
                run_now(store.bury())
        for target in (self.archive, self.make_store())[: self.dice.choice((1, 2))]:
            dies_at = self.dice.randrange(1, 40)
            killed = FailingStore(target, lambda operation, when, number, at=dies_at: Died() if number == at else None)  # type: ignore[misc]
            for place in (killed, target):
                try:
                    run_now(copy(self.base, place))
                except Died:
                    run_now(killed.bury())
                    self.copy_was_killed = True
                except LedgerExists as error:  # the archive has an earlier session of the same name
                    self.tell(f"not all was copied: {error.summary}")
                    return
                except StoreError as error:
                    self.violate("D1", f"a copy failed: {error.summary}")
                    return
            self.deleted += self.base.incarnations() + self.base.deleted
            self.base = target
            self.report.copies += 1

    def record_request(self, request: Request, reply: Reply | None = None) -> int:
        kept = self.base._ledgers.get(request.session)
        last = kept.facts[request.upto] if kept is not None and request.upto < len(kept.facts) else None
        self.requested.append((self.birth_name(request.session), last))
        return super().record_request(request, reply)

    def find_birth_name(self, session: str, key: str) -> str:
        """The birth name of the ledger that is there, if the call was made in it; else of the last one deleted that had the call."""
        kept, name = self.base._ledgers.get(session), key.partition(":")[0]
        if kept is None or name not in birth_names(kept.facts):
            for gone in reversed((*self.deleted, *self.base.deleted)):
                if gone.name == session and name in birth_names(gone.facts):
                    return gone.born
        return super().find_birth_name(session, key)

    def check_wanted(self, request: Request) -> None:
        if not any(each.name == request.session for each in self.base.deleted):
            super().check_wanted(request)

    # -- which ledger something was done in ------------------------------------------------------------------------------

    def list_ledgers(self) -> list[Ledger]:
        """Every ledger that there was, each as long as it became: those that are there, in the archive, and deleted."""
        found: list[Ledger] = []
        for each in (*self.deleted, *self.base.deleted, *self.archive.deleted, *self.archive.incarnations(), *self.base.incarnations()):
            for index, known in enumerate(found):
                least = min(len(each.before), len(known.before))
                if (known.name, known.born) == (each.name, each.born) and known.before[:least] == each.before[:least]:
                    found[index] = each if len(each.before) >= len(known.before) else known
                    break
            else:
                found.append(each)
        return found

    def select_requests(self, each: Ledger) -> list[tuple[Request, Reply | None]]:
        """Every request. One made for another ledger of that name is of no session here, but what a model replied may be copied to it."""
        assert isinstance(each, Incarnation)
        found = []
        is_replaced = any(gone.name == each.name for gone in (*self.deleted, *self.base.deleted))
        for (request, reply), (born, last) in zip(self.requests, self.requested, strict=True):
            elsewhere = request.session == each.name and not (born == each.born and each.fits(request, last, is_replaced))
            found.append((replace(request, session="") if elsewhere else request, reply))
        return found

    def select_deeds(self, each: Ledger, every: Sequence[Ledger]) -> list[Deed]:
        return [deed for deed in self.deeds if self._belongs(deed, each, every)]

    def _belongs(self, deed: Deed, each: Ledger, every: Sequence[Ledger]) -> bool:
        """Whether a deed was done in this ledger: in the one that was there then, unless that was another one by then."""
        if deed.session != each.name:
            return False
        there = next((one for one in every if (one.name, one.born) == (deed.session, deed.born)), None)
        key = deed.key.partition(":")[0]
        return there is each if there is not None and key in birth_names(there.facts) else key in birth_names(each.facts)

    def check_stores(self) -> None:
        for store in (self.base, self.archive):
            self.check_store(store, orphans=self.copy_was_killed)

    def keys_are_forgotten(self) -> bool:
        return bool(self.deleted or self.base.deleted or self.archive.deleted)
