"""Ledgers as rows of a SQLite file: the schema, and the operations on it.

Every function takes a connection. Functions that write run inside a transaction that their caller begins and ends, and raise before they
write anything. None of them reads more facts than it returns or adds.

A fact's key is its ledger's number and its position in one integer. So a ledger's facts are adjacent and in order in an ordinary table,
whose rows may fill a page: with a two-column key (`WITHOUT ROWID`) SQLite keeps at most a quarter of a page of each row in place, and
facts of 1200 bytes took 3.9 times their size (measured; 1.15 times this way).

A fork is a ledger whose facts before `shared` are those of `parent`. A parent that contributes no facts is skipped when the fork is made,
so a chain of forks never has more links than facts.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from zlib import crc32

from legato.core.child_session_ids import is_child_of, make_child_id_range
from legato.core.codec import decode_fact, encode_fact
from legato.core.facts import LEDGER_FORMAT, AnyFact
from legato.core.redaction import LedgerRedaction, Redactor
from legato.errors import DamagedStore, LedgerConflict
from legato.stores.contract import inherit_epoch
from legato.stores.shared_facts import count_shared_facts, find_owner_ledger, find_unreferenced_contents
from legato.stores.store_errors import (
    check_fork,
    check_lengths,
    damaged_content_error,
    damaged_fact_error,
    unknown_content_error,
    unknown_ledger_error,
    wrong_ledger_error,
)

SCHEMA = (
    """CREATE TABLE ledgers(
        id INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused: it is part of the facts' keys, and the offset of the lease's byte
        name TEXT UNIQUE,                     -- NULL once deleted, while forks still share its facts
        parent INTEGER,                       -- the ledger that has the facts before `shared`
        shared INTEGER NOT NULL DEFAULT 0,
        origin INTEGER,                       -- the ledger that it was forked from
        length INTEGER NOT NULL DEFAULT 0,
        epoch INTEGER NOT NULL,               -- the newest epoch of its leases and facts
        updated INTEGER NOT NULL DEFAULT 0,   -- `at` of the last fact
        touched INTEGER NOT NULL DEFAULT 0,   -- the time of the last append, in microseconds: the order of list()
        crc INTEGER NOT NULL DEFAULT 0,       -- of the other columns, with the name, so that a broken index cannot lead to another row
        born TEXT NOT NULL DEFAULT '',        -- the ledger's id
        rested INTEGER NOT NULL DEFAULT 0     -- the length at which it last became idle; not in the checksum: see `list_runnable`
    )""",
    "CREATE TABLE inherited_epoch(epoch INTEGER NOT NULL)",  # one row: new ledgers begin above it
    "INSERT INTO inherited_epoch VALUES (0)",
    "CREATE TABLE facts(key INTEGER PRIMARY KEY, format INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL)",
    """CREATE TABLE contents(
        ledger INTEGER NOT NULL, digest TEXT NOT NULL, position INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY(ledger, digest)
    ) WITHOUT ROWID""",
    # The names once more. A damaged page of the first index can make a ledger seem absent, and then another one would be created under its
    # name. So a name that the first index lacks is looked up in this one, which is stored elsewhere. A scan of the table would take longer
    # with every session: 3 ms among 100,000 sessions, and this takes 3 µs.
    "CREATE UNIQUE INDEX ledgers_names ON ledgers(name DESC)",
    "CREATE INDEX ledgers_parent ON ledgers(parent) WHERE parent IS NOT NULL",
)

ROWS_PER_FETCH = 64  # read, checked and decoded together: an eighth faster than one by one
_NO_LIMIT = 1 << 62  # bytes
_SIGN_BIT = 1 << 31
_POSITION_BITS = 32  # of a fact's key
_last_touch = 0
FactRow: TypeAlias = tuple[int, int, int, bytes]
"""Key, format, checksum and body."""


class LedgerRow(NamedTuple):
    """One row of the table of ledgers."""

    name: str | None
    id: int
    parent: int | None
    shared: int
    origin: int | None
    length: int
    epoch: int
    updated: int
    touched: int
    ledger_id: str


_SELECT_ROW = "SELECT id, parent, shared, origin, length, epoch, updated, touched, born, crc FROM ledgers WHERE "
_FIRST_NAME_INDEX, _SECOND_NAME_INDEX = "ledgers INDEXED BY sqlite_autoindex_ledgers_1", "ledgers INDEXED BY ledgers_names"
_SELECT_BY_NAME = _SELECT_ROW.replace("ledgers", _FIRST_NAME_INDEX) + "name = ?"
_SELECT_ID_BY_NAME = f"SELECT id FROM {_SECOND_NAME_INDEX} WHERE name = ?"
_SELECT_FORK_TREE = """WITH RECURSIVE tree(id) AS (VALUES (?) UNION SELECT l.id FROM ledgers l JOIN tree t ON l.parent = t.id)
    SELECT id FROM tree"""
_SELECT_CHILD_NAMES = "SELECT name FROM {} WHERE name >= ? AND name < ? ORDER BY name"


def find_row(connection: sqlite3.Connection, ledger: str) -> LedgerRow | None:
    """Return the row of a ledger, if there is one. Raise `DamagedStore` if the two indexes of names differ about it."""
    found = connection.execute(_SELECT_BY_NAME, (ledger,)).fetchone()
    if found is None and connection.execute(_SELECT_ID_BY_NAME, (ledger,)).fetchone() is not None:
        raise _damaged_index_error(ledger)
    return found and _check_row_crc(LedgerRow._make((ledger, *found[:-1])), found[-1])


def read_length(connection: sqlite3.Connection, ledger: str) -> int:
    row = find_row(connection, ledger)
    return row.length if row else 0


def read_ledger_id(connection: sqlite3.Connection, ledger: str) -> str:
    row = find_row(connection, ledger)
    return row.ledger_id if row and row.length else ""


def append(
    connection: sqlite3.Connection,
    ledger: str,
    expected: int,
    bodies: Sequence[bytes],
    updated: int,
    contents: Mapping[str, bytes],
    ledger_id: str,
    epoch: int = 0,
) -> int:
    row = _find_row_with_ledger_id(connection, ledger, ledger_id if expected else "")
    found = row.length if row else 0
    if found != expected:
        raise LedgerConflict(ledger, expected, found)
    row = row or _create_row(connection, ledger)
    if not expected:
        row = row._replace(ledger_id=ledger_id)
    _insert_facts(connection, row.id, expected, bodies)
    _insert_contents(connection, row, expected, contents)
    if bodies:
        epoch = max(row.epoch, epoch)
        _save_row(connection, row._replace(length=expected + len(bodies), epoch=epoch, updated=updated, touched=_next_touch()))
    return expected + len(bodies)


def _insert_contents(connection: sqlite3.Connection, row: LedgerRow, position: int, contents: Mapping[str, bytes]) -> None:
    """Insert the contents of facts from this position on, unless the ledger has them."""
    for digest, body in contents.items():
        if _find_content(connection, row, digest) is None:
            crc = compute_crc(row.id, position, body)
            connection.execute("INSERT INTO contents VALUES (?, ?, ?, ?, ?)", (row.id, digest, position, crc, body))


def read(connection: sqlite3.Connection, ledger: str, start: int, ledger_id: str = "") -> list[AnyFact]:
    """Return the facts from `start` on. `DamagedStore` has the number of facts before the damage."""
    row = _find_row_with_ledger_id(connection, ledger, ledger_id)
    return list(_iterate_facts(connection, row, start)) if row is not None and row.length > start else []


def read_small(
    connection: sqlite3.Connection, ledger: str, start: int, ledger_id: str, max_facts: int, max_bytes: int
) -> list[AnyFact] | None:
    """Return the facts from `start` on, or None if they have more than `max_facts` or `max_bytes`."""
    row = _find_row_with_ledger_id(connection, ledger, ledger_id)
    if row is None or row.length <= start:
        return []
    if row.length - start > max_facts:
        return None
    try:
        return list(_iterate_facts(connection, row, start, max_bytes))
    except _ReadLimitExceeded:
        return None


def salvage(connection: sqlite3.Connection, ledger: str) -> list[AnyFact]:
    """Return the facts before the first damage. Only the facts' checksums are trusted: neither the index nor the ledger's row."""
    found = connection.execute(_SELECT_ROW.replace("WHERE", "NOT INDEXED WHERE") + "name = ?", (ledger,)).fetchone()
    facts: list[AnyFact] = []
    if found is not None:
        with contextlib.suppress(DamagedStore):
            for fact in _iterate_facts(connection, LedgerRow(ledger, *found[:-1])._replace(length=1 << _POSITION_BITS), 0):
                facts.append(fact)  # noqa: PERF402 - one by one, so that the facts before the damage are kept
    return facts


def read_content(connection: sqlite3.Connection, ledger: str, digest: str) -> bytes:
    row = find_row(connection, ledger)
    if row is None:
        raise unknown_ledger_error(ledger)
    found = _find_content(connection, row, digest)
    if found is None:
        raise unknown_content_error(ledger, digest)
    holder, position, crc, body = found
    if type(body) is not bytes or crc != compute_crc(holder, position, body):
        raise damaged_content_error(ledger, digest, row.length)
    return body


def fork(
    connection: sqlite3.Connection,
    ledger: str,
    at: int,
    new: str,
    bodies: Sequence[bytes],
    updated: int,
    contents: Mapping[str, bytes],
    ledger_id: str,
    parent_ledger_id: str,
    expected: int | None,
    epoch: int = 0,
) -> int:
    parent, branch = _find_row_with_ledger_id(connection, ledger, parent_ledger_id), find_row(connection, new)
    if parent is None:
        raise unknown_ledger_error(ledger)
    check_fork(ledger, at, new, length=parent.length, is_name_taken=branch is not None and branch.length > 0, expected=expected)
    if at and not bodies:
        with contextlib.closing(_iterate_facts(connection, parent, at - 1, rows_per_fetch=1)) as facts:
            updated = next(facts).at
    sharing = parent
    while sharing.parent is not None and at <= sharing.shared:
        sharing = _read_parent(connection, sharing)
    branch = branch or _create_row(connection, new)
    branch = branch._replace(
        parent=sharing.id if at else None,
        shared=at,
        origin=parent.id,
        length=at + len(bodies),
        epoch=max(branch.epoch, parent.epoch, epoch),
        updated=updated,
        touched=_next_touch(),
        ledger_id=ledger_id,
    )
    values = (branch.parent, branch.shared, branch.origin, branch.id)
    connection.execute("UPDATE ledgers SET parent = ?, shared = ?, origin = ? WHERE id = ?", values)
    _save_row(connection, branch)
    _insert_facts(connection, branch.id, at, bodies)
    _insert_contents(connection, branch, at, contents)
    return branch.length


def redact(connection: sqlite3.Connection, ledger: str, redactor: Redactor, ledger_id: str) -> dict[str, tuple[LedgerRedaction, int]]:
    """Erase text in a ledger and in those that share facts with it. Return each changed ledger's redaction and new length.

    Facts that ledgers share are rows of one of them, so they are rewritten once, for all.
    """
    row = _find_row_with_ledger_id(connection, ledger, ledger_id)
    if row is None or row.length == 0:
        raise unknown_ledger_error(ledger)
    tree = _read_fork_tree(connection, row)

    def parent_of(each: LedgerRow) -> LedgerRow | None:
        return tree.get(each.parent)

    redactions: list[tuple[LedgerRow, LedgerRedaction]] = []
    for each in tree.values():
        if each.name is not None and each.length:
            shared = count_shared_facts(row, each, min(row.length, each.length), parent_of)
            redactions.append((each, _plan_redaction(connection, each, shared, redactor)))
    dropped = find_unreferenced_contents(redaction for _, redaction in redactions)
    connection.executemany("DELETE FROM contents WHERE ledger = ? AND digest = ?", [(id, digest) for id in tree for digest in dropped])
    return {
        each.name: (redaction, _apply_redaction(connection, each, redaction, parent_of))
        for each, redaction in redactions
        if each.name and redaction.appended_facts
    }


def _plan_redaction(connection: sqlite3.Connection, row: LedgerRow, shared: int, redactor: Redactor) -> LedgerRedaction:
    facts = list(_iterate_facts(connection, row, 0))
    contents = {digest: _find_content(connection, row, digest) for digest in redactor.find_needed_contents(facts, shared)}
    return redactor.redact(facts, shared, {digest: found[3] for digest, found in contents.items() if found is not None})


def _read_fork_tree(connection: sqlite3.Connection, row: LedgerRow) -> dict[int | None, LedgerRow]:
    """Return all ledgers that are related to this one by forks, by number; also those without a name."""
    first = row
    while first.parent is not None:
        first = _read_parent(connection, first)
    return {id: _read_related_row(connection, row, id) for (id,) in connection.execute(_SELECT_FORK_TREE, (first.id,)).fetchall()}


def _apply_redaction(
    connection: sqlite3.Connection, row: LedgerRow, redaction: LedgerRedaction, parent_of: Callable[[LedgerRow], LedgerRow | None]
) -> int:
    """Write the redaction of a ledger. Return its new length."""
    for position, fact in redaction.replacements.items():
        id, body = find_owner_ledger(row, position, parent_of).id, encode_fact(fact)
        connection.execute(
            "UPDATE facts SET format = ?, crc = ?, body = ? WHERE key = ?",
            (LEDGER_FORMAT, compute_crc(id, position, body), body, id << _POSITION_BITS | position),
        )
    for digest, (position, body) in redaction.new_contents.items():
        id = find_owner_ledger(row, position, parent_of).id
        connection.execute(
            "INSERT INTO contents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET position = excluded.position, crc = excluded.crc"
            " WHERE excluded.position < position",
            (id, digest, position, compute_crc(id, position, body), body),
        )
    _insert_facts(connection, row.id, row.length, [encode_fact(fact) for fact in redaction.appended_facts])
    grown = row._replace(length=row.length + len(redaction.appended_facts), updated=redaction.appended_facts[-1].at, touched=_next_touch())
    _save_row(connection, grown)
    return grown.length


def delete(connection: sqlite3.Connection, ledger: str, expected: Mapping[str, int] | None = None, ledger_id: str = "") -> bool:
    row = _find_row_with_ledger_id(connection, ledger, ledger_id)
    if row is None or row.length == 0:
        return False
    children = [found for name in find_child_names(connection, ledger) if (found := find_row(connection, name)) and found.length]
    rows = [row, *children]
    check_lengths({each.name or "": each.length for each in rows}, expected)
    for each in rows:
        connection.execute("UPDATE inherited_epoch SET epoch = ? WHERE epoch < ?", (inherit_epoch(0, each.epoch),) * 2)
        connection.execute("UPDATE ledgers SET name = NULL WHERE id = ?", (each.id,))
        _save_row(connection, each._replace(name=None))
        _delete_unshared(connection, each)
    return True


def find_child_names(connection: sqlite3.Connection, ledger: str) -> list[str]:
    """Return the names of the ledgers of child sessions, at any depth."""
    first, second = (
        connection.execute(_SELECT_CHILD_NAMES.format(index), make_child_id_range(ledger)).fetchall()
        for index in (_FIRST_NAME_INDEX, _SECOND_NAME_INDEX)
    )
    if first != second:
        raise _damaged_index_error(min(set(first) ^ set(second))[0])
    return [name for (name,) in first if isinstance(name, str) and is_child_of(name, ledger)]


def save_idle_positions(connection: sqlite3.Connection, idle_positions: Mapping[int, int]) -> None:
    connection.executemany("UPDATE ledgers SET rested = ? WHERE id = ?", [(idle_at, id) for id, idle_at in idle_positions.items()])


def find_or_create_row(connection: sqlite3.Connection, ledger: str) -> LedgerRow:
    """Return the row of a ledger to lease. If there is no such ledger yet, create an empty row, which no list shows."""
    return find_row(connection, ledger) or _create_row(connection, ledger)


def save_epoch(connection: sqlite3.Connection, row: LedgerRow, epoch: int) -> None:
    _save_row(connection, row._replace(epoch=epoch))


def _create_row(connection: sqlite3.Connection, ledger: str) -> LedgerRow:
    ((epoch,),) = connection.execute("SELECT epoch FROM inherited_epoch").fetchall()
    made = connection.execute("INSERT INTO ledgers(name, epoch) VALUES (?, ?)", (ledger, epoch))
    assert made.lastrowid is not None
    row = LedgerRow(ledger, made.lastrowid, None, 0, None, 0, epoch, 0, 0, "")
    _save_row(connection, row)
    return row


def _save_row(connection: sqlite3.Connection, row: LedgerRow) -> None:
    """Save the columns that change with appends and leases, and the checksum of the whole row."""
    connection.execute(
        "UPDATE ledgers SET length = ?, epoch = ?, updated = ?, touched = ?, born = ?, crc = ? WHERE id = ?",
        (row.length, row.epoch, row.updated, row.touched, row.ledger_id, _compute_row_crc(row), row.id),
    )


def _compute_row_crc(row: LedgerRow) -> int:
    return crc32(repr(tuple(row)).encode())


def _find_row_with_ledger_id(connection: sqlite3.Connection, ledger: str, ledger_id: str) -> LedgerRow | None:
    """Return the row of a ledger. Raise `UnknownLedger` if the caller means a ledger with another id, which is not there any more."""
    row = find_row(connection, ledger)
    if ledger_id and (row is None or row.length == 0 or row.ledger_id != ledger_id):
        raise wrong_ledger_error(ledger, row.length if row is not None else 0)
    return row


def _check_row_crc(row: LedgerRow, crc: int) -> LedgerRow:
    if crc != _compute_row_crc(row):
        raise DamagedStore(f"the entry of ledger {row.name!r} was changed since it was written", do="restore the file from a copy")
    return row


def _read_related_row(connection: sqlite3.Connection, row: LedgerRow, id: int | None) -> LedgerRow:
    """Return the row with this number, of a ledger that shares facts with `row`."""
    found = connection.execute(_SELECT_ROW.replace("SELECT ", "SELECT name, ") + "id = ?", (id,)).fetchone()
    if found is None:
        raise DamagedStore(f"facts that ledger {row.name!r} shares with another are missing", do="restore the file from a copy")
    return _check_row_crc(LedgerRow._make(found[:-1]), found[-1])


def _read_parent(connection: sqlite3.Connection, row: LedgerRow) -> LedgerRow:
    parent = _read_related_row(connection, row, row.parent)
    if parent.shared >= row.shared:  # every parent contributes facts, and following a circle would never end
        raise DamagedStore(f"ledger {row.name!r} shares facts with a ledger that has none of them", do="restore the file from a copy")
    return parent


def _insert_facts(connection: sqlite3.Connection, id: int, position: int, bodies: Sequence[bytes]) -> None:
    connection.executemany(
        "INSERT INTO facts VALUES (?, ?, ?, ?)",
        [(id << _POSITION_BITS | at, LEDGER_FORMAT, compute_crc(id, at, body), body) for at, body in enumerate(bodies, position)],
    )


def compute_crc(id: int, position: int, body: bytes, format: int = LEDGER_FORMAT) -> int:
    """Return the checksum of a body at its position, as a signed number: four bytes instead of six."""
    return (crc32(body, crc32(b"%d.%d.%d" % (id, position, format))) ^ _SIGN_BIT) - _SIGN_BIT


class _ReadLimitExceeded(Exception):
    """The error for more bytes to read than the caller allows."""


class _ByteBudget:
    """The number of bytes that may still be read, if there is a limit."""

    def __init__(self, max_bytes: int | None) -> None:
        self.remaining = max_bytes

    def take(self, rows: Sequence[FactRow]) -> None:
        if self.remaining is not None:
            self.remaining -= sum(len(body) if type(body) is bytes else _NO_LIMIT for _, _, _, body in rows)
            if self.remaining < 0:
                raise _ReadLimitExceeded


def _iterate_facts(
    connection: sqlite3.Connection, row: LedgerRow, start: int, max_bytes: int | None = None, rows_per_fetch: int = ROWS_PER_FETCH
) -> Generator[AnyFact, None, None]:
    position, budget = start, _ByteBudget(max_bytes)
    try:
        for id, first, end in _find_segments(connection, row, start):
            # The ledger's own facts are read without an end, so that facts beyond its length are noticed.
            limit = (id + 1) << _POSITION_BITS if id == row.id else id << _POSITION_BITS | end
            with contextlib.closing(_fetch_fact_rows(connection, id << _POSITION_BITS | first, limit, budget, rows_per_fetch)) as rows:
                for some in rows:
                    whole = _count_valid_rows(some, id, position, end)
                    yield from [decode_fact(body, format) for _, format, _, body in some[:whole]]
                    position += whole
                    if whole < len(some):
                        raise _damage_error(row, position)
            if position != end:
                raise _damage_error(row, position)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        if rows_per_fetch == 1:
            raise _damage_error(row, position) from error
        yield from _iterate_facts(connection, row, position, budget.remaining, 1)  # some rows of that fetch may be intact


def _fetch_fact_rows(
    connection: sqlite3.Connection, first: int, limit: int, budget: _ByteBudget, rows_per_fetch: int
) -> Generator[Sequence[FactRow], None, None]:
    """Yield the rows of facts from one key to before another, some at a time."""
    rows = connection.execute(
        # A body beyond the limit is not read: only its length is.
        "SELECT key, format, crc, CASE WHEN length(body) > ? THEN length(body) ELSE body END"
        " FROM facts WHERE key >= ? AND key < ? ORDER BY key",
        (_NO_LIMIT if budget.remaining is None else budget.remaining, first, limit),
    )
    with contextlib.closing(rows):  # a stored error keeps this frame alive, and must not keep the connection
        while some := rows.fetchmany(rows_per_fetch):
            budget.take(some)
            yield some


def _damage_error(row: LedgerRow, position: int) -> DamagedStore:
    found = f"session {row.name!r}" if row.name is not None else "a deleted session that others were forked from"
    return damaged_fact_error(found, position, row.length)


def _count_valid_rows(rows: Sequence[FactRow], id: int, position: int, end: int) -> int:
    """Count the rows, from the first on, that are as they were written."""
    for at, (key, format, crc, body) in enumerate(rows, position):
        in_place = key == id << _POSITION_BITS | at and at < end
        if not in_place or type(format) is not int or type(body) is not bytes or crc != compute_crc(id, at, body, format):
            return at - position
    return len(rows)


def _find_segments(connection: sqlite3.Connection, row: LedgerRow, start: int) -> list[tuple[int, int, int]]:
    """Return where the facts from `start` on are stored: (ledger number, first position, end), in order."""
    stretches = []
    end = row.length
    while True:
        stretches.append((row.id, max(row.shared, start), end))
        if row.parent is None or row.shared <= start:
            return stretches[::-1]
        end = row.shared
        row = _read_parent(connection, row)


def _find_content(connection: sqlite3.Connection, row: LedgerRow, digest: str) -> tuple[int, int, int, bytes] | None:
    """Return the row of the content that this ledger, or a parent before the fork, recorded under the digest."""
    limit = row.length + 1
    while True:
        found: tuple[int, int, int, bytes] | None = connection.execute(
            "SELECT ledger, position, crc, body FROM contents WHERE ledger = ? AND digest = ? AND position < ?",
            (row.id, digest, limit),
        ).fetchone()
        if found is not None or row.parent is None:
            return found
        limit = row.shared
        row = _read_parent(connection, row)


def _delete_unshared(connection: sqlite3.Connection, row: LedgerRow) -> None:
    """Delete the facts that no named ledger can see any more, from this unnamed row upwards."""
    while True:
        (kept,) = connection.execute("SELECT max(shared) FROM ledgers WHERE parent = ?", (row.id,)).fetchone()
        beyond = 0 if kept is None else kept
        connection.execute(
            "DELETE FROM facts WHERE key >= ? AND key < ?", (row.id << _POSITION_BITS | beyond, (row.id + 1) << _POSITION_BITS)
        )
        connection.execute("DELETE FROM contents WHERE ledger = ? AND position >= ?", (row.id, beyond))
        if kept is not None:
            return
        connection.execute("DELETE FROM ledgers WHERE id = ?", (row.id,))
        if row.parent is None:
            return
        row = _read_parent(connection, row)
        if row.name is not None:
            return


def _damaged_index_error(ledger: str) -> DamagedStore:
    return DamagedStore(
        f"the index of names lacks ledger {ledger!r}, which is in the file",
        do="nothing was written; restore the file from a copy, or stop all programs that use it and run REINDEX with SQLite's own shell",
    )


def _next_touch() -> int:
    """Return the time in microseconds, never the same twice in this process, even if the clock is set back."""
    global _last_touch
    _last_touch = max(time.time_ns() // 1000, _last_touch + 1)
    return _last_touch
