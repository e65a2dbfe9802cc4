"""Leases: locks that die with their holder.

Each lease is a lock on one byte of one file, at the offset of the ledger's row. The kernel drops it when its holder's process
ends, however it ends, so another process can take over at once. The file stays empty; deleting it while somebody drives would
let a second one in.

Within a process the file is opened once, whatever the number of stores, and a table says which bytes are taken: POSIX locks do
not exclude within a process, and closing *any* descriptor of a file drops all of them. Linux's open-file-description locks are
preferred, because code that opens and closes the file behind our back does not drop them. They would pass to a forked child, so
a child closes its copy of the descriptor first of all.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import struct
import threading

from legato.errors import StoreError
from legato.private_files import PRIVATE, create_private
from legato.stores import sqlite_ledgers as ledgers
from legato.stores.contract import Lease, next_epoch

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LOCKED_BY_OTHERS = (errno.EACCES, errno.EAGAIN)


class Leases:
    """The leases that one store holds."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: LeaseFile | None = None
        self._held: set[Lease] = set()

    def take(self, connection: sqlite3.Connection, ledger: str, taken: list[Lease]) -> Lease | None:
        """Take a lease, or return None while another holds it. `taken`: what an earlier run of this job took, and what it takes now.

        A job is run again if its transaction fails.
        """
        self.give_all_back(connection, taken)
        row = ledgers.row_to_lease(connection, ledger)
        epoch = next_epoch(ledger, row.epoch)
        if not self._opened().take(row.id):
            return None
        # The ledger's number is never used again, so the lease of a deleted ledger is not that of another with its name and epoch.
        lease = Lease(ledger, epoch, row.id)
        taken.append(lease)
        self._held.add(lease)
        ledgers.save_epoch(connection, row, epoch)
        return lease

    def give_all_back(self, connection: sqlite3.Connection, taken: list[Lease]) -> None:
        """Give back what a job took that has failed, or that nobody waits for any more."""
        while taken:
            self.give_back(taken.pop())

    def give_back(self, lease: Lease) -> bool:
        """Whether it was held."""
        if lease not in self._held:
            return False
        self._held.discard(lease)
        if self._file is not None:
            self._file.give_back(lease.number)
        return True

    def is_held(self, row: int) -> bool:
        return self._opened().is_held(row)

    def close(self) -> None:
        for lease in list(self._held):
            self.give_back(lease)
        if self._file is not None:
            close_lease_file(self._file)
            self._file = None

    def _opened(self) -> LeaseFile:
        if self._file is None or self._file.gone:
            self._held.clear()
            self._file = open_lease_file(self._path)
        return self._file


class LeaseFile:
    """The lock file of one database, as this process has it open."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        self._held: set[int] = set()
        self._lock = threading.Lock()
        self.users = 0
        self.gone = False

    def take(self, row: int) -> bool:
        """Lock the byte of this row, or return False because another store or process holds it."""
        with self._lock:
            if row in self._held:
                return False
            try:
                _lock(self._descriptor, row, take=True)
            except OSError as error:
                if error.errno in _LOCKED_BY_OTHERS:
                    return False
                raise
            self._held.add(row)
            return True

    def is_held(self, row: int) -> bool:
        """Whether this or another process holds it now. Nobody who takes it meanwhile is disturbed."""
        with self._lock:
            return row in self._held or _is_locked(self._descriptor, row)

    def give_back(self, row: int) -> None:
        with self._lock:
            if row in self._held:
                self._held.discard(row)
                _lock(self._descriptor, row, take=False)

    def close(self) -> None:
        """After this it holds nothing; in a forked child it never did."""
        self.gone = True
        self._lock = threading.Lock()
        self._held.clear()
        os.close(self._descriptor)


_open: dict[tuple[int, int], LeaseFile] = {}
_opening = threading.Lock()


def open_lease_file(database: str) -> LeaseFile:
    """The lock file of this database: the one already open in this process, if there is one. Who may use the one may use the other."""
    if fcntl is None:
        raise StoreError("leases on a SQLite file need POSIX file locks", do="use Linux or macOS, or a MemoryStore")
    path = f"{database}-leases"
    with _opening:
        found = _open.get(_identity(path))
        if found is None:
            create_private(path, _mode(database))
            found = LeaseFile(path)
            _open[_identity(path)] = found
        found.users += 1
        return found


def close_lease_file(file: LeaseFile) -> None:
    """Let go of it; the last user closes it."""
    with _opening:
        file.users -= 1
        for identity in [identity for identity, other in _open.items() if other is file and file.users == 0]:
            del _open[identity]
            file.close()


def _mode(path: str) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return PRIVATE


def _identity(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return (-1, -1)
    return (status.st_dev, status.st_ino)


def _lock(descriptor: int, row: int, *, take: bool) -> None:
    if hasattr(fcntl, "F_OFD_SETLK"):
        kind = fcntl.F_WRLCK if take else fcntl.F_UNLCK
        # struct flock as Linux has it: type, whence, start, length, and a pid that must be 0
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi0q", kind, os.SEEK_SET, row, 1, 0))
    else:
        fcntl.lockf(descriptor, (fcntl.LOCK_EX | fcntl.LOCK_NB) if take else fcntl.LOCK_UN, 1, row, os.SEEK_SET)


def _is_locked(descriptor: int, row: int) -> bool:
    if hasattr(fcntl, "F_OFD_GETLK"):
        asked = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, row, 1, 0)
        kind: int = struct.unpack("hhqqi0q", fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))[0]
        return kind != fcntl.F_UNLCK
    try:
        _lock(descriptor, row, take=True)
    except OSError:
        return True
    _lock(descriptor, row, take=False)
    return False


def _forget_in_child() -> None:
    global _opening
    _opening = threading.Lock()
    for file in _open.values():
        file.close()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
