"""Postgres's errors in the contract's words. May know: SQLSTATE codes. Decides: which promise a failure falls under.

Passwords are in nobody's errors: libpq puts none into its own, and what it says of a DSN that it cannot read is not passed on. Nor are the
places where psycopg was when it failed: among what a report shows of them is what it connects with.
"""

from __future__ import annotations

import re

import psycopg

from legato.errors import (
    BadInput,
    DamagedStore,
    LegatoError,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
)

_AGAIN = {"40001", "40P01"}  # serialization failure, deadlock: the transaction was undone, and may be tried again
_LOCKED = {"55P03", "57014", "55006", *_AGAIN}  # a lock or a statement took too long
_READ_ONLY = {"25006", "42501", "0LP01"}  # a standby or a read-only session; no right
_FULL = {"53100"}
_DAMAGED = {"XX001", "XX002", "23505"}  # all keys are ours: a row that is already there means that a ledger's length was changed
_GONE = {"57P01", "57P02", "57P03", "57P05", "53300", "53200"}  # shut down, crashed, starting; no connection or no memory to spare
_REFUSED = (  # libpq tells no code of a connection that was not made: only words. Those of another language are told as they are
    (
        r"no password supplied",
        "Postgres wants a password for {where}, and was given none",
        "put it into the DSN, PGPASSWORD or ~/.pgpass",
    ),
    (
        r"password authentication failed",
        "Postgres at {where} does not take this role with this password",
        "mend the role or the password in the DSN, PGPASSWORD or ~/.pgpass",
    ),
    (
        r"permission denied for database",
        "the role of {where} may not connect to this database",
        "GRANT CONNECT ON DATABASE to it, or mend the role or the database in the DSN",
    ),
    (
        r"database .+ does not exist|no such database|database .+ is not currently accepting connections",
        "there is no such database at {where}, or it takes nobody",
        "create it, or mend the database in the DSN: what follows the last slash",
    ),
    (
        r"role .+ (does not exist|is not permitted to log in)|no such user|authentication failed for user",
        "Postgres at {where} has no such role, or does not let it in",
        "create it with LOGIN, or mend the role in the DSN: what stands before the @",
    ),
    (
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        "pg_hba.conf of the server at {where} does not let in this role, from here, to this database",
        "add a line for it there, or mend the role, the database or sslmode in the DSN",
    ),
)
_NO_HOST = "failed to resolve host|could not translate host name"
NO_SCHEMA = {"3F000", "42P01", "42883"}  # no such schema, table or function


def worth_another_try(error: BaseException) -> bool:
    """Whether nothing was written because somebody else wrote at the same time."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _AGAIN


def is_gone(error: BaseException) -> bool:
    """Whether the server, or the line to it, is not there."""
    if isinstance(error, (OSError, TimeoutError)):
        return True
    if not isinstance(error, psycopg.Error) or _refusal(error) is not None:
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


def _refusal(error: psycopg.Error) -> tuple[str, str] | None:
    """What a server said that was there and made no connection, and what to do. Of several hosts another may be the right one."""
    said = str(error)
    if not isinstance(error, psycopg.OperationalError) or error.sqlstate or "Multiple connection attempts failed" in said:
        return None
    return next(((told, do) for words, told, do in _REFUSED if re.search(words, said)), None)


def _told(error: BaseException, where: str) -> LegatoError:
    found = " ".join(str(error).split())
    code = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    if isinstance(error, psycopg.Error) and (refusal := _refusal(error)) is not None:
        return StoreRefused(refusal[0].format(where=where), found=found, do=refusal[1])
    if is_gone(error) and re.search(_NO_HOST, found):
        return StoreUnavailable(f"the host of {where} cannot be found", found=found, do="mend the host in the DSN, or wait for its name")
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
    if code in ("22021", "22P05") or isinstance(error, (UnicodeError, psycopg.DataError)):
        do = "give names without NUL characters and lone surrogates; nothing was written"
        return BadInput("Postgres cannot keep this text", found=found, do=do)
    if code == "54000":
        do = "give names of at most 2,000 bytes, and facts and contents below a gigabyte; nothing was written"
        return BadInput("Postgres cannot keep what is so long", found=found, do=do)
    return StoreError(f"Postgres at {where} refused", found=found, do="see the cause; nothing of this was recorded")
