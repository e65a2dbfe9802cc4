"""The store that keeps ledgers in memory.

Facts are immutable, so the store keeps the objects of its callers: appending encodes nothing and reading decodes nothing.
A fork copies references, never facts. One plain lock makes the store safe for several threads and event loops; it is held for
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
from legato.stores.contract import Lease, LedgerInfo, inherit_epoch, newest_epoch, next_epoch
from legato.stores.delta_channel import LocalDeltaChannel
from legato.stores.ledger_watchers import LedgerWatchers
from legato.stores.shared_facts import count_shared_facts, find_unreferenced_contents
from legato.stores.store_errors import (
    check_fork,
    check_lengths,
    check_tenant_name,
    closed_store_error,
    nested_tenant_error,
    start_position_error,
    unknown_content_error,
    unknown_ledger_error,
    wrong_ledger_error,
)

if TYPE_CHECKING:
    from legato.core.redaction import LedgerRedaction, Redactor


class _MemoryLedger:
    """One ledger: its facts, and its contents with the position at which each was recorded."""

    __slots__ = ("contents", "epoch", "facts", "idle_at", "lease", "ledger_id", "name", "number", "origin", "shared", "touched")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.ledger_id = ""
        self.facts: list[AnyFact] = []
        self.contents: dict[str, tuple[int, bytes]] = {}
        self.epoch = 0  # the newest of its leases, and of those that its facts name
        self.lease: Lease | None = None
        self.touched = 0
        self.idle_at = 0
        self.origin: _MemoryLedger | None = None
        self.shared = 0  # how many facts it shares with its origin

    def add_contents(self, position: int, contents: Mapping[str, bytes] | None) -> None:
        """Add the contents of facts from this position on, unless the ledger has them."""
        for digest, body in (contents or {}).items():
            self.contents.setdefault(digest, (position, bytes(body)))

    def apply_redaction(self, redaction: LedgerRedaction, dropped: frozenset[str]) -> None:
        """Replace and append facts, drop and add contents."""
        for position, fact in redaction.replacements.items():
            self.facts[position] = fact
        self.facts.extend(redaction.appended_facts)
        self.contents = {digest: body for digest, body in self.contents.items() if digest not in dropped}
        self.contents.update(redaction.new_contents)


class MemoryStore:
    """A store in memory, for tests, scripts and sessions that need not outlive the process."""

    def __init__(self) -> None:
        self._counter = count(1)
        self._inherited_epoch = 0  # of deleted ledgers: new ones begin above it
        self._closed = False
        self._tenants: dict[str, MemoryStore] = {}
        self._reset("")

    def _reset(self, tenant: str) -> None:
        self._tenant = tenant
        self._lock = threading.Lock()
        self._ledgers: dict[str, _MemoryLedger] = {}
        self._watchers = LedgerWatchers()
        self._delta_channel = LocalDeltaChannel()

    def __repr__(self) -> str:
        return f"<MemoryStore: {len(self._ledgers)} ledgers{f' of {self._tenant!r}' if self._tenant else ''}>"

    def tenant(self, name: str) -> MemoryStore:
        """Return the same store for one tenant. Its ledgers are in a mapping of their own, so nothing can be mixed up."""
        if self._tenant:
            raise nested_tenant_error(self._tenant)
        with self._lock:
            if check_tenant_name(name) not in self._tenants:
                store = self._tenants[name] = copy.copy(self)
                store._reset(name)
            return self._tenants[name]

    @property
    def delta_channel(self) -> LocalDeltaChannel:
        """The delta channel within this process."""
        return self._delta_channel

    async def append(
        self,
        ledger: str,
        expected: int,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        durable: bool = False,
        ledger_id: str = "",
    ) -> int:
        """Record the facts at `expected` and return the new length."""
        newest = newest_epoch(facts)
        with self._lock:
            if self._closed:
                raise closed_store_error()
            record = self._ledgers.get(ledger)
            if expected:
                _check_ledger_id(ledger, record, ledger_id)
            found = len(record.facts) if record else 0
            if found != expected:
                raise LedgerConflict(ledger, expected, found)
            if record is None:
                record = self._create(ledger)
            if not expected:
                record.ledger_id = ledger_id
            record.facts.extend(facts)
            record.epoch = max(record.epoch, newest)
            record.touched = next(self._counter)
            record.add_contents(expected, contents)
            length = len(record.facts)
        self._watchers.notify(ledger, length)
        return length

    async def read(self, ledger: str, start: int = 0, *, ledger_id: str = "") -> Sequence[AnyFact]:
        """Return the facts from `start` on."""
        if start < 0:
            raise start_position_error(start)
        with self._lock:
            record = self._get(ledger)
            _check_ledger_id(ledger, record, ledger_id)
            return record.facts[start:] if record else []

    async def ledger_id(self, ledger: str) -> str:
        """Return the ledger's id."""
        with self._lock:
            record = self._get(ledger)
            return record.ledger_id if record and record.facts else ""

    async def content(self, ledger: str, digest: str) -> bytes:
        """Return the content with this digest."""
        with self._lock:
            record = self._get(ledger)
            if record is None:
                raise unknown_ledger_error(ledger)
            if digest not in record.contents:
                raise unknown_content_error(ledger, digest)
            return record.contents[digest][1]

    async def fork(
        self,
        ledger: str,
        at: int,
        new: str,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        ledger_id: str = "",
        parent_ledger_id: str = "",
        expected: int | None = None,
    ) -> int:
        """Create `new` with the first `at` facts of `ledger`, then `facts`."""
        newest = newest_epoch(facts)
        with self._lock:
            parent = self._get_existing(ledger, parent_ledger_id)
            branch = self._get(new)
            taken = branch is not None and bool(branch.facts)
            check_fork(ledger, at, new, length=len(parent.facts), is_name_taken=taken, expected=expected)
            branch = branch or self._create(new)
            branch.ledger_id = ledger_id
            branch.facts = [*parent.facts[:at], *facts]
            branch.contents = {digest: content for digest, content in parent.contents.items() if content[0] < at}
            branch.add_contents(at, contents)
            branch.epoch = max(branch.epoch, parent.epoch, newest)
            branch.origin, branch.shared = parent, at
            branch.touched = next(self._counter)
            length = len(branch.facts)
        self._watchers.notify(new, length)
        return length

    async def redact(self, ledger: str, redactor: Redactor, *, ledger_id: str = "") -> Mapping[str, LedgerRedaction]:
        """Erase text in the ledger, and in those that share it."""
        with self._lock:
            record = self._get_existing(ledger, ledger_id)
            redactions = [(each, _plan_redaction(each, shared, redactor)) for each, shared in self._related(record)]
            dropped = find_unreferenced_contents(redaction for _, redaction in redactions)
            for each, redaction in redactions:
                each.apply_redaction(redaction, dropped)
                if redaction.appended_facts:
                    each.touched = next(self._counter)
            changed = {each.name: redaction for each, redaction in redactions if redaction.replacements or redaction.appended_facts}
            lengths = {name: len(self._ledgers[name].facts) for name in changed}
        for name, length in lengths.items():
            self._watchers.notify(name, length)
        return changed

    def _related(self, record: _MemoryLedger) -> Iterator[tuple[_MemoryLedger, int]]:
        """Yield the ledger and those that share facts with it by forks, with the number of facts that each shares with it."""
        for each in self._ledgers.values():
            if shared := count_shared_facts(record, each, min(len(record.facts), len(each.facts)), attrgetter("origin")):
                yield each, shared

    async def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, ledger_id: str = "") -> bool:
        """Remove the ledger and its children. Facts that forks share stay in the forks."""
        with self._lock:
            record = self._get(ledger)
            _check_ledger_id(ledger, record, ledger_id)
            if record is None or not record.facts:
                return False
            records = [record, *self._children(ledger)]
            check_lengths({each.name: len(each.facts) for each in records}, expected)
            for each in records:
                del self._ledgers[each.name]
                self._inherited_epoch = inherit_epoch(self._inherited_epoch, each.epoch)
                each.name = ""  # forks that name it as their parent see that it is gone
                each.facts, each.contents = [], {}
            return True

    async def children(self, ledger: str) -> Sequence[LedgerInfo]:
        """Return the ledgers of child sessions, at any depth."""
        with self._lock:
            if self._closed:
                raise closed_store_error()
            return [_make_info(record) for record in self._children(ledger)]

    def _children(self, ledger: str) -> list[_MemoryLedger]:
        names = sorted(name for name in self._ledgers if is_child_of(name, ledger))
        return [record for record in map(self._ledgers.__getitem__, names) if record.facts]

    async def list(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """Return ledgers, the most recent first. `after` is a line of an earlier result, to continue there."""
        with self._lock:
            if self._closed:
                raise closed_store_error()
            recent = sorted(self._ledgers.values(), key=attrgetter("touched"), reverse=True)
            full = [record for record in recent if record.facts and (after is None or record.touched < after.touched)]
            return [_make_info(record) for record in full[: max(limit, 0)]]

    async def list_runnable(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """Return the ledgers that have grown since they were last idle and are not leased, the one with the oldest append first."""
        with self._lock:
            if self._closed:
                raise closed_store_error()
            last_touched = after.touched if after is not None else 0
            later = (record for record in self._ledgers.values() if record.touched > last_touched)
            waiting = [record for record in later if len(record.facts) > record.idle_at and record.lease is None]
            waiting.sort(key=attrgetter("touched"))
            return [_make_info(record) for record in waiting[: max(limit, 0)]]

    async def lease(self, ledger: str) -> Lease | None:
        """Take the right to drive, or return None while another driver has it."""
        with self._lock:
            record = self._get(ledger) or self._create(ledger)
            if record.lease is not None:
                return None
            record.epoch = next_epoch(ledger, record.epoch)
            record.lease = Lease(ledger, record.epoch, record.number)
            return record.lease

    async def release(self, lease: Lease, *, idle_at: int | None = None) -> None:
        """End a lease. Releasing a lease that has ended is harmless."""
        with self._lock:
            record = self._ledgers.get(lease.ledger)
            if record is not None and record.lease == lease:
                record.lease = None
                record.idle_at = record.idle_at if idle_at is None else idle_at

    async def wait(self, ledger: str, position: int, timeout: float) -> bool:  # noqa: ASYNC109 - a timeout is an answer here, not an error
        """Wait for the ledger to grow beyond `position` facts."""

        async def read_length() -> int:
            return self._length(ledger)

        return await self._watchers.wait(ledger, position, timeout, read_length)

    def watch(self, ledger: str, position: int, on_growth: Callable[[int], None]) -> Callable[[], None]:
        """Call `on_growth` whenever the ledger grows beyond `position` facts, until the returned function is called."""
        stop_watching = self._watchers.watch(ledger, position, on_growth)
        try:
            self._watchers.notify(ledger, self._length(ledger))
        except BaseException:
            stop_watching()
            raise
        return stop_watching

    async def close(self) -> None:
        """Forget everything. Closing twice is harmless. A tenant's store is closed with the store that it came from, and not by itself."""
        if not self._tenant:
            for store in (self, *self._tenants.values()):
                store._close()

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            self._ledgers.clear()
        self._watchers.close(closed_store_error())

    async def __aenter__(self) -> MemoryStore:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _length(self, ledger: str) -> int:
        with self._lock:
            record = self._get(ledger)
            return len(record.facts) if record else 0

    def _get(self, ledger: str) -> _MemoryLedger | None:
        if self._closed:
            raise closed_store_error()
        return self._ledgers.get(ledger)

    def _get_existing(self, ledger: str, ledger_id: str) -> _MemoryLedger:
        record = self._get(ledger)
        _check_ledger_id(ledger, record, ledger_id)
        if record is None or not record.facts:
            raise unknown_ledger_error(ledger)
        return record

    def _create(self, ledger: str) -> _MemoryLedger:
        record = self._ledgers[ledger] = _MemoryLedger(ledger, next(self._counter))
        record.epoch = self._inherited_epoch
        return record


def _make_info(record: _MemoryLedger) -> LedgerInfo:
    return LedgerInfo(record.name, len(record.facts), record.facts[-1].at, record.origin.name if record.origin else "", record.touched)


def _check_ledger_id(ledger: str, record: _MemoryLedger | None, ledger_id: str) -> None:
    """Raise `UnknownLedger` if the caller means a ledger that is not there any more."""
    length = len(record.facts) if record is not None else 0
    if ledger_id and (record is None or not length or record.ledger_id != ledger_id):
        raise wrong_ledger_error(ledger, length)


def _plan_redaction(record: _MemoryLedger, shared: int, redactor: Redactor) -> LedgerRedaction:
    digests = redactor.find_needed_contents(record.facts, shared) & record.contents.keys()
    return redactor.redact(tuple(record.facts), shared, {digest: record.contents[digest][1] for digest in digests})
