"""The file of a store: opens it, rewrites it, and says what its failures mean.

Nothing is written into a file that is not ours: another program's database, or a store made by a newer Legato, is refused first.

SQLite tells a full disk as `SQLITE_FULL`, but a file-size limit, a quota, and a disk too full for the shared-memory file as one
of many I/O errors; and a folder without permission as "unable to open". So those two ask the operating system what is the case.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from hashlib import sha256
from pathlib import Path

from legato.errors import DamagedStore, LegatoError, NewerFormat, StoreError, StoreFull, StoreLocked, StoreReadOnly
from legato.private_files import create_private
from legato.stores.refusals import never_released
from legato.stores.sqlite_ledgers import SCHEMA

APPLICATION_ID = 0x4C47544F  # "LGTO", in the file's header, where `file` and SQLite's own tools show it
DEVELOPMENT_ID = 0x4C474154  # of files that were made before the first release
VERSION = 1
"""The schema. A later one has the next number, and `_make_store` the statements that lead to it."""


def open_file(path: str, busy_timeout: float) -> sqlite3.Connection:
    """A connection to the store at `path`, which is made if there is none."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    create_private(path)
    connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, check_same_thread=False)  # one at a time, by a lock
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        connection.execute("BEGIN")  # look at one moment: another process may be making it a store
        version = _version(connection, path)
        connection.execute("COMMIT")
        if not version or _pragma(connection, "journal_mode") != "wal":
            _use_wal(connection, busy_timeout)
        if not version:
            _make_store(connection, path)
        return connection
    except BaseException:
        connection.close()
        raise


def _version(connection: sqlite3.Connection, path: str) -> int:
    """The version of a store that we can use; 0: an empty file. Anything else is refused."""
    application, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    if application == APPLICATION_ID:
        if not isinstance(version, int) or version < 1:
            raise DamagedStore(f"{path} is a store of schema {version}, which there never was", do="restore the file from a copy")
        if version > VERSION:
            raise NewerFormat(
                f"{path} is a store of schema {version}, made by a newer Legato",
                expected=f"schema {VERSION} or older",
                found=f"schema {version}",
                do="upgrade legato to use it; nothing was changed",
            )
        return version
    if application == DEVELOPMENT_ID:
        raise never_released(path, f"schema {version} of a development version")
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or objects:
        raise StoreError(
            f"{path} is a SQLite file of another program",
            expected="a store made by Legato, or no file",
            found=f"application id {application}, {objects} tables and indexes",
            do="give SQLiteStore a path of its own; nothing was changed",
        )
    return 0


def _make_store(connection: sqlite3.Connection, path: str) -> None:
    """Make an empty file a store: whole or not at all, whoever else tries."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _version(connection, path):  # another process may have been quicker
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _use_wal(connection: sqlite3.Connection, busy_timeout: float) -> None:
    """Switch to the write-ahead log. Alone among statements this does not wait for a lock, so we do."""
    until = time.monotonic() + busy_timeout
    while True:
        try:
            if connection.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",):
                return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        if time.monotonic() > until:
            raise StoreError(
                "this file system cannot hold a write-ahead log",
                do="keep the store on a local disk: network file systems lack what SQLite needs",
            )
        time.sleep(0.005)


def scrub(connection: sqlite3.Connection) -> None:
    """Write the file anew and cut its log off. `StoreLocked` if others use it all the time.

    What a commit replaces is still in the file: in the log, in pages that are free, and in what is free within a page that was divided.
    """
    (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
    until = time.monotonic() + patience / 1000
    connection.execute("VACUUM")
    while True:
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not busy:
            return
        if time.monotonic() > until:
            raise StoreLocked(
                "what was erased is gone from every ledger, and its bytes are still in the log, which somebody else is reading",
                do="await store.scrub() when nobody else uses the file",
            )
        time.sleep(0.005)


def _pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.fspath(path))


def tenants_file(path: str, tenant: str) -> str:
    """Where a tenant's ledgers are: the name of the tenant is in that of the file, so written that no two can be taken for one.

    Some file systems do not tell capitals from small letters, and none takes long names. What SQLite and leases keep beside a file begins
    with a dash, so no tenant's name has one.
    """
    plain = "".join(char if char in _PLAIN else "".join(f"%{byte:02x}" for byte in char.encode()) for char in tenant)
    if len(plain) > 120:
        plain = f"{plain[:80]}~{sha256(tenant.encode()).hexdigest()[:32]}"
    return f"{path}.{plain}"


_PLAIN = "abcdefghijklmnopqrstuvwxyz0123456789_"

_GROWING_FAILED = {
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
}
_LITTLE = 1 << 18  # bytes; a database page and the 32 KiB shared-memory file must fit in what is left


def in_our_words(error: Exception, path: str) -> LegatoError:
    """The `StoreError` that a failure of SQLite or of the file system means, with that failure as its cause."""
    if isinstance(error, LegatoError):
        return error
    told = _told(error, path)
    told.__cause__ = error
    return told


def _told(error: Exception, path: str) -> StoreError:
    if isinstance(error, OSError):
        return _of_file_system(error, path)
    code = getattr(error, "sqlite_errorcode", None) or 0
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_FULL or (code in _GROWING_FAILED and _no_room(path)):
        return StoreFull(
            f"there is no room left for {path}",
            found=str(error),
            do="free some space and try again; nothing of this append was recorded",
        )
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLocked(
            f"another program holds {path} locked",
            found=str(error),
            do="try again, find the program that writes for so long, or give SQLiteStore a larger busy_timeout",
        )
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or (primary == sqlite3.SQLITE_CANTOPEN and _forbidden(path)):
        return StoreReadOnly(f"{path} cannot be written", found=str(error), do="check the permissions of the file and its folder")
    # All keys are ours, so a row that is already there means that its ledger's length was changed behind our back.
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT) or "decode to UTF-8" in str(error):
        return _damaged(path, str(error))
    return StoreError(f"SQLite could not use {path}", found=str(error), do="see the cause; nothing of this was recorded")


def _damaged(path: str, found: str) -> DamagedStore:
    return DamagedStore(f"{path} is damaged, or is no store of Legato's", found=found, do="restore the file from a copy")


def _of_file_system(error: OSError, path: str) -> StoreError:
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return StoreReadOnly(f"{path} cannot be written", found=str(error), do="check the permissions of the file and its folder")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"there is no room left for {path}", found=str(error), do="free some space and try again")
    return StoreError(f"{path} cannot be opened", found=str(error), do="check the path")


def _no_room(path: str) -> bool:
    try:
        if shutil.disk_usage(os.path.dirname(path)).free < _LITTLE:
            return True
        import resource  # not on Windows

        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        sizes = [os.path.getsize(path + suffix) for suffix in ("", "-wal") if os.path.exists(path + suffix)]
        return limit != resource.RLIM_INFINITY and max(sizes, default=0) + _LITTLE > limit
    except (OSError, ImportError):
        return False


def _forbidden(path: str) -> bool:
    folder = os.path.dirname(path)
    return os.path.isdir(folder) and not os.path.isdir(path) and not (os.access(path, os.W_OK) and os.access(folder, os.W_OK))
