"""The call that a child session works for: whose budgets bind it, and who is told what it has used.

A child session is driven by the tool that its parent's driver runs, in the same process. So the child asks the parent's state before
each model request, and reports its usage into the parent's ledger after each (`ChildUsageReported`). Reports are totals, not increments:
one that a crash prevented is made good by the next.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TypeAlias

from msgspec import Struct

from legato.core.counters import Spent
from legato.core.facts import NO_USAGE, CallRef, ChildUsageReported, Usage
from legato.core.planner import limit_reached, seconds_left
from legato.core.workflow_graph import Limits
from legato.errors import UnknownLedger
from legato.runtime.clock import now_ms
from legato.runtime.ledger import Ledger, used
from legato.runtime.outcomes import Outcome
from legato.runtime.worker_slot import Slot
from legato.stores.contract import Store

current_caller: ContextVar[Caller | None] = ContextVar("current_caller", default=None)
"""The call that is being run, where its tool works in a child session."""


def min_seconds(one: float | None, other: float | None) -> float | None:
    """The smaller of two bounds, of which each may be missing."""
    return min((each for each in (one, other) if each is not None), default=None)


class Reserved(Struct, frozen=True):
    """Model requests that are under way: an estimate of their usage, and their number."""

    usage: Usage = NO_USAGE
    turns: int = 0

    def __add__(self, other: Reserved) -> Reserved:
        return Reserved(self.usage + other.usage, self.turns + other.turns)


NOTHING = Reserved()

Reservations: TypeAlias = dict[tuple[CallRef, bool], Reserved]
"""What the calls of one session have reserved: for their child sessions, and, under True, for what is below those."""


class Caller:
    """One running call of a parent session. `child` is the id of its child session."""

    def __init__(
        self,
        ledger: Ledger,
        limits: Limits,
        call: CallRef,
        child: str,
        resumes: bool,
        reserved: Reservations,
        outer: Caller | None,
        slot: Slot | None = None,
    ) -> None:
        """`resumes`: an earlier attempt began in the child session. `reserved` is shared by the calls of one parent, and `slot` by all
        drivers of a step."""
        self.child = child
        self.resumes = resumes
        self.slot = slot
        self._ledger = ledger
        self._limits = limits
        self._call = call
        self._reserved = reserved
        self._outer = outer
        self._began = now_ms()

    @property
    def store(self) -> Store:
        """The store of the parent session, where the child session lives too."""
        return self._ledger.store

    def allows(self, needed: Usage) -> bool:
        """Whether a model request of this size fits into the limits of the parent, and of the parent's callers."""
        return self._allows(Reserved(needed))

    def _allows(self, needed: Reserved) -> bool:
        needed = sum((reserved for (call, _), reserved in self._reserved.items() if call != self._call), needed)
        if limit_reached(self._ledger.state, self._limits, needed.usage, needed.turns, self._working_ms()):
            return False
        return self._outer is None or self._outer._allows(needed)

    def seconds_left(self) -> float | None:
        """The seconds of work that the limits of the parent and of its callers have room for; None if they have no such limit."""
        own = seconds_left(self._ledger.state, self._limits, self._working_ms())
        return min_seconds(own, self._outer.seconds_left() if self._outer is not None else None)

    def _working_ms(self) -> int:
        """How long the call has been running, as far as the parent's ledger does not say."""
        return self._ledger.state.work.uncounted(self._began, now_ms())

    def reserve(self, needed: Usage) -> None:
        """Count a model request that is under way, until its usage is reported: siblings run at the same time."""
        self._reserve(Reserved(needed, 1))

    def end(self) -> None:
        """Count no model request of the child session and of its own children any more: the call has ended."""
        self._reserve(NOTHING)
        self._reserve(NOTHING, below=True)

    def _reserve(self, needed: Reserved, below: bool = False) -> None:
        """`below`: for child sessions of the child session, which report by themselves."""
        if needed == NOTHING:
            self._reserved.pop((self._call, below), None)
        else:
            self._reserved[self._call, below] = needed
        if self._outer is not None:
            self._outer._reserve(sum(self._reserved.values(), NOTHING), below=True)

    async def report(self, spent: Spent) -> None:
        """Record what the child session has used so far, in the parent's ledger and in those above it.

        What it had reserved is free only then: a sibling that asked in between would have room that is not there.
        """
        await self._record(spent)
        self._reserve(NOTHING)

    async def _record(self, spent: Spent) -> None:
        used_so_far = ChildUsageReported(at=now_ms(), call=self._call, agents=tuple(spent.of.items()), turns=spent.turns)
        await self._ledger.append(Outcome((used_so_far,)).propose)
        if self._outer is not None:
            await self._outer._record(self._ledger.state.spent)

    async def check_parent(self) -> None:
        """Raise `UnknownLedger` if the parent session was deleted: its child sessions were deleted with it, and none may begin since.

        Called after the child session is in the store: whatever deletes the parent later deletes this child too.
        """
        if await used(self._ledger.store, self._ledger.store.born(self._ledger.session)) != self._ledger.born:
            deleted = UnknownLedger(f"session {self._ledger.session!r} was deleted with its child sessions", do="start a new session")
            deleted.store = self._ledger.store
            raise deleted
