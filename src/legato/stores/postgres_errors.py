"""Postgres's errors in the contract's words. May know: SQLSTATE codes. Decides: which promise a failure falls under.

Passwords are in nobody's errors: libpq puts none into its own, and what it says of a DSN that it cannot read is not passed on. Nor are the
places where psycopg was when it failed: among what a report shows of them is what it connects with.
"""

from __future__ import annotations

import psycopg

from legato.errors import BadInput, DamagedStore, LegatoError, StoreError, StoreFull, StoreLocked, StoreReadOnly, StoreUnavailable

_AGAIN = {"40001", "40P01"}  # serialization failure, deadlock: the transaction was undone, and may be tried again
_LOCKED = {"55P03", "57014", "55006", *_AGAIN}  # a lock or a statement took too long
_READ_ONLY = {"25006", "42501", "0LP01"}  # a standby or a read-only session; no right
_FULL = {"53100"}
_DAMAGED = {"XX001", "XX002", "23505"}  # all keys are ours: a row that is already there means that a ledger's length was changed
_GONE = {"57P01", "57P02", "57P03", "57P05", "53300", "53200"}  # shut down, crashed, starting; no connection or no memory to spare
NO_SCHEMA = {"3F000", "42P01", "42883"}  # no such schema, table or function


def worth_another_try(error: BaseException) -> bool:
    """Whether nothing was written because somebody else wrote at the same time."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _AGAIN


def is_gone(error: BaseException) -> bool:
    """Whether the server, or the line to it, is not there."""
    if isinstance(error, (OSError, TimeoutError)):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    code = error.sqlstate or ""
    return code in _GONE or code.startswith("08") or (not code and isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)))


def in_our_words(error: BaseException, where: str) -> LegatoError:
    """The `StoreError` that a failure means, with that failure as its cause, and without the places that it came through."""
    if isinstance(error, LegatoError):
        return error
    behind: BaseException | None = error
    while behind is not None and behind.__traceback__ is not None:
        behind.__traceback__ = None
        behind = behind.__cause__ or behind.__context__
    told = _told(error, where)
    told.__cause__ = error
    return told


def _told(error: BaseException, where: str) -> LegatoError:
    found = " ".join(str(error).split())
    code = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    if is_gone(error):
        return StoreUnavailable(
            f"Postgres at {where} cannot be reached",
            found=found,
            do="see that the server runs, then go on; whether what was under way is recorded, reading the ledger tells",
        )
    if code in _FULL:
        return StoreFull(f"there is no room left at {where}", found=found, do="free some space and try again; nothing of this was recorded")
    if code in _LOCKED:
        do = "try again, or find who holds a lock for so long"
        return StoreLocked(f"another transaction at {where} holds what is needed", found=found, do=do)
    if code in _READ_ONLY:
        return StoreReadOnly(f"{where} cannot be written", found=found, do="connect to the primary, as a role that may write")
    if code in _DAMAGED:
        return DamagedStore(f"the database at {where} is damaged, or changed by others", found=found, do="restore it from a backup")
    if code == "28P01" or code.startswith("28"):
        return StoreUnavailable(f"Postgres at {where} lets nobody in with this user and password", found=found, do="check the DSN")
    if code == "3D000":
        return StoreUnavailable(f"there is no such database at {where}", found=found, do="create it, or check the DSN")
    if code in ("22021", "22P05") or isinstance(error, (UnicodeError, psycopg.DataError)):
        do = "give names without NUL characters and lone surrogates; nothing was written"
        return BadInput("Postgres cannot keep this text", found=found, do=do)
    if code == "54000":
        do = "give names of at most 2,000 bytes, and facts and contents below a gigabyte; nothing was written"
        return BadInput("Postgres cannot keep what is so long", found=found, do=do)
    return StoreError(f"Postgres at {where} refused", found=found, do="see the cause; nothing of this was recorded")
