"""Ledgers in one SQLite file: which of its operations must be on the disk, and when.

One connection writes and one reads, so that a reader never waits for a writer's lock; each has a thread for what takes time
(`sqlite_thread.py`). Appends that wait for the same commit share it. `sqlite_ledgers.py` has the rows, `sqlite_lines.py` the lists,
`sqlite_file.py` the file, `sqlite_leases.py` the locks.
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

from legato.core.codec import encode
from legato.core.facts import AnyFact
from legato.core.redaction import Erased, Erases
from legato.errors import BadInput, LegatoError
from legato.stores import sqlite_ledgers as ledgers
from legato.stores import sqlite_lines as lines
from legato.stores.contract import Lease, LedgerInfo, newest_epoch
from legato.stores.live import Listeners, Waiters
from legato.stores.refusals import bad_start, checked_tenant, closed_store, of_one_tenant
from legato.stores.sqlite_file import absolute, in_our_words, open_file, scrub, tenants_file
from legato.stores.sqlite_leases import Leases
from legato.stores.sqlite_thread import ConnectionThread, Job, MustWait, Synchronous, at_one_moment

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Durability = Literal["full", "effects", "process"]
POLL = 0.03  # seconds between looks at what other processes wrote, while somebody waits
SMALL = 65_536  # bytes that are written while the event loop waits for it
FEW, LITTLE = 1024, 262_144  # facts, and their bytes, that are read so: 2 ms, and less than folding them takes, which follows
TURNS = 16  # how many such operations may follow one another before everybody else in the event loop has a turn

_SYNC: dict[Durability, tuple[Synchronous, Synchronous]] = {
    # level: (an ordinary append, an append with durable=True)
    "full": ("FULL", "FULL"),
    "effects": ("NORMAL", "FULL"),
    "process": ("OFF", "OFF"),
}


class SQLiteStore:
    """Sessions in a file, for any number of processes on one machine.

    `durability` says what an acknowledged append survives:

    - `"full"`: everything, a power cut included. Every append waits for the disk (0.4 to 5 ms).
    - `"effects"` (default): every append survives the end of the process, however it ends (`kill -9`, out of memory, a crash).
      Appends made with `durable=True` (which the driver uses before it lets a tool start) wait for the disk, together with all
      appends before them, and survive a power cut or a crash of the operating system too. Those after the last durable one may be
      lost in such a cut; the file stays whole, and what is left is a prefix.
    - `"process"`: every append survives the end of the process. A power cut or a crash of the operating system may damage the
      file: nothing ever waits for the disk.

    Beside `path` there are `path-wal` and `path-shm` while the store is open, and `path-leases`, an empty file whose bytes are
    locked by those who drive. New files can be read by their owner alone. The file must be on a local disk.
    """

    def __init__(self, path: str | os.PathLike[str], durability: Durability = "effects", *, busy_timeout: float = 10.0) -> None:
        """Nothing is opened before the first operation. `busy_timeout`: how many seconds to wait for other processes' writes."""
        if not isinstance(path, (str, os.PathLike)) or os.fspath(path) in (":memory:", ""):
            raise BadInput("SQLiteStore keeps sessions in a file", found=f"path {path!r}", do="use MemoryStore() for memory")
        if not isinstance(durability, str) or durability not in _SYNC:
            raise BadInput(f"there is no durability {durability!r}", expected=" or ".join(map(repr, _SYNC)))
        self.durability = durability
        self._busy_timeout = busy_timeout
        self._sync, self._durable_sync = _SYNC[durability]
        self._closed = False
        self._tenant = ""
        self._tenants: dict[str, SQLiteStore] = {}
        self._adding = threading.Lock()
        self._use(absolute(path))

    def _use(self, path: str) -> None:
        self.path = path
        self._turn = 0
        self._waiters = Waiters()
        self.live = Listeners()  # in this process; others are told by the ledger
        self._leases = Leases(path)
        self._rests: dict[int, int] = {}  # where drivers came to rest, by the number of the ledger: recorded with whatever is written next
        opening = partial(open_file, path, self._busy_timeout)
        told = partial(in_our_words, path=path)
        self._writer = ConnectionThread(opening, told)
        self._reader = ConnectionThread(opening, told, _Poller(self._waiters))

    def __repr__(self) -> str:
        return f"SQLiteStore({self.path!r}, durability={self.durability!r})"

    def tenant(self, name: str) -> SQLiteStore:
        """The same store for one tenant: its ledgers alone. They are in a file of their own beside this one, so nothing can be mixed up."""
        if self._tenant:
            raise of_one_tenant(self._tenant)
        with self._adding:
            if checked_tenant(name) not in self._tenants:
                made = self._tenants[name] = copy.copy(self)
                made._tenant = name
                made._use(tenants_file(self.path, name))
            return self._tenants[name]

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
        bodies = [encode(fact) for fact in facts]
        updated, epoch = facts[-1].at if facts else 0, newest_epoch(facts)
        kept = {digest: bytes(body) for digest, body in contents.items()} if contents else {}
        size = sum(map(len, bodies)) + sum(map(len, kept.values()))
        given = (ledger, expected, bodies, updated, kept, born, epoch)
        length = await self._write(ledgers.append, *given, durable=durable, size=size, small=size <= SMALL)
        self._waiters.wake(ledger, length)
        return length

    async def read(self, ledger: str, start: int = 0, *, born: str = "") -> Sequence[AnyFact]:
        """The facts from `start` on. If some are damaged, `DamagedStore.readable` says how many come before; see `salvage`."""
        if start < 0:
            raise bad_start(start)
        few = await self._look(ledgers.read_few, ledger, start, born, FEW, LITTLE)
        return few if few is not None else await self._read(ledgers.read, ledger, start, born)

    async def born(self, ledger: str) -> str:
        """The birth name."""
        return await self._look(ledgers.born, ledger)

    async def salvage(self, ledger: str) -> Sequence[AnyFact]:
        """The facts that come before the first damage: all of them, if there is none."""
        return await self._read(ledgers.salvage, ledger)

    async def verify(self) -> Sequence[str]:
        """Read the whole file and say what is wrong with it, one line each; nothing if it is sound.

        A changed byte within a fact or content is always noticed when that is read. Ledgers that both indexes of names lack, only this
        finds.
        """
        return await self._read(lines.problems)

    async def content(self, ledger: str, digest: str) -> bytes:
        """What was recorded under this digest."""
        return await self._read(ledgers.content, ledger, digest)

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
        """Begin `new` with the first `at` facts of `ledger`, shared and not copied, then `facts`."""
        bodies = [encode(fact) for fact in facts]
        updated, epoch = facts[-1].at if facts else 0, newest_epoch(facts)
        kept = {digest: bytes(body) for digest, body in contents.items()} if contents else {}
        size = sum(map(len, bodies)) + sum(map(len, kept.values()))
        given = (ledger, at, new, bodies, updated, kept, born, of, expected, epoch)
        length = await self._write(ledgers.fork, *given, durable=True, size=size, small=size <= SMALL)
        self._waiters.wake(new, length)
        return length

    async def redact(self, ledger: str, erasing: Erases, *, born: str = "") -> Mapping[str, Erased]:
        """Erase words in the ledger, and in those that share them; then rewrite the file without them (see `scrub`)."""
        try:
            done = await self._write(ledgers.redact, ledger, erasing, born, durable=True, small=False)
            for name, (_, length) in done.items():
                self._waiters.wake(name, length)
            await self.scrub()
        except asyncio.CancelledError:
            if not self._closed:
                self._writer.post(Job(scrub))  # it may have been recorded, and then the bytes have to go
            raise
        return {name: erased for name, (erased, _) in done.items()}

    async def scrub(self) -> None:
        """Rewrite the file, so that nothing is left in it of what was erased or deleted.

        SQLite leaves old bytes in pages that it has free, and in its log. This takes about as long as copying the file, and as much
        room, and nobody else can write meanwhile. `redact` does it by itself.
        """
        if self._closed:
            raise closed_store()
        await self._writer.submit(scrub)

    async def children(self, ledger: str) -> Sequence[LedgerInfo]:
        """The ledgers of child sessions, at any depth."""
        return await self._read(lines.children, ledger)

    async def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, born: str = "") -> bool:
        """Remove the ledger and its children, except for what forks share; that goes with the last of them."""
        return await self._write(ledgers.delete, ledger, expected, born, small=False)

    async def list(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """The most recent ledgers first; those behind a line that was given before, to go on there."""
        return await self._read(lines.recent, limit, after)

    async def lease(self, ledger: str) -> Lease | None:
        """Take the right to drive, or None while another holds it. It ends with `release`, `close`, or this process."""
        taken: list[Lease] = []
        try:
            return await self._write(self._leases.take, ledger, taken)
        except BaseException:
            # The commit failed, or the caller was cancelled and the job may yet run: give back whatever it took, after it.
            if not self._closed:
                self._writer.post(Job(self._leases.give_all_back, (taken,)))
            raise

    async def release(self, lease: Lease, *, rested: int | None = None) -> None:
        """Give the right to drive back. Releasing a lease that is over is harmless.

        It writes nothing: that a driver came to rest is recorded with what this store writes next. If nothing is, because the process dies
        first, the ledger is named by `unrested` although it rests.
        """
        if self._leases.give_back(lease) and rested is not None:
            self._rests[lease.number] = rested

    async def unrested(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """The ledgers that have grown since a driver last rested there, and that nobody drives: the one that waits for longest first."""
        if self._rests:
            await self._write(_nothing)

        def found(connection: sqlite3.Connection) -> list[LedgerInfo]:
            waiting = (info for row, info in lines.unrested(connection, after) if not self._leases.is_held(row))
            return list(islice(waiting, max(limit, 0)))

        return await self._read(found)

    async def wait(self, ledger: str, position: int, timeout: float) -> bool:  # noqa: ASYNC109 - it is an answer, not an error
        """Wait for the ledger to grow beyond `position` facts, here or in any other process."""
        # The job that looks at the length also makes the reader's thread see that somebody waits, and poll.
        return await self._waiters.wait(ledger, position, timeout, lambda: self._read(ledgers.length, ledger))

    def watch(self, ledger: str, position: int, moved: Callable[[int], None]) -> Callable[[], None]:
        """Be told whenever the ledger grows beyond `position` facts, here or in any other process."""
        if self._closed:
            raise closed_store()
        stop = self._waiters.watch(ledger, position, moved)
        # The first look at what others wrote comes when the second would: most who watch have ended by then, and no thread was woken.
        looking = asyncio.get_running_loop().call_later(POLL, self._look_for, ledger)

        def end() -> None:
            looking.cancel()
            stop()

        return end

    def _look_for(self, ledger: str) -> None:
        if not self._closed:
            self._reader.post(Job(_tell_length, (self._waiters, ledger)))  # with it the reader's thread sees that somebody watches

    async def close(self) -> None:
        """Finish what was asked for, then let go of the file, the threads and the leases. Closing twice is harmless.

        Closing a tenant's store does nothing: it ends with the one it came from.
        """
        if not self._tenant:
            for store in (self, *self._tenants.values()):
                await store._end()

    async def _end(self) -> None:
        if self._closed:
            return
        if self._rests:
            with suppress(LegatoError):
                await self._write(_nothing)
        self._closed = True
        self._waiters.fail(closed_store())
        await self._reader.stop()
        await self._writer.stop()  # the last connection to the file brings the log into it
        self._leases.close()

    async def __aenter__(self) -> SQLiteStore:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _write(
        self,
        job: Callable[[sqlite3.Connection, Unpack[Ts]], T],
        *given: *Ts,
        durable: bool = False,
        size: int = 0,
        small: bool = True,
    ) -> T:
        if small and self._is_turn_over():
            await asyncio.sleep(0)
        if self._closed:
            raise closed_store()
        sync = self._durable_sync if durable else self._sync
        if small:
            with suppress(MustWait):
                if self._rests:
                    return self._writer.at_once(self._and_rests, job, *given, sync=sync, size=size)
                return self._writer.at_once(job, *given, sync=sync, size=size)
        return await self._writer.submit(self._and_rests, job, *given, sync=sync, size=size)

    def _and_rests(self, connection: sqlite3.Connection, job: Callable[[sqlite3.Connection, Unpack[Ts]], T], *given: *Ts) -> T:
        """Run a job, and record where drivers came to rest."""
        result = job(connection, *given)
        rests = self._rests.copy()  # others may add to it meanwhile
        ledgers.came_to_rest(connection, rests)
        for row in rests:
            self._rests.pop(row, None)
        return result

    async def _read(self, job: Callable[[sqlite3.Connection, Unpack[Ts]], T], *given: *Ts) -> T:
        if self._closed:
            raise closed_store()
        return await self._reader.submit(at_one_moment, job, *given)

    async def _look(self, job: Callable[[sqlite3.Connection, Unpack[Ts]], T], *given: *Ts) -> T:
        """Read something small."""
        if self._is_turn_over():
            await asyncio.sleep(0)
        if self._closed:
            raise closed_store()
        with suppress(MustWait):
            return self._reader.at_once(at_one_moment, job, *given)
        return await self._read(job, *given)

    def _is_turn_over(self) -> bool:
        """What happens at once lets nobody else run: whoever asks again and again would be alone, and wait for them in vain.

        The store may be closed while others have their turn: look afterwards, for nobody answers what is asked of a thread that has ended.
        """
        self._turn = (self._turn + 1) % TURNS
        return not self._turn


def _nothing(connection: sqlite3.Connection) -> None:
    """What is to be written besides is."""


def _tell_length(connection: sqlite3.Connection, waiters: Waiters, ledger: str) -> None:
    waiters.wake(ledger, ledgers.length(connection, ledger))


class _Poller:
    """Notices what other processes, or other stores on the same file, wrote. Runs on the reader's thread, between jobs."""

    def __init__(self, waiters: Waiters) -> None:
        self._waiters = waiters
        self._seen: object = None

    def __call__(self, connection: sqlite3.Connection) -> float | None:
        if not self._waiters:
            self._seen = None
            return None
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._seen:
            self._seen = version
            for ledger in self._waiters.ledgers():
                _tell_length(connection, self._waiters, ledger)
        return POLL
