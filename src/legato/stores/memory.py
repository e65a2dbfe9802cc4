"""Ledgers in memory. May know: facts as objects. Decides: nothing that a process leaves behind.

Facts are immutable, so the store keeps the very objects it was given: appending encodes nothing and reading decodes nothing.
A fork copies references, never facts. One plain lock makes it right from several threads and event loops; it is held for
microseconds, so no event loop notices.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING

from legato.core.child_session_ids import is_child_of
from legato.core.facts import AnyFact
from legato.errors import LedgerConflict
from legato.stores.contract import Lease, LedgerInfo, newest_epoch, next_epoch
from legato.stores.forks import count_shared, find_unnamed_contents
from legato.stores.live import Listeners, Waiters
from legato.stores.refusals import (
    bad_start,
    check_fork,
    check_lengths,
    checked_tenant,
    closed_store,
    no_content,
    not_born_so,
    of_one_tenant,
    unknown_ledger,
)

if TYPE_CHECKING:
    from legato.core.redaction import Erased, Erases


class _Ledger:
    """One ledger: its facts, and its contents with the position each was recorded at."""

    __slots__ = ("born", "contents", "epoch", "facts", "held", "name", "number", "origin", "rested", "shared", "touched")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.born = ""
        self.facts: list[AnyFact] = []
        self.contents: dict[str, tuple[int, bytes]] = {}
        self.epoch = 0  # the newest of its leases, and of those that its facts name
        self.held: Lease | None = None
        self.touched = 0
        self.rested = 0
        self.origin: _Ledger | None = None
        self.shared = 0  # how many facts it has from there

    def keep(self, position: int, contents: Mapping[str, bytes] | None) -> None:
        """Keep contents that facts from this position on name, unless they are here."""
        for digest, body in (contents or {}).items():
            self.contents.setdefault(digest, (position, bytes(body)))

    def erase(self, erased: Erased, dropped: frozenset[str]) -> None:
        """Replace facts, append, and drop and add contents."""
        for position, fact in erased.replaced.items():
            self.facts[position] = fact
        self.facts.extend(erased.added)
        self.contents = {digest: body for digest, body in self.contents.items() if digest not in dropped}
        self.contents.update(erased.contents)


class MemoryStore:
    """A store for tests, scripts and sessions that need not outlive the process."""

    def __init__(self) -> None:
        self._tick = count(1)
        self._closed = False
        self._tenants: dict[str, MemoryStore] = {}
        self._begin("")

    def _begin(self, tenant: str) -> None:
        self._tenant = tenant
        self._lock = threading.Lock()
        self._ledgers: dict[str, _Ledger] = {}
        self._waiters = Waiters()
        self._listeners = Listeners()

    def __repr__(self) -> str:
        return f"<MemoryStore: {len(self._ledgers)} ledgers{f' of {self._tenant!r}' if self._tenant else ''}>"

    def tenant(self, name: str) -> MemoryStore:
        """The same store for one tenant: its ledgers alone. They are in a place of their own, so nothing can be mixed up."""
        if self._tenant:
            raise of_one_tenant(self._tenant)
        with self._lock:
            if checked_tenant(name) not in self._tenants:
                made = self._tenants[name] = copy.copy(self)
                made._begin(name)
            return self._tenants[name]

    @property
    def live(self) -> Listeners:
        """What carries words while they are said; see `live.py`."""
        return self._listeners

    async def append(
        self,
        ledger: str,
        expected: int,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        durable: bool = False,
        born: str = "",
    ) -> int:
        """Record the facts at `expected` and return the new length."""
        newest = newest_epoch(facts)
        with self._lock:
            if self._closed:
                raise closed_store()
            kept = self._ledgers.get(ledger)
            if expected:
                _check_birth(ledger, kept, born)
            found = len(kept.facts) if kept else 0
            if found != expected:
                raise LedgerConflict(ledger, expected, found)
            if kept is None:
                kept = self._create(ledger)
            if not expected:
                kept.born = born
            kept.facts.extend(facts)
            kept.epoch = max(kept.epoch, newest)
            kept.touched = next(self._tick)
            kept.keep(expected, contents)
            length = len(kept.facts)
        self._waiters.wake(ledger, length)
        return length

    async def read(self, ledger: str, start: int = 0, *, born: str = "") -> Sequence[AnyFact]:
        """The facts from `start` on."""
        if start < 0:
            raise bad_start(start)
        with self._lock:
            kept = self._find(ledger)
            _check_birth(ledger, kept, born)
            return kept.facts[start:] if kept else []

    async def born(self, ledger: str) -> str:
        """The birth name."""
        with self._lock:
            kept = self._find(ledger)
            return kept.born if kept and kept.facts else ""

    async def content(self, ledger: str, digest: str) -> bytes:
        """What was recorded under this digest."""
        with self._lock:
            kept = self._find(ledger)
            if kept is None:
                raise unknown_ledger(ledger)
            if digest not in kept.contents:
                raise no_content(ledger, digest)
            return kept.contents[digest][1]

    async def fork(
        self,
        ledger: str,
        at: int,
        new: str,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        born: str = "",
        of: str = "",
        expected: int | None = None,
    ) -> int:
        """Begin `new` with the first `at` facts of `ledger`, then `facts`."""
        newest = newest_epoch(facts)
        with self._lock:
            parent = self._existing(ledger, of)
            branch = self._find(new)
            taken = branch is not None and bool(branch.facts)
            check_fork(ledger, at, new, length=len(parent.facts), taken=taken, expected=expected)
            branch = branch or self._create(new)
            branch.born = born
            branch.facts = [*parent.facts[:at], *facts]
            branch.contents = {digest: kept for digest, kept in parent.contents.items() if kept[0] < at}
            branch.keep(at, contents)
            branch.epoch = max(branch.epoch, parent.epoch, newest)
            branch.origin, branch.shared = parent, at
            branch.touched = next(self._tick)
            length = len(branch.facts)
        self._waiters.wake(new, length)
        return length

    async def redact(self, ledger: str, erasing: Erases, *, born: str = "") -> Mapping[str, Erased]:
        """Erase words in the ledger, and in those that share them."""
        with self._lock:
            kept = self._existing(ledger, born)
            done = [(each, _erased(each, shared, erasing)) for each, shared in self._kin(kept)]
            dropped = find_unnamed_contents(erased for _, erased in done)
            for each, erased in done:
                each.erase(erased, dropped)
                if erased.added:
                    each.touched = next(self._tick)
            changed = {each.name: erased for each, erased in done if erased.replaced or erased.added}
            lengths = {name: len(self._ledgers[name].facts) for name in changed}
        for name, length in lengths.items():
            self._waiters.wake(name, length)
        return changed

    def _kin(self, kept: _Ledger) -> Iterator[tuple[_Ledger, int]]:
        """The ledger, and those that share facts with it by forks; how many facts each shares with it."""
        for each in self._ledgers.values():
            if shared := count_shared(kept, each, min(len(kept.facts), len(each.facts)), attrgetter("origin")):
                yield each, shared

    async def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, born: str = "") -> bool:
        """Remove the ledger and its children. What forks share lives on in them."""
        with self._lock:
            kept = self._find(ledger)
            _check_birth(ledger, kept, born)
            if kept is None or not kept.facts:
                return False
            family = [kept, *self._children(ledger)]
            check_lengths({each.name: len(each.facts) for each in family}, expected)
            for each in family:
                del self._ledgers[each.name]
                each.name = ""  # forks that name it as their parent see that it is gone
                each.facts, each.contents = [], {}
            return True

    async def children(self, ledger: str) -> Sequence[LedgerInfo]:
        """The ledgers of child sessions, at any depth."""
        with self._lock:
            if self._closed:
                raise closed_store()
            return [_info(kept) for kept in self._children(ledger)]

    def _children(self, ledger: str) -> list[_Ledger]:
        names = sorted(name for name in self._ledgers if is_child_of(name, ledger))
        return [kept for kept in map(self._ledgers.__getitem__, names) if kept.facts]

    async def list(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """The most recent ledgers first; those behind a line that was given before, to go on there."""
        with self._lock:
            if self._closed:
                raise closed_store()
            recent = sorted(self._ledgers.values(), key=attrgetter("touched"), reverse=True)
            full = [kept for kept in recent if kept.facts and (after is None or kept.touched < after.touched)]
            return [_info(kept) for kept in full[: max(limit, 0)]]

    async def unrested(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """The ledgers that have grown since a driver last rested there, and that nobody drives: the one that waits for longest first."""
        with self._lock:
            if self._closed:
                raise closed_store()
            seen = after.touched if after is not None else 0
            all_behind = (kept for kept in self._ledgers.values() if kept.touched > seen)
            waiting = [kept for kept in all_behind if len(kept.facts) > kept.rested and kept.held is None]
            waiting.sort(key=attrgetter("touched"))
            return [_info(kept) for kept in waiting[: max(limit, 0)]]

    async def lease(self, ledger: str) -> Lease | None:
        """Take the right to drive, or None while another holds it."""
        with self._lock:
            kept = self._find(ledger) or self._create(ledger)
            if kept.held is not None:
                return None
            kept.epoch = next_epoch(ledger, kept.epoch)
            kept.held = Lease(ledger, kept.epoch, kept.number)
            return kept.held

    async def release(self, lease: Lease, *, rested: int | None = None) -> None:
        """Give the right to drive back. Releasing a lease that is over is harmless."""
        with self._lock:
            kept = self._ledgers.get(lease.ledger)
            if kept is not None and kept.held == lease:
                kept.held = None
                kept.rested = kept.rested if rested is None else rested

    async def wait(self, ledger: str, position: int, timeout: float) -> bool:  # noqa: ASYNC109 - it is an answer, not an error
        """Wait for the ledger to grow beyond `position` facts."""

        async def length() -> int:
            return self._length(ledger)

        return await self._waiters.wait(ledger, position, timeout, length)

    def watch(self, ledger: str, position: int, moved: Callable[[int], None]) -> Callable[[], None]:
        """Be told whenever the ledger grows beyond `position` facts."""
        stop = self._waiters.watch(ledger, position, moved)
        try:
            self._waiters.wake(ledger, self._length(ledger))
        except BaseException:
            stop()
            raise
        return stop

    async def close(self) -> None:
        """Forget everything. Closing twice is harmless, and closing a tenant's store does nothing: it ends with the one it came from."""
        if not self._tenant:
            for store in (self, *self._tenants.values()):
                store._end()

    def _end(self) -> None:
        with self._lock:
            self._closed = True
            self._ledgers.clear()
        self._waiters.fail(closed_store())

    async def __aenter__(self) -> MemoryStore:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _length(self, ledger: str) -> int:
        with self._lock:
            kept = self._find(ledger)
            return len(kept.facts) if kept else 0

    def _find(self, ledger: str) -> _Ledger | None:
        if self._closed:
            raise closed_store()
        return self._ledgers.get(ledger)

    def _existing(self, ledger: str, born: str) -> _Ledger:
        kept = self._find(ledger)
        _check_birth(ledger, kept, born)
        if kept is None or not kept.facts:
            raise unknown_ledger(ledger)
        return kept

    def _create(self, ledger: str) -> _Ledger:
        kept = self._ledgers[ledger] = _Ledger(ledger, next(self._tick))
        return kept


def _info(kept: _Ledger) -> LedgerInfo:
    return LedgerInfo(kept.name, len(kept.facts), kept.facts[-1].at, kept.origin.name if kept.origin else "", kept.touched)


def _check_birth(ledger: str, kept: _Ledger | None, born: str) -> None:
    """Refuse whoever means a ledger that is not there any more."""
    length = len(kept.facts) if kept is not None else 0
    if born and (kept is None or not length or kept.born != born):
        raise not_born_so(ledger, length)


def _erased(kept: _Ledger, shared: int, erasing: Erases) -> Erased:
    digests = erasing.looks_at(kept.facts, shared) & kept.contents.keys()
    return erasing.erased(tuple(kept.facts), shared, {digest: kept.contents[digest][1] for digest in digests})
