"""Opening a store's file. May know: SQLite's header and pragmas. Decides: which files are stores, and of which version.

Nothing is written into a file that is not ours: another program's database, or a store made by a newer Legato, is refused first.
"""

from __future__ import annotations

import os
import sqlite3
import time
from hashlib import sha256
from pathlib import Path

from legato.errors import DamagedStore, NewerFormat, StoreError
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
