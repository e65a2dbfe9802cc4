"""The simulator with administrators: users who also copy, move, retire and delete sessions, and copy whole stores.

`legato.testing.simulate` is the public simulator, for workflows. The operations here act on whole ledgers and depend on no workflow. They
show that Legato keeps its promises meanwhile.
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
from legato.core.messages import MessageInput
from legato.core.view import ModelRequest
from legato.errors import LedgerConflict, LedgerExists, StoreError
from legato.models.model import Model, ModelReply
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.stores.retirement import retire
from legato.stores.session_copy import copy
from legato.testing import Died, FailingStore, Report, ToolExecution
from legato.testing.simulated_users import SimulatedUser
from legato.testing.simulated_workflow import SimulatedWorkflow
from legato.testing.simulator import LedgerSnapshot, RedactionTrackingStore, Schedule, SimulatedProcess, run_schedules, run_without_waiting
from legato.workflow.workflow import Workflow

MIN_AGE_DAYS = 1e-9
"""The age from which sessions are retired: all of them are old enough."""

FREQUENT_ACTIONS = (*("send",) * 3, *("answer",) * 4, "cancel", "resume", "fork", "pause", "forge", "redact", "copy")
RARE_ACTIONS = ("move", "retire", "delete")


def simulate_administered(
    workflow: Workflow | Callable[[int], Workflow],
    seeds: Iterable[int],
    *,
    trace: bool = False,
    max_violations: int | None = None,
    wrap_model: Callable[[Model], Model] | None = None,
    make_message: Callable[[str], MessageInput | Iterable[MessageInput]] | None = None,
) -> AdministeredReport:
    """Simulate the workflow once per seed, with administrators, and check every promise."""
    report = run_schedules(AdministeredSchedule, workflow, seeds, trace, False, max_violations, wrap_model, make_message)
    assert isinstance(report, AdministeredReport)
    return report


@dataclass
class AdministeredReport(Report):
    """A report that also counts what administrators did."""

    copies: int = 0
    removals: int = 0

    def format_counts(self) -> str:
        return f"{super().format_counts()}, {self.copies:,} copies, {self.removals:,} retired or deleted"


class Administrator(SimulatedUser):
    """A user who also copies, moves, retires and deletes sessions."""

    schedule: AdministeredSchedule

    def choose_action(self, rng: Random) -> str:
        rare = rng.choice(RARE_ACTIONS)
        return rng.choice((*FREQUENT_ACTIONS, rare))

    async def perform(self, session: Session, process: SimulatedProcess, action: str, value: Any) -> None:
        match action:
            case "copy":
                await self._copy_session(session, process)
            case "move":
                await self._move_session(session, process)
            case "retire":
                await self._retire_sessions(process)
            case "delete":
                await self.schedule.archive.delete(session.id)  # else an archived copy would come back
                await process.store.delete(session.id)
            case _:
                await super().perform(session, process, action, value)

    async def _copy_session(self, session: Session, process: SimulatedProcess) -> None:
        """Load a copy of the session from its text. Unused approvals are asked for again there."""
        schedule = self.schedule
        await session.refresh()
        if session.state.length and len(schedule.branches) < 3:
            text = await session.to_string()
            name = self.add_branch("c")
            await schedule.simulated_workflow.workflow.load(text, id=name, store=process.store).refresh()
            schedule.report.copies += 1
            self.continue_in(name)

    async def _move_session(self, session: Session, process: SimulatedProcess) -> None:
        """Move the session, with its approvals. The original is deleted first, and only if it is unchanged and not being driven."""
        schedule, rng = self.schedule, self.schedule.rng
        await session.refresh()
        infos = await process.store.children(session.id)
        lease = await process.store.lease(session.id)
        if lease is None:
            return
        try:
            if not session.state.length:
                return
            # Taken before the text: a driver without its lease may append through this handle while the text is written.
            expected = {session.id: session.state.length, **{info.ledger: info.length for info in infos}}
            text = await session.to_string()
            try:
                await schedule.store.delete(session.id, expected=expected)  # the process cannot die between this and the load
            except LedgerConflict:
                return  # the session has grown meanwhile
            name = session.id if rng.random() < 0.5 or len(schedule.branches) >= 3 else self.add_branch("m")
            schedule.effect_log.record_move(session.id, name)
            await schedule.archive.delete(session.id)  # a moved session must not continue from an archived copy either
            await schedule.simulated_workflow.workflow.load(text, id=name, store=schedule.store, move=True).refresh()
        finally:
            await process.store.release(lease)
        schedule.add_trace(f"user {self.index} moved {session.id} to {name}")
        schedule.report.copies += 1
        self.continue_in(name)

    async def _retire_sessions(self, process: SimulatedProcess) -> None:
        """Retire every session without a driver, with or without an archive; usually restore the archived ones later."""
        schedule, rng = self.schedule, self.schedule.rng
        archive = schedule.archive if rng.random() < 0.8 or schedule.running_restores else None
        before = set(schedule.store._ledgers)
        if archive is None:
            await self._delete_archived(before)
        is_done = await self._run_in_process(lambda store: retire(store, MIN_AGE_DAYS, archive=archive), process)
        if archive is None:
            await self._delete_archived(before - schedule.store._ledgers.keys())  # again: another administrator may have archived them
            if is_done:
                return
        await asyncio.sleep(rng.random() * 0.1)
        if rng.random() < 0.8:
            schedule.running_restores += 1
            with suppress(LedgerExists):  # another session was created with that name
                await self._run_in_process(lambda store: copy(schedule.archive, store), process)
            schedule.running_restores -= 1

    async def _delete_archived(self, sessions: Iterable[str]) -> None:
        """Delete archived copies of sessions. They are older than the sessions retired without an archive, and must not replace them."""
        for name in sorted(sessions):
            await self.schedule.archive.delete(name)

    async def _run_in_process(self, operation: Callable[[Store], Coroutine[Any, Any, Any]], process: SimulatedProcess) -> bool:
        """Run an operation on the store in its own process, which may be killed. Return True if it was completed."""
        schedule, rng = self.schedule, self.schedule.rng
        dies_at = rng.randrange(1, 20) if rng.random() < 0.3 else 0
        dies_when = rng.choice(("before", "after"))

        async def wait() -> None:
            await asyncio.sleep(rng.random() * 0.01)

        def plan_fault(operation: str, when: str, number: int) -> BaseException | None:
            return Died() if (number, when) == (dies_at, dies_when) else None

        store = FailingStore(schedule.store, plan_fault, delay=wait)
        process.stores.append(store)
        schedule.unfinished_copies += 1  # permanently, if the process dies meanwhile
        try:
            result = await operation(store)
            schedule.add_trace(f"user {self.index}: {result}")
            schedule.report.removals += len(getattr(result, "retired", ()))
        except Died:
            schedule.add_trace(f"user {self.index}: the operation is killed")
            await store.release_leases()
            return False
        except Exception:
            schedule.unfinished_copies -= 1
            raise
        schedule.unfinished_copies -= 1
        return True


class LedgerVersion(LedgerSnapshot):
    """One of several ledgers that had the same name, one after another."""

    def matches_request(self, request: ModelRequest, last: AnyFact | None, is_replaced: bool) -> bool:
        """Return True if the request may have been made from this ledger.

        The last fact of its model input, if known, must be here, and so must its user messages, redacted or not. `is_replaced`: sessions
        of this name were deleted and created again, perhaps with the same messages. Then the replies in the request must be here, too.
        """
        if is_replaced and not all(group.fact in self._facts_at(group.position) for group in request.groups if group.fact is not None):
            return False
        return (last is None or last in self._facts_at(request.upto)) and all(
            group.content in [fact.content for fact in self._facts_at(group.position) if isinstance(fact, MessageReceived)]
            for group in request.groups
            if group.kind == "said"
        )

    def _facts_at(self, position: int) -> list[AnyFact]:
        """Return the fact at a position as it was recorded, and as it is now."""
        return [facts[position] for facts in (self.original_facts, self.facts) if position < len(facts)]


def list_ledger_ids(facts: Sequence[AnyFact]) -> set[str]:
    """Return the ledger ids with which the idempotency keys of a ledger's calls begin."""
    return {fact.ledger_id for fact in facts if isinstance(fact, Opened)}


class AdministeredStore(RedactionTrackingStore):
    """A store that also remembers deleted ledgers."""

    def __init__(self, original_facts: dict[str, dict[int, AnyFact]]) -> None:
        super().__init__(original_facts)
        self.deleted_versions: list[LedgerVersion] = []

    def list_versions(self) -> list[LedgerVersion]:
        """Return the ledgers that exist now."""
        return [LedgerVersion(*each) for each in super().list_ledgers()]

    async def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, ledger_id: str = "") -> bool:
        before = self.list_versions()
        is_deleted = await super().delete(ledger, expected=expected, ledger_id=ledger_id)
        self.deleted_versions += [version for version in before if version.name not in self._ledgers]
        return is_deleted


class AdministeredSchedule(Schedule):
    """The simulation of one seed, with administrators."""

    report_type = AdministeredReport
    report: AdministeredReport
    store: AdministeredStore

    def __init__(self, simulated_workflow: SimulatedWorkflow, seed: int, trace: bool = False) -> None:
        self._original_facts: dict[str, dict[int, AnyFact]] = {}
        self.archive = self.make_store()
        self.running_restores = 0  # administrators who restore archived sessions, or died while they did
        self.unfinished_copies = 0  # running or killed: child sessions may be there without the parent that the next copy brings
        self.request_origins: list[tuple[str, AnyFact | None]] = []  # the ledger id of each request, and the last fact of its input
        self.deleted_versions: list[LedgerVersion] = []
        super().__init__(simulated_workflow, seed, trace)

    def make_store(self) -> AdministeredStore:
        return AdministeredStore(self._original_facts)

    def make_user(self, index: int) -> SimulatedUser:
        return Administrator(self, index)

    def before_settling(self) -> None:
        if self.rng.random() < 0.15:
            self._migrate()

    def _migrate(self) -> None:
        """End all processes, copy the store to another one with a copy that is killed once, and continue there; perhaps twice."""
        self.add_trace("the store is copied to another store")
        for process in self.processes:
            process.store.die()
            for store in process.stores:
                store.is_dead = True
                run_without_waiting(store.release_leases())
        for target in (self.archive, self.make_store())[: self.rng.choice((1, 2))]:
            dies_at = self.rng.randrange(1, 40)
            dying = FailingStore(target, lambda operation, when, number, at=dies_at: Died() if number == at else None)  # type: ignore[misc]
            for destination in (dying, target):
                try:
                    run_without_waiting(copy(self.store, destination))
                except Died:
                    run_without_waiting(dying.release_leases())
                    self.unfinished_copies += 1
                except LedgerExists as error:  # the archive has an earlier session of the same name
                    self.add_trace(f"the copy is incomplete: {error.summary}")
                    return
                except StoreError as error:
                    self.report_violation("D1", f"a copy failed: {error.summary}")
                    return
            self.deleted_versions += self.store.list_versions() + self.store.deleted_versions
            self.store = target
            self.report.copies += 1

    def record_request(self, request: ModelRequest, reply: ModelReply | None = None) -> int:
        ledger = self.store._ledgers.get(request.session_id)
        last = ledger.facts[request.upto] if ledger is not None and request.upto < len(ledger.facts) else None
        self.request_origins.append((self.find_ledger_id(request.session_id), last))
        return super().record_request(request, reply)

    def find_ledger_id_of_call(self, session: str, key: str) -> str:
        """Return the id of the present ledger, if the call was made in it; else of the last deleted ledger that had the call."""
        ledger, id_in_key = self.store._ledgers.get(session), key.partition(":")[0]
        if ledger is None or id_in_key not in list_ledger_ids(ledger.facts):
            for version in reversed((*self.deleted_versions, *self.store.deleted_versions)):
                if version.name == session and id_in_key in list_ledger_ids(version.facts):
                    return version.ledger_id
        return super().find_ledger_id_of_call(session, key)

    def check_interruption_noticed(self, request: ModelRequest) -> None:
        if not any(each.name == request.session_id for each in self.store.deleted_versions):
            super().check_interruption_noticed(request)

    # -- versions of ledgers ---------------------------------------------------------------------------------------------

    def list_ledgers(self) -> list[LedgerSnapshot]:
        """Return the longest version of every ledger: present, archived or deleted."""
        longest: list[LedgerSnapshot] = []
        for each in (
            *self.deleted_versions,
            *self.store.deleted_versions,
            *self.archive.deleted_versions,
            *self.archive.list_versions(),
            *self.store.list_versions(),
        ):
            for index, other in enumerate(longest):
                shared = min(len(each.original_facts), len(other.original_facts))
                is_same = (other.name, other.ledger_id) == (each.name, each.ledger_id)
                if is_same and other.original_facts[:shared] == each.original_facts[:shared]:
                    longest[index] = each if len(each.original_facts) >= len(other.original_facts) else other
                    break
            else:
                longest.append(each)
        return longest

    def select_requests(self, ledger: LedgerSnapshot) -> list[tuple[ModelRequest, ModelReply | None]]:
        """Return every request; those made for another ledger of that name without a session id.

        They are returned because their replies may have been copied to this ledger.
        """
        assert isinstance(ledger, LedgerVersion)
        requests = []
        is_replaced = any(version.name == ledger.name for version in (*self.deleted_versions, *self.store.deleted_versions))
        for (request, reply), (ledger_id, last) in zip(self.requests, self.request_origins, strict=True):
            is_own = ledger_id == ledger.ledger_id and ledger.matches_request(request, last, is_replaced)
            is_of_other = request.session_id == ledger.name and not is_own
            requests.append((replace(request, session_id="") if is_of_other else request, reply))
        return requests

    def select_executions(self, ledger: LedgerSnapshot, all_ledgers: Sequence[LedgerSnapshot]) -> list[ToolExecution]:
        return [execution for execution in self.executions if self._ran_in_ledger(execution, ledger, all_ledgers)]

    def _ran_in_ledger(self, execution: ToolExecution, ledger: LedgerSnapshot, all_ledgers: Sequence[LedgerSnapshot]) -> bool:
        """Return True if a tool ran for this ledger: the ledger of that name at that time, unless it does not have the call."""
        if execution.session != ledger.name:
            return False
        origin = next((each for each in all_ledgers if (each.name, each.ledger_id) == (execution.session, execution.ledger_id)), None)
        id_in_key = execution.key.partition(":")[0]
        if origin is not None and id_in_key in list_ledger_ids(origin.facts):
            return origin is ledger
        return id_in_key in list_ledger_ids(ledger.facts)

    def check_stores(self) -> None:
        for store in (self.store, self.archive):
            self.check_store_ledgers(store, allow_orphans=self.unfinished_copies > 0)

    def has_lost_keys(self) -> bool:
        return bool(self.deleted_versions or self.store.deleted_versions or self.archive.deleted_versions)
