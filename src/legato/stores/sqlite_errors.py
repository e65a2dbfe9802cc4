"""SQLite's errors in the contract's words. May know: SQLite's codes and the file. Decides: which promise a failure falls under.

SQLite tells a full disk as `SQLITE_FULL`, but a file-size limit, a quota, and a disk too full for the shared-memory file as one
of many I/O errors; and a folder without permission as "unable to open". So those two ask the operating system what is the case.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3

from legato.errors import DamagedStore, LegatoError, StoreError, StoreFull, StoreLocked, StoreReadOnly

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
