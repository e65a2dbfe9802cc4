"""Postgres errors, translated into the errors of the store contract.

No error contains a password: libpq puts none into its messages, and its message about a DSN that it cannot read is not passed on. Nor is
psycopg's traceback: a report of its frames would show the connection parameters.
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

_RETRYABLE_CODES = {"40001", "40P01"}  # serialization failure, deadlock: the transaction was rolled back, and may be retried
_LOCKED_CODES = {"55P03", "57014", "55006", *_RETRYABLE_CODES}  # a lock or a statement took too long
_READ_ONLY_CODES = {"25006", "42501", "0LP01"}  # a standby or a read-only session; no right
_FULL_CODES = {"53100"}
_DAMAGED_CODES = {"XX001", "XX002", "23505"}  # unique violation: all keys are ours, so a ledger's length was changed by others
_UNAVAILABLE_CODES = {
    "57P01",
    "57P02",
    "57P03",
    "57P05",
    "53300",
    "53200",
}  # shut down, crashed, starting; no connection or no memory to spare
_CONNECTION_REFUSALS = (  # libpq has no code for a refused connection, only a message. Messages in other languages are passed on unchanged
    (
        r"no password supplied",
        "Postgres needs a password for {target}, and there is none",
        "put the password into the DSN, PGPASSWORD or ~/.pgpass",
    ),
    (
        r"password authentication failed",
        "Postgres at {target} does not accept this role with this password",
        "correct the role or the password in the DSN, PGPASSWORD or ~/.pgpass",
    ),
    (
        r"permission denied for database",
        "the role of {target} may not connect to this database",
        "GRANT CONNECT ON DATABASE to it, or correct the role or the database in the DSN",
    ),
    (
        r"database .+ does not exist|no such database|database .+ is not currently accepting connections",
        "there is no such database at {target}, or it accepts no connections",
        "create it, or correct the database in the DSN: the part after the last slash",
    ),
    (
        r"role .+ (does not exist|is not permitted to log in)|no such user|authentication failed for user",
        "Postgres at {target} has no such role, or does not let it log in",
        "create it with LOGIN, or correct the role in the DSN: the part before the @",
    ),
    (
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        "pg_hba.conf of the server at {target} does not allow this role to connect to this database from here",
        "add a line for it there, or correct the role, the database or sslmode in the DSN",
    ),
)
_UNKNOWN_HOST_PATTERN = "failed to resolve host|could not translate host name"
MISSING_SCHEMA_CODES = {"3F000", "42P01", "42883"}  # no such schema, table or function


def is_retryable(error: BaseException) -> bool:
    """Return True if nothing was written because of a concurrent write, so that the statement may be retried."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _RETRYABLE_CODES


def is_unavailable(error: BaseException) -> bool:
    """Return True if the server, or the connection to it, is not available."""
    if isinstance(error, (OSError, TimeoutError)):
        return True
    if not isinstance(error, psycopg.Error) or _find_connection_refusal(error) is not None:
        return False
    code = error.sqlstate or ""
    return (
        code in _UNAVAILABLE_CODES
        or code.startswith("08")
        or (not code and isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)))
    )


def translate_error(error: BaseException, target: str) -> LegatoError:
    """Return the `StoreError` for a failure, with the failure as its cause, and without tracebacks."""
    if isinstance(error, LegatoError):
        return error
    link: BaseException | None = error
    while link is not None and link.__traceback__ is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    store_error = _make_store_error(error, target)
    store_error.__cause__ = error
    return store_error


def _find_connection_refusal(error: psycopg.Error) -> tuple[str, str] | None:
    """Return summary and advice for a connection that the server refused. With several hosts, another one may be right."""
    message = str(error)
    if not isinstance(error, psycopg.OperationalError) or error.sqlstate or "Multiple connection attempts failed" in message:
        return None
    return next(((summary, do) for pattern, summary, do in _CONNECTION_REFUSALS if re.search(pattern, message)), None)


def _make_store_error(error: BaseException, target: str) -> LegatoError:
    found = " ".join(str(error).split())
    code = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    if isinstance(error, psycopg.Error) and (refusal := _find_connection_refusal(error)) is not None:
        return StoreRefused(refusal[0].format(target=target), found=found, do=refusal[1])
    if is_unavailable(error) and re.search(_UNKNOWN_HOST_PATTERN, found):
        return StoreUnavailable(f"the host of {target} cannot be found", found=found, do="correct the host in the DSN, or wait for DNS")
    if is_unavailable(error):
        return StoreUnavailable(
            f"Postgres at {target} cannot be reached",
            found=found,
            do="check that the server runs, then continue; read the ledger to see whether the interrupted write was recorded",
        )
    if code in _FULL_CODES:
        return StoreFull(
            f"there is no room left at {target}", found=found, do="free some space and try again; nothing of this was recorded"
        )
    if code in _LOCKED_CODES:
        do = "try again, or find the transaction that holds a lock for so long"
        return StoreLocked(f"another transaction at {target} holds a lock that this one needs", found=found, do=do)
    if code in _READ_ONLY_CODES:
        return StoreReadOnly(f"{target} cannot be written", found=found, do="connect to the primary, as a role that may write")
    if code in _DAMAGED_CODES:
        return DamagedStore(f"the database at {target} is damaged, or changed by others", found=found, do="restore it from a backup")
    if code in ("22021", "22P05") or isinstance(error, (UnicodeError, psycopg.DataError)):
        do = "use names without NUL characters and lone surrogates; nothing was written"
        return BadInput("Postgres cannot store this text", found=found, do=do)
    if code == "54000":
        do = "use names of at most 2,000 bytes, and facts and contents below a gigabyte; nothing was written"
        return BadInput("this is too long for Postgres", found=found, do=do)
    return StoreError(f"Postgres at {target} refused the statement", found=found, do="see the cause; nothing of this was recorded")
