"""The database file of a SQLite store: opening, rewriting, and the translation of its errors.

Nothing is written into a file of another program or of a newer Legato: it is refused first.

SQLite reports a full disk as `SQLITE_FULL`, but a file-size limit, a quota, and a disk too full for the shared-memory file as one of many
I/O errors, and a folder without permission as "unable to open". For those errors the operating system is asked for the cause.
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
from legato.private_files import create_private_file
from legato.stores.sqlite.ledgers import SCHEMA
from legato.stores.store_errors import unreleased_format_error

APPLICATION_ID = 0x4C47544F  # "LGTO", in the file's header, where `file` and SQLite's own tools show it
DEVELOPMENT_ID = 0x4C474154  # of files that were made before the first release
SCHEMA_VERSION = 1
"""The version of the schema. A later schema has the next number, and `_create_store` the statements that lead to it."""


def open_file(path: str, busy_timeout: float) -> sqlite3.Connection:
    """Open a connection to the store at `path`, and create the store if there is none."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    create_private_file(path)
    connection = sqlite3.connect(
        path, timeout=busy_timeout, isolation_level=None, check_same_thread=False
    )  # a lock admits one thread at a time
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        connection.execute("BEGIN")  # one snapshot: another process may be creating the store
        version = _read_schema_version(connection, path)
        connection.execute("COMMIT")
        if not version or _read_pragma(connection, "journal_mode") != "wal":
            _enable_wal(connection, busy_timeout)
        if not version:
            _create_store(connection, path)
        return connection
    except BaseException:
        connection.close()
        raise


def _read_schema_version(connection: sqlite3.Connection, path: str) -> int:
    """Return the schema version of a usable store, 0 for an empty file. Raise for any other file."""
    application, version = _read_pragma(connection, "application_id"), _read_pragma(connection, "user_version")
    if application == APPLICATION_ID:
        if not isinstance(version, int) or version < 1:
            raise DamagedStore(f"{path} has schema {version}, which never existed", do="restore the file from a copy")
        if version > SCHEMA_VERSION:
            raise NewerFormat(
                f"{path} has schema {version}, made by a newer Legato",
                expected=f"schema {SCHEMA_VERSION} or older",
                found=f"schema {version}",
                do="upgrade legato to use it; nothing was changed",
            )
        return version
    if application == DEVELOPMENT_ID:
        raise unreleased_format_error(path, f"schema {version} of a development version")
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or objects:
        raise StoreError(
            f"{path} is a SQLite file of another program",
            expected="a store made by Legato, or no file",
            found=f"application id {application}, {objects} tables and indexes",
            do="give SQLiteStore a path of its own; nothing was changed",
        )
    return 0


def _create_store(connection: sqlite3.Connection, path: str) -> None:
    """Create a store in an empty file, completely or not at all, even if other processes try it too."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _read_schema_version(connection, path):  # another process may have been faster
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _enable_wal(connection: sqlite3.Connection, busy_timeout: float) -> None:
    """Switch to the write-ahead log. This is the only statement that does not wait for a lock, so this function waits."""
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
                "this file system does not support a write-ahead log",
                do="put the store on a local disk: network file systems lack what SQLite needs",
            )
        time.sleep(0.005)


def scrub(connection: sqlite3.Connection) -> None:
    """Rewrite the file and truncate its log. Raise `StoreLocked` if other connections use it all the time.

    Bytes that a commit replaced are still in the file: in the log, in free pages, and in the free part of a page that was split.
    """
    (busy_timeout_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
    until = time.monotonic() + busy_timeout_ms / 1000
    connection.execute("VACUUM")
    while True:
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not busy:
            return
        if time.monotonic() > until:
            raise StoreLocked(
                "the text was erased from every ledger, but its bytes are still in the log, because another connection is reading it",
                do="await store.scrub() when no other connection uses the file",
            )
        time.sleep(0.005)


def _read_pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def make_absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.fspath(path))


def tenant_path(path: str, tenant: str) -> str:
    """Return the path of a tenant's file. Its name encodes the tenant's name, so that no two tenants share a file.

    Some file systems do not distinguish upper and lower case, and none takes long names. The files of SQLite and of leases have a suffix
    with a dash, so no encoded name contains a dash.
    """
    plain = "".join(char if char in _PLAIN_CHARS else "".join(f"%{byte:02x}" for byte in char.encode()) for char in tenant)
    if len(plain) > 120:
        plain = f"{plain[:80]}~{sha256(tenant.encode()).hexdigest()[:32]}"
    return f"{path}.{plain}"


_PLAIN_CHARS = "abcdefghijklmnopqrstuvwxyz0123456789_"

_FILE_GROWTH_ERRORS = {
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
}
_MIN_FREE_BYTES = 1 << 18  # a database page and the 32 KiB shared-memory file must fit in


def translate_error(error: Exception, path: str) -> LegatoError:
    """Return the `StoreError` for a failure of SQLite or of the file system, with the failure as its cause."""
    if isinstance(error, LegatoError):
        return error
    store_error = _make_store_error(error, path)
    store_error.__cause__ = error
    return store_error


def _make_store_error(error: Exception, path: str) -> StoreError:
    if isinstance(error, OSError):
        return _translate_os_error(error, path)
    code = getattr(error, "sqlite_errorcode", None) or 0
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_FULL or (code in _FILE_GROWTH_ERRORS and _is_disk_full(path)):
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
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or (primary == sqlite3.SQLITE_CANTOPEN and _is_forbidden(path)):
        return StoreReadOnly(f"{path} cannot be written", found=str(error), do="check the permissions of the file and its folder")
    # All keys are Legato's, so a duplicate key means that another program changed a ledger's length.
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT) or "decode to UTF-8" in str(error):
        return _damaged_file_error(path, str(error))
    return StoreError(f"SQLite could not use {path}", found=str(error), do="see the cause; nothing of this was recorded")


def _damaged_file_error(path: str, detail: str) -> DamagedStore:
    return DamagedStore(f"{path} is damaged, or is not a store of Legato", found=detail, do="restore the file from a copy")


def _translate_os_error(error: OSError, path: str) -> StoreError:
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return StoreReadOnly(f"{path} cannot be written", found=str(error), do="check the permissions of the file and its folder")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"there is no room left for {path}", found=str(error), do="free some space and try again")
    return StoreError(f"{path} cannot be opened", found=str(error), do="check the path")


def _is_disk_full(path: str) -> bool:
    try:
        if shutil.disk_usage(os.path.dirname(path)).free < _MIN_FREE_BYTES:
            return True
        import resource  # not on Windows

        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        sizes = [os.path.getsize(path + suffix) for suffix in ("", "-wal") if os.path.exists(path + suffix)]
        return limit != resource.RLIM_INFINITY and max(sizes, default=0) + _MIN_FREE_BYTES > limit
    except (OSError, ImportError):
        return False


def _is_forbidden(path: str) -> bool:
    folder = os.path.dirname(path)
    return os.path.isdir(folder) and not os.path.isdir(path) and not (os.access(path, os.W_OK) and os.access(folder, os.W_OK))
