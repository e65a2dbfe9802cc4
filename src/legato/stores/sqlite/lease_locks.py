"""Leases as file locks, which end with their process.

Each lease is a lock on one byte of one file, at the offset of the ledger's row. The kernel drops it when the holder's process ends, however
it ends, so another process can take over at once. The file stays empty. Deleting it while a session is driven would admit a second driver.

Within a process the file is opened once, whatever the number of stores, and a table has the locked bytes: POSIX locks do not exclude
within a process, and closing *any* descriptor of a file drops all of them. Linux's open-file-description locks are preferred, because
other code that opens and closes the file does not drop them. A forked child would inherit them, so it closes its copy of the descriptor
first of all.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import struct
import threading

from legato.errors import StoreError
from legato.private_files import PRIVATE_MODE, create_private_file
from legato.stores.contract import Lease, next_epoch
from legato.stores.sqlite import ledgers

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LOCK_TAKEN_ERRNOS = (errno.EACCES, errno.EAGAIN)


class LeaseLocks:
    """The leases of one store."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: LeaseFile | None = None
        self._leases: set[Lease] = set()

    def acquire(self, connection: sqlite3.Connection, ledger: str, acquired_leases: list[Lease]) -> Lease | None:
        """Take a lease, or return None while another driver has it. `acquired_leases` gets the lease, and has those of earlier runs.

        A job runs again if its transaction fails.
        """
        self.release_all(connection, acquired_leases)
        row = ledgers.find_or_create_row(connection, ledger)
        epoch = next_epoch(ledger, row.epoch)
        if not self._open_file().lock(row.id):
            return None
        lease = Lease(ledger, epoch, row.id)
        acquired_leases.append(lease)
        self._leases.add(lease)
        ledgers.save_epoch(connection, row, epoch)
        return lease

    def release_all(self, connection: sqlite3.Connection, acquired_leases: list[Lease]) -> None:
        """Release the leases of a job that has failed, or whose caller was cancelled."""
        while acquired_leases:
            self.release(acquired_leases.pop())

    def release(self, lease: Lease) -> bool:
        """Release a lease. Return False if this store did not hold it."""
        if lease not in self._leases:
            return False
        self._leases.discard(lease)
        if self._file is not None:
            self._file.unlock(lease.ledger_number)
        return True

    def is_held(self, row: int) -> bool:
        return self._open_file().is_held(row)

    def close(self) -> None:
        for lease in list(self._leases):
            self.release(lease)
        if self._file is not None:
            close_lease_file(self._file)
            self._file = None

    def _open_file(self) -> LeaseFile:
        if self._file is None or self._file.is_closed:
            self._leases.clear()
            self._file = open_lease_file(self._path)
        return self._file


class LeaseFile:
    """The lock file of one database, as this process has it open."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
        self._locked_rows: set[int] = set()
        self._lock = threading.Lock()
        self.user_count = 0
        self.is_closed = False

    def lock(self, row: int) -> bool:
        """Lock the byte of this row. Return False if another store or process has locked it."""
        with self._lock:
            if row in self._locked_rows:
                return False
            try:
                _lock(self._descriptor, row, take=True)
            except OSError as error:
                if error.errno in _LOCK_TAKEN_ERRNOS:
                    return False
                raise
            self._locked_rows.add(row)
            return True

    def is_held(self, row: int) -> bool:
        """Return True if this or another process holds the lock now. The check does not disturb a concurrent `lock`."""
        with self._lock:
            return row in self._locked_rows or _is_locked(self._descriptor, row)

    def unlock(self, row: int) -> None:
        with self._lock:
            if row in self._locked_rows:
                self._locked_rows.discard(row)
                _lock(self._descriptor, row, take=False)

    def close(self) -> None:
        """Close the file, which drops all locks of this process. A forked child has none."""
        self.is_closed = True
        self._lock = threading.Lock()
        self._locked_rows.clear()
        os.close(self._descriptor)


_open_files: dict[tuple[int, int], LeaseFile] = {}
_open_files_lock = threading.Lock()


def open_lease_file(database: str) -> LeaseFile:
    """Return the lock file of a database, open once in this process. It has the permissions of the database file."""
    if fcntl is None:
        raise StoreError("leases on a SQLite file need POSIX file locks", do="use Linux or macOS, or a MemoryStore")
    path = f"{database}-leases"
    with _open_files_lock:
        found = _open_files.get(_file_identity(path))
        if found is None:
            create_private_file(path, _file_mode(database))
            found = LeaseFile(path)
            _open_files[_file_identity(path)] = found
        found.user_count += 1
        return found


def close_lease_file(file: LeaseFile) -> None:
    """Stop using a lock file; its last user closes it."""
    with _open_files_lock:
        file.user_count -= 1
        for identity in [identity for identity, other in _open_files.items() if other is file and file.user_count == 0]:
            del _open_files[identity]
            file.close()


def _file_mode(path: str) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return PRIVATE_MODE


def _file_identity(path: str) -> tuple[int, int]:
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


def _close_in_child() -> None:
    global _open_files_lock
    _open_files_lock = threading.Lock()
    for file in _open_files.values():
        file.close()
    _open_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
