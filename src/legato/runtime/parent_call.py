"""The parent call of a child session, whose budgets bind the child session and which counts its usage.

The parent's driver runs the tool that drives the child session, in the same process. So the child session checks the parent's state before
each model request, and reports its usage to the parent's ledger after each one (`ChildUsageReported`). Reports are totals, not increments,
so a report that a crash prevented is made up for by the next one.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TypeAlias

from msgspec import Struct

from legato.core.counters import UsageTotals
from legato.core.facts import NO_USAGE, CallRef, ChildUsageReported, Usage
from legato.core.limits import Limits
from legato.core.planner import compute_seconds_left, find_reached_limit
from legato.errors import UnknownLedger
from legato.runtime.clock import now_ms
from legato.runtime.ledger import EffectOutcome, Ledger, attribute_errors
from legato.runtime.worker_slot import WorkerSlot
from legato.stores.contract import Store

current_parent_call: ContextVar[ParentCall | None] = ContextVar("current_parent_call", default=None)
"""The call that is running, if its tool works in a child session."""


def _min_seconds(one: float | None, other: float | None) -> float | None:
    """Return the smaller of two bounds. None is no bound."""
    return min((each for each in (one, other) if each is not None), default=None)


class Reservation(Struct, frozen=True):
    """Model requests in flight: an estimate of their usage, and their number."""

    usage: Usage = NO_USAGE
    turns: int = 0

    def __add__(self, other: Reservation) -> Reservation:
        return Reservation(self.usage + other.usage, self.turns + other.turns)


NO_RESERVATION = Reservation()

Reservations: TypeAlias = dict[tuple[CallRef, bool], Reservation]
"""The reservations of the calls of one session: under False for the child session of a call, under True for the sessions below that one."""


class ParentCall:
    """One running call of a parent session, as its child session sees it."""

    def __init__(
        self,
        ledger: Ledger,
        limits: Limits,
        call: CallRef,
        child_session_id: str,
        is_resumed: bool,
        reservations: Reservations,
        outer: ParentCall | None,
        slot: WorkerSlot | None = None,
    ) -> None:
        """Describe a running call, whose parent session belongs to the call `outer` if it is a child session too.

        `is_resumed`: an earlier attempt began in the child session. All calls of one parent share `reservations`, and all drivers of a
        step share `slot`.
        """
        self.child_session_id = child_session_id
        self.is_resumed = is_resumed
        self.slot = slot
        self._ledger = ledger
        self._limits = limits
        self._call = call
        self._reservations = reservations
        self._outer = outer
        self._started_at = now_ms()

    @property
    def store(self) -> Store:
        """The store of the parent session, which has the child session too."""
        return self._ledger.store

    def has_budget_for(self, needed: Usage) -> bool:
        """Return True if a model request of this size fits into the limits of the parent session and of the sessions above it."""
        return self._has_budget_for(Reservation(needed))

    def _has_budget_for(self, needed: Reservation) -> bool:
        needed = sum((each for (call, _), each in self._reservations.items() if call != self._call), needed)
        if find_reached_limit(self._ledger.state, self._limits, needed.usage, needed.turns, self._measure_running_ms()):
            return False
        return self._outer is None or self._outer._has_budget_for(needed)

    def compute_seconds_left(self, own: float | None = None) -> float | None:
        """Return the seconds that may still be used: at most `own`, within the limits of the parent and the sessions above. None: any."""
        least = _min_seconds(own, compute_seconds_left(self._ledger.state, self._limits, self._measure_running_ms()))
        return self._outer.compute_seconds_left(least) if self._outer is not None else least

    def _measure_running_ms(self) -> int:
        """Return the time that the call has been running and that the parent's ledger does not count yet."""
        return self._ledger.state.work_time.measure_uncounted_ms(self._started_at, now_ms())

    def reserve_budget(self, needed: Usage) -> None:
        """Reserve budget for a model request until its usage is reported, because sibling calls run at the same time."""
        self._reserve(Reservation(needed, 1))

    def release_budget(self) -> None:
        """Release all budget of the child session and of the sessions below it, because the call has ended."""
        self._reserve(NO_RESERVATION)
        self._reserve(NO_RESERVATION, is_below=True)

    def _reserve(self, needed: Reservation, is_below: bool = False) -> None:
        """Set a reservation. `is_below`: for the sessions below the child session, which report by themselves."""
        if needed == NO_RESERVATION:
            self._reservations.pop((self._call, is_below), None)
        else:
            self._reservations[self._call, is_below] = needed
        if self._outer is not None:
            self._outer._reserve(sum(self._reservations.values(), NO_RESERVATION), is_below=True)

    async def report_usage(self, spent: UsageTotals) -> None:
        """Record what the child session has used so far, in the parent's ledger and in the ledgers above it.

        The reservation ends only after that. Otherwise a sibling that checks in between would find budget that is used up.
        """
        await self._record_usage(spent)
        self._reserve(NO_RESERVATION)

    async def _record_usage(self, spent: UsageTotals) -> None:
        report = ChildUsageReported(at=now_ms(), call=self._call, agents=tuple(spent.by_agent.items()), turns=spent.turns)
        await self._ledger.append(EffectOutcome((report,)).propose)
        if self._outer is not None:
            await self._outer._record_usage(self._ledger.state.usage_totals)

    async def check_parent_exists(self) -> None:
        """Raise `UnknownLedger` if the parent session was deleted: no child session may begin after that.

        This is called when the child session is in the store, so that a later deletion of the parent deletes it too.
        """
        if await attribute_errors(self._ledger.store, self._ledger.store.ledger_id(self._ledger.session_id)) != self._ledger.ledger_id:
            deleted = UnknownLedger(f"session {self._ledger.session_id!r} was deleted with its child sessions", do="start a new session")
            deleted.store = self._ledger.store
            raise deleted
