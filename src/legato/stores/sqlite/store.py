"""The store that keeps ledgers in one SQLite file.

One connection writes and one reads, so that a reader never waits for a writer's lock; each has a thread for slow operations
(`connection_thread.py`). Appends that wait for the same commit share it. `ledgers.py` has the rows, `ledger_index.py` the lists,
`database_file.py` the file, `lease_locks.py` the locks.
"""

from __future__ import annotations

import asyncio
import copy
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Literal, TypeVar, TypeVarTuple, Unpack

from legato.core.codec import encode_fact
from legato.core.facts import AnyFact
from legato.core.redaction import LedgerRedaction, Redactor
from legato.errors import BadInput, LegatoError
from legato.stores.contract import Lease, LedgerInfo, newest_epoch
from legato.stores.delta_channel import LocalDeltaChannel
from legato.stores.ledger_watchers import LedgerWatchers
from legato.stores.sqlite import ledger_index, ledgers
from legato.stores.sqlite.connection_thread import ConnectionJob, ConnectionThread, MustWait, Synchronous, run_in_snapshot
from legato.stores.sqlite.database_file import make_absolute, open_file, scrub, tenant_path, translate_error
from legato.stores.sqlite.lease_locks import LeaseLocks
from legato.stores.store_errors import check_tenant_name, closed_store_error, nested_tenant_error, start_position_error

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Durability = Literal["full", "effects", "process"]
POLL_INTERVAL_S = 0.03  # between checks for writes of other processes, while a ledger is watched
MAX_INLINE_WRITE_BYTES = 65_536  # written on the event loop; more is written on the thread
MAX_INLINE_READ_FACTS, MAX_INLINE_READ_BYTES = 1024, 262_144  # read on the event loop: 2 ms, less than the fold that follows takes
MAX_CONSECUTIVE_INLINE_OPERATIONS = 16  # operations on the event loop before other tasks get a turn

_SYNC_LEVELS: dict[Durability, tuple[Synchronous, Synchronous]] = {
    # level: (an ordinary append, an append with durable=True)
    "full": ("FULL", "FULL"),
    "effects": ("NORMAL", "FULL"),
    "process": ("OFF", "OFF"),
}


class SQLiteStore:
    """A store of sessions in a SQLite file, for any number of processes on one machine.

    `durability` sets what an acknowledged append survives:

    - `"full"`: everything, including a power cut. Every append waits for the disk (0.4 to 5 ms).
    - `"effects"` (default): every append survives the end of the process, however it ends (`kill -9`, out of memory, a crash).
      Appends made with `durable=True` (which the driver uses before it lets a tool start) wait for the disk, together with all
      appends before them, and survive a power cut or a crash of the operating system too. Appends after the last durable one may be
      lost then; the file stays intact, and the remaining facts are a prefix.
    - `"process"`: every append survives the end of the process. A power cut or a crash of the operating system may damage the
      file: nothing ever waits for the disk.

    Beside `path` there are `path-wal` and `path-shm` while the store is open, and `path-leases`, an empty file on whose bytes drivers
    hold locks. New files can be read by their owner alone. The file must be on a local disk.
    """

    def __init__(self, path: str | os.PathLike[str], durability: Durability = "effects", *, busy_timeout: float = 10.0) -> None:
        """Set up the store. The first operation opens the file. `busy_timeout`: how many seconds to wait for other processes' writes."""
        if not isinstance(path, (str, os.PathLike)) or os.fspath(path) in (":memory:", ""):
            raise BadInput("SQLiteStore keeps sessions in a file", found=f"path {path!r}", do="use MemoryStore() for memory")
        if not isinstance(durability, str) or durability not in _SYNC_LEVELS:
            raise BadInput(f"there is no durability {durability!r}", expected=" or ".join(map(repr, _SYNC_LEVELS)))
        self.durability = durability
        self._busy_timeout = busy_timeout
        self._sync, self._durable_sync = _SYNC_LEVELS[durability]
        self._closed = False
        self._tenant = ""
        self._tenants: dict[str, SQLiteStore] = {}
        self._tenants_lock = threading.Lock()
        self._set_path(make_absolute(path))

    def _set_path(self, path: str) -> None:
        self.path = path
        self._inline_operations = 0
        self._watchers = LedgerWatchers()
        self.delta_channel = LocalDeltaChannel()  # for this process alone; others see the recorded facts
        self._lease_locks = LeaseLocks(path)
        self._idle_positions: dict[int, int] = {}  # ledger number -> length at which it became idle; saved with the next write
        open_connection = partial(open_file, path, self._busy_timeout)
        translate = partial(translate_error, path=path)
        self._writer = ConnectionThread(open_connection, translate)
        self._reader = ConnectionThread(open_connection, translate, _GrowthPoller(self._watchers))

    def __repr__(self) -> str:
        return f"SQLiteStore({self.path!r}, durability={self.durability!r})"

    def tenant(self, name: str) -> SQLiteStore:
        """Return the same store for one tenant. Its ledgers are in a file of their own beside this one, so nothing can be mixed up."""
        if self._tenant:
            raise nested_tenant_error(self._tenant)
        with self._tenants_lock:
            if check_tenant_name(name) not in self._tenants:
                store = self._tenants[name] = copy.copy(self)
                store._tenant = name
                store._set_path(tenant_path(self.path, name))
            return self._tenants[name]

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
        bodies = [encode_fact(fact) for fact in facts]
        updated, epoch = facts[-1].at if facts else 0, newest_epoch(facts)
        bodies_by_digest = {digest: bytes(body) for digest, body in contents.items()} if contents else {}
        size = sum(map(len, bodies)) + sum(map(len, bodies_by_digest.values()))
        arguments = (ledger, expected, bodies, updated, bodies_by_digest, ledger_id, epoch)
        length = await self._write(ledgers.append, *arguments, durable=durable, size=size, is_small=size <= MAX_INLINE_WRITE_BYTES)
        self._watchers.notify(ledger, length)
        return length

    async def read(self, ledger: str, start: int = 0, *, ledger_id: str = "") -> Sequence[AnyFact]:
        """Return the facts from `start` on. If some are damaged, `DamagedStore.readable` is the number before them; see `salvage`."""
        if start < 0:
            raise start_position_error(start)
        small = await self._read_small(ledgers.read_small, ledger, start, ledger_id, MAX_INLINE_READ_FACTS, MAX_INLINE_READ_BYTES)
        return small if small is not None else await self._read(ledgers.read, ledger, start, ledger_id)

    async def ledger_id(self, ledger: str) -> str:
        """Return the ledger's id."""
        return await self._read_small(ledgers.read_ledger_id, ledger)

    async def salvage(self, ledger: str) -> Sequence[AnyFact]:
        """Return the facts before the first damage: all of them if there is none."""
        return await self._read(ledgers.salvage, ledger)

    async def verify(self) -> Sequence[str]:
        """Read the whole file. Return one line for each damage.

        A changed byte within a fact or content is always noticed when it is read. Ledgers that both indexes of names lack are found only
        here.
        """
        return await self._read(ledger_index.find_problems)

    async def content(self, ledger: str, digest: str) -> bytes:
        """Return the content with this digest."""
        return await self._read(ledgers.read_content, ledger, digest)

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
        """Create `new` with the first `at` facts of `ledger`, shared and not copied, then `facts`."""
        bodies = [encode_fact(fact) for fact in facts]
        updated, epoch = facts[-1].at if facts else 0, newest_epoch(facts)
        bodies_by_digest = {digest: bytes(body) for digest, body in contents.items()} if contents else {}
        size = sum(map(len, bodies)) + sum(map(len, bodies_by_digest.values()))
        arguments = (ledger, at, new, bodies, updated, bodies_by_digest, ledger_id, parent_ledger_id, expected, epoch)
        length = await self._write(ledgers.fork, *arguments, durable=True, size=size, is_small=size <= MAX_INLINE_WRITE_BYTES)
        self._watchers.notify(new, length)
        return length

    async def redact(self, ledger: str, redactor: Redactor, *, ledger_id: str = "") -> Mapping[str, LedgerRedaction]:
        """Erase text in the ledger, and in those that share it; then rewrite the file without it (see `scrub`)."""
        try:
            redactions = await self._write(ledgers.redact, ledger, redactor, ledger_id, durable=True, is_small=False)
            for name, (_, length) in redactions.items():
                self._watchers.notify(name, length)
            await self.scrub()
        except asyncio.CancelledError:
            if not self._closed:
                self._writer.post(ConnectionJob(scrub))  # the redaction may have been recorded, and then the bytes must go too
            raise
        return {name: redaction for name, (redaction, _) in redactions.items()}

    async def scrub(self) -> None:
        """Rewrite the file, so that no erased or deleted bytes are left in it.

        SQLite leaves old bytes in free pages and in its log. Scrubbing takes about as long, and as much space, as copying the file, and no
        other connection can write meanwhile. `redact` scrubs by itself.
        """
        if self._closed:
            raise closed_store_error()
        await self._writer.submit(scrub)

    async def children(self, ledger: str) -> Sequence[LedgerInfo]:
        """Return the ledgers of child sessions, at any depth."""
        return await self._read(ledger_index.list_children, ledger)

    async def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, ledger_id: str = "") -> bool:
        """Remove the ledger and its children, except for facts that forks share; those go with the last fork."""
        return await self._write(ledgers.delete, ledger, expected, ledger_id, is_small=False)

    async def list(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """Return ledgers, the most recent first. `after` is a line of an earlier result, to continue there."""
        return await self._read(ledger_index.list_recent, limit, after)

    async def lease(self, ledger: str) -> Lease | None:
        """Take the right to drive, or return None while another driver has it. It ends with `release`, `close`, or this process."""
        acquired: list[Lease] = []
        try:
            return await self._write(self._lease_locks.acquire, ledger, acquired)
        except BaseException:
            # The commit failed, or the caller was cancelled and the job may yet run: release its lease, after it.
            if not self._closed:
                self._writer.post(ConnectionJob(self._lease_locks.release_all, (acquired,)))
            raise

    async def release(self, lease: Lease, *, idle_at: int | None = None) -> None:
        """End a lease. Releasing a lease that has ended is harmless.

        This writes nothing: `idle_at` is saved with the next write of this store. If the process dies before that, `list_runnable` returns
        the ledger although it is idle.
        """
        if self._lease_locks.release(lease) and idle_at is not None:
            self._idle_positions[lease.ledger_number] = idle_at

    async def list_runnable(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """Return the ledgers that have grown since they were last idle and are not leased, the one with the oldest append first."""
        if self._idle_positions:
            await self._write(_do_nothing)

        def list_unleased(connection: sqlite3.Connection) -> list[LedgerInfo]:
            unleased = (info for row, info in ledger_index.list_runnable(connection, after) if not self._lease_locks.is_held(row))
            return list(islice(unleased, max(limit, 0)))

        return await self._read(list_unleased)

    async def wait(self, ledger: str, position: int, timeout: float) -> bool:  # noqa: ASYNC109 - a timeout is an answer here, not an error
        """Wait for the ledger to grow beyond `position` facts, here or in any other process."""
        # The job that reads the length also makes the reader's thread notice the watcher, and poll.
        return await self._watchers.wait(ledger, position, timeout, lambda: self._read(ledgers.read_length, ledger))

    def watch(self, ledger: str, position: int, on_growth: Callable[[int], None]) -> Callable[[], None]:
        """Call `on_growth` whenever the ledger grows beyond `position` facts, here or in any other process."""
        if self._closed:
            raise closed_store_error()
        stop_watching = self._watchers.watch(ledger, position, on_growth)
        # The first check for writes of others comes an interval later: most watchers have ended by then, and no thread was woken.
        first_check = asyncio.get_running_loop().call_later(POLL_INTERVAL_S, self._post_length_read, ledger)

        def stop() -> None:
            first_check.cancel()
            stop_watching()

        return stop

    def _post_length_read(self, ledger: str) -> None:
        if not self._closed:
            self._reader.post(
                ConnectionJob(_report_length, (self._watchers, ledger))
            )  # makes the reader's thread notice the watcher, and poll

    async def close(self) -> None:
        """Finish pending operations, then release the file, the threads and the leases. Closing twice is harmless.

        Closing a tenant's store does nothing: it is closed with the store that it came from.
        """
        if not self._tenant:
            for store in (self, *self._tenants.values()):
                await store._close()

    async def _close(self) -> None:
        if self._closed:
            return
        if self._idle_positions:
            with suppress(LegatoError):
                await self._write(_do_nothing)
        self._closed = True
        self._watchers.close(closed_store_error())
        await self._reader.stop()
        await self._writer.stop()  # closing the last connection merges the log into the file
        self._lease_locks.close()

    async def __aenter__(self) -> SQLiteStore:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _write(
        self,
        job: Callable[[sqlite3.Connection, Unpack[Ts]], T],
        *arguments: *Ts,
        durable: bool = False,
        size: int = 0,
        is_small: bool = True,
    ) -> T:
        if is_small and self._must_yield():
            await asyncio.sleep(0)
        if self._closed:
            raise closed_store_error()
        sync = self._durable_sync if durable else self._sync
        if is_small:
            with suppress(MustWait):
                if self._idle_positions:
                    return self._writer.run_inline(self._run_and_save_idle_positions, job, *arguments, sync=sync, size=size)
                return self._writer.run_inline(job, *arguments, sync=sync, size=size)
        return await self._writer.submit(self._run_and_save_idle_positions, job, *arguments, sync=sync, size=size)

    def _run_and_save_idle_positions(
        self, connection: sqlite3.Connection, job: Callable[[sqlite3.Connection, Unpack[Ts]], T], *arguments: *Ts
    ) -> T:
        """Run a job, and save the idle positions in the same transaction."""
        result = job(connection, *arguments)
        positions = self._idle_positions.copy()  # other threads may add to it meanwhile
        ledgers.save_idle_positions(connection, positions)
        for row in positions:
            self._idle_positions.pop(row, None)
        return result

    async def _read(self, job: Callable[[sqlite3.Connection, Unpack[Ts]], T], *arguments: *Ts) -> T:
        if self._closed:
            raise closed_store_error()
        return await self._reader.submit(run_in_snapshot, job, *arguments)

    async def _read_small(self, job: Callable[[sqlite3.Connection, Unpack[Ts]], T], *arguments: *Ts) -> T:
        """Read a small amount, on the event loop if that needs no waiting."""
        if self._must_yield():
            await asyncio.sleep(0)
        if self._closed:
            raise closed_store_error()
        with suppress(MustWait):
            return self._reader.run_inline(run_in_snapshot, job, *arguments)
        return await self._read(job, *arguments)

    def _must_yield(self) -> bool:
        """Return True if other tasks must get a turn: inline operations in a loop would block all of them.

        The store may be closed during that turn. Check `_closed` afterwards, because a thread that has ended answers no job.
        """
        self._inline_operations = (self._inline_operations + 1) % MAX_CONSECUTIVE_INLINE_OPERATIONS
        return not self._inline_operations


def _do_nothing(connection: sqlite3.Connection) -> None:
    """Do nothing: the idle positions are saved with this job."""


def _report_length(connection: sqlite3.Connection, watchers: LedgerWatchers, ledger: str) -> None:
    watchers.notify(ledger, ledgers.read_length(connection, ledger))


class _GrowthPoller:
    """A poller on the reader's thread, which notices writes of other processes and of other stores on the same file."""

    def __init__(self, watchers: LedgerWatchers) -> None:
        self._watchers = watchers
        self._data_version: object = None

    def __call__(self, connection: sqlite3.Connection) -> float | None:
        if not self._watchers:
            self._data_version = None
            return None
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version:
            self._data_version = version
            for ledger in self._watchers.ledgers():
                _report_length(connection, self._watchers, ledger)
        return POLL_INTERVAL_S
