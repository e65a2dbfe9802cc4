"""Ledgers as rows. May know: SQL and the facts' bytes. Decides: the schema, and what of a damaged file can still be read.

Every function takes a connection; those that write run inside a transaction that their caller begins and ends, and refuse before
they write anything. None of them looks at more facts than it returns or adds.

A fact's key is its ledger's number and its position in one integer. So a ledger's facts lie together, in order, in an ordinary
table, whose rows may fill a page: with a two-column key (`WITHOUT ROWID`) SQLite keeps at most a quarter of a page of each row in
place, and facts of 1200 bytes took 3.9 times their size (measured; 1.15 times this way).

A fork is a ledger whose facts before `shared` are those of `parent`. A parent that contributes nothing is skipped when the fork
is made, so a chain of forks never has more links than facts.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from zlib import crc32

from legato.core.child_session_ids import child_range, is_child_of
from legato.core.codec import decode, encode
from legato.core.facts import FORMAT, AnyFact
from legato.core.redaction import Erased, Erases
from legato.errors import DamagedStore, LedgerConflict
from legato.stores.forks import count_shared, find_owner, find_unnamed_contents
from legato.stores.refusals import (
    check_fork,
    check_lengths,
    damaged_content,
    damaged_fact,
    no_content,
    not_born_so,
    unknown_ledger,
)

SCHEMA = (
    """CREATE TABLE ledgers(
        id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: it names a lease's byte and the facts' keys
        name TEXT UNIQUE,                     -- NULL once deleted, while forks still share its facts
        parent INTEGER,                       -- whose facts come before `shared`
        shared INTEGER NOT NULL DEFAULT 0,
        origin INTEGER,                       -- the ledger it was forked from, as the caller named it
        length INTEGER NOT NULL DEFAULT 0,
        epoch INTEGER NOT NULL,               -- the newest of its leases, and of those that its facts name
        updated INTEGER NOT NULL DEFAULT 0,   -- `at` of the last fact
        touched INTEGER NOT NULL DEFAULT 0,   -- when it was recorded, in microseconds: the order of list()
        crc INTEGER NOT NULL DEFAULT 0,       -- of all the rest; with the name, so that a broken index cannot lead elsewhere
        born TEXT NOT NULL DEFAULT '',        -- the birth name
        rested INTEGER NOT NULL DEFAULT 0     -- how many facts a driver had seen when it came to rest; not in the checksum: see `unrested`
    )""",
    "CREATE TABLE facts(key INTEGER PRIMARY KEY, format INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL)",
    """CREATE TABLE contents(
        ledger INTEGER NOT NULL, digest TEXT NOT NULL, position INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY(ledger, digest)
    ) WITHOUT ROWID""",
    # The names once more. A damaged page of the first index can make a ledger seem absent, and then another would be made under its name.
    # So what the first index does not have is looked for in this one, which is stored elsewhere. Looking through the table itself would
    # take longer with every session: 3 ms among 100,000, and this takes 3 µs.
    "CREATE UNIQUE INDEX ledgers_names ON ledgers(name DESC)",
    "CREATE INDEX ledgers_parent ON ledgers(parent) WHERE parent IS NOT NULL",
)

TOGETHER = 64  # rows that are read, checked and decoded in one go each: an eighth quicker than all of that for each row
_ANY = 1 << 62  # more bytes than anything has
_SIGN = 1 << 31
_SHIFT = 32  # bits for the position within a ledger
_last_touch = 0
FactRow: TypeAlias = tuple[int, int, int, bytes]
"""Key, format, checksum and body."""


class Row(NamedTuple):
    """One ledger, without its facts."""

    name: str | None
    id: int
    parent: int | None
    shared: int
    origin: int | None
    length: int
    epoch: int
    updated: int
    touched: int
    born: str


_ROW = "SELECT id, parent, shared, origin, length, epoch, updated, touched, born, crc FROM ledgers WHERE "
_FIRST, _SECOND = "ledgers INDEXED BY sqlite_autoindex_ledgers_1", "ledgers INDEXED BY ledgers_names"
_BY_NAME = _ROW.replace("ledgers", _FIRST) + "name = ?"
_HAS_NAME = f"SELECT id FROM {_SECOND} WHERE name = ?"
_FAMILY = """WITH RECURSIVE family(id) AS (VALUES (?) UNION SELECT l.id FROM ledgers l JOIN family f ON l.parent = f.id)
    SELECT id FROM family"""
_CHILDREN = "SELECT name FROM {} WHERE name >= ? AND name < ? ORDER BY name"


def find(connection: sqlite3.Connection, ledger: str) -> Row | None:
    """The row of a ledger; `DamagedStore` if the indexes of names differ about it."""
    found = connection.execute(_BY_NAME, (ledger,)).fetchone()
    if found is None and connection.execute(_HAS_NAME, (ledger,)).fetchone() is not None:
        raise _damaged_index(ledger)
    return found and _whole(Row._make((ledger, *found[:-1])), found[-1])


def length(connection: sqlite3.Connection, ledger: str) -> int:
    row = find(connection, ledger)
    return row.length if row else 0


def born(connection: sqlite3.Connection, ledger: str) -> str:
    row = find(connection, ledger)
    return row.born if row and row.length else ""


def append(
    connection: sqlite3.Connection,
    ledger: str,
    expected: int,
    bodies: Sequence[bytes],
    updated: int,
    contents: Mapping[str, bytes],
    born: str,
    epoch: int = 0,
) -> int:
    row = _find_born(connection, ledger, born if expected else "")
    found = row.length if row else 0
    if found != expected:
        raise LedgerConflict(ledger, expected, found)
    row = row or _create(connection, ledger)
    if not expected:
        row = row._replace(born=born)
    _record(connection, row.id, expected, bodies)
    _keep(connection, row, expected, contents)
    if bodies:
        epoch = max(row.epoch, epoch)
        _save(connection, row._replace(length=expected + len(bodies), epoch=epoch, updated=updated, touched=_touch()))
    return expected + len(bodies)


def _keep(connection: sqlite3.Connection, row: Row, position: int, contents: Mapping[str, bytes]) -> None:
    """Keep contents that facts from this position on name, unless the ledger has them."""
    for digest, body in contents.items():
        if _content(connection, row, digest) is None:
            crc = _crc(row.id, position, body)
            connection.execute("INSERT INTO contents VALUES (?, ?, ?, ?, ?)", (row.id, digest, position, crc, body))


def read(connection: sqlite3.Connection, ledger: str, start: int, born: str = "") -> list[AnyFact]:
    """The facts from `start` on; `DamagedStore` says how many precede the damage."""
    row = _find_born(connection, ledger, born)
    return list(_facts(connection, row, start)) if row is not None and row.length > start else []


def read_few(connection: sqlite3.Connection, ledger: str, start: int, born: str, most: int, most_bytes: int) -> list[AnyFact] | None:
    """The facts from `start` on, or None if they are more facts or bytes than that."""
    row = _find_born(connection, ledger, born)
    if row is None or row.length <= start:
        return []
    if row.length - start > most:
        return None
    try:
        return list(_facts(connection, row, start, most_bytes))
    except _TooMuch:
        return None


def salvage(connection: sqlite3.Connection, ledger: str) -> list[AnyFact]:
    """The facts before the first damage. Trusts their own checksums only: not the index, not the ledger's entry."""
    found = connection.execute(_ROW.replace("WHERE", "NOT INDEXED WHERE") + "name = ?", (ledger,)).fetchone()
    facts: list[AnyFact] = []
    if found is not None:
        with contextlib.suppress(DamagedStore):
            for fact in _facts(connection, Row(ledger, *found[:-1])._replace(length=1 << _SHIFT), 0):
                facts.append(fact)  # noqa: PERF402 - one by one, so that those before the damage stay
    return facts


def content(connection: sqlite3.Connection, ledger: str, digest: str) -> bytes:
    row = find(connection, ledger)
    if row is None:
        raise unknown_ledger(ledger)
    found = _content(connection, row, digest)
    if found is None:
        raise no_content(ledger, digest)
    holder, position, crc, body = found
    if type(body) is not bytes or crc != _crc(holder, position, body):
        raise damaged_content(ledger, digest, row.length)
    return body


def fork(
    connection: sqlite3.Connection,
    ledger: str,
    at: int,
    new: str,
    bodies: Sequence[bytes],
    updated: int,
    contents: Mapping[str, bytes],
    born: str,
    of: str,
    expected: int | None,
    epoch: int = 0,
) -> int:
    parent, branch = _find_born(connection, ledger, of), find(connection, new)
    if parent is None:
        raise unknown_ledger(ledger)
    check_fork(ledger, at, new, length=parent.length, taken=branch is not None and branch.length > 0, expected=expected)
    if at and not bodies:
        with contextlib.closing(_facts(connection, parent, at - 1, together=1)) as facts:
            updated = next(facts).at
    sharing = parent
    while sharing.parent is not None and at <= sharing.shared:
        sharing = _parent(connection, sharing)
    branch = branch or _create(connection, new)
    branch = branch._replace(
        parent=sharing.id if at else None,
        shared=at,
        origin=parent.id,
        length=at + len(bodies),
        epoch=max(branch.epoch, parent.epoch, epoch),
        updated=updated,
        touched=_touch(),
        born=born,
    )
    sharing_of = (branch.parent, branch.shared, branch.origin, branch.id)
    connection.execute("UPDATE ledgers SET parent = ?, shared = ?, origin = ? WHERE id = ?", sharing_of)
    _save(connection, branch)
    _record(connection, branch.id, at, bodies)
    _keep(connection, branch, at, contents)
    return branch.length


def redact(connection: sqlite3.Connection, ledger: str, erasing: Erases, born: str) -> dict[str, tuple[Erased, int]]:
    """Erase words in a ledger and in those that share facts with it. What became of each that was changed, and its length.

    Facts that ledgers share are rows of one of them, so they are rewritten there, for all.
    """
    row = _find_born(connection, ledger, born)
    if row is None or row.length == 0:
        raise unknown_ledger(ledger)
    kin = _kin(connection, row)

    def parent_of(each: Row) -> Row | None:
        return kin.get(each.parent)

    done: list[tuple[Row, Erased]] = []
    for each in kin.values():
        if each.name is not None and each.length:
            shared = count_shared(row, each, min(row.length, each.length), parent_of)
            done.append((each, _erased(connection, each, shared, erasing)))
    dropped = find_unnamed_contents(erased for _, erased in done)
    connection.executemany("DELETE FROM contents WHERE ledger = ? AND digest = ?", [(id, digest) for id in kin for digest in dropped])
    return {each.name: (erased, _erase(connection, each, erased, parent_of)) for each, erased in done if each.name and erased.added}


def _erased(connection: sqlite3.Connection, row: Row, shared: int, erasing: Erases) -> Erased:
    facts = list(_facts(connection, row, 0))
    contents = {digest: _content(connection, row, digest) for digest in erasing.looks_at(facts, shared)}
    return erasing.erased(facts, shared, {digest: found[3] for digest, found in contents.items() if found is not None})


def _kin(connection: sqlite3.Connection, row: Row) -> dict[int | None, Row]:
    """All ledgers that have a fork in common with this one, by number; those without a name too."""
    first = row
    while first.parent is not None:
        first = _parent(connection, first)
    return {id: _relative(connection, row, id) for (id,) in connection.execute(_FAMILY, (first.id,)).fetchall()}


def _erase(connection: sqlite3.Connection, row: Row, erased: Erased, parent_of: Callable[[Row], Row | None]) -> int:
    """Write what became of a ledger; its new length."""
    for position, fact in erased.replaced.items():
        id, body = find_owner(row, position, parent_of).id, encode(fact)
        connection.execute(
            "UPDATE facts SET format = ?, crc = ?, body = ? WHERE key = ?",
            (FORMAT, _crc(id, position, body), body, id << _SHIFT | position),
        )
    for digest, (position, body) in erased.contents.items():
        id = find_owner(row, position, parent_of).id
        connection.execute(
            "INSERT INTO contents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET position = excluded.position, crc = excluded.crc"
            " WHERE excluded.position < position",
            (id, digest, position, _crc(id, position, body), body),
        )
    _record(connection, row.id, row.length, [encode(fact) for fact in erased.added])
    grown = row._replace(length=row.length + len(erased.added), updated=erased.added[-1].at, touched=_touch())
    _save(connection, grown)
    return grown.length


def delete(connection: sqlite3.Connection, ledger: str, expected: Mapping[str, int] | None = None, born: str = "") -> bool:
    row = _find_born(connection, ledger, born)
    if row is None or row.length == 0:
        return False
    children = [found for name in child_names(connection, ledger) if (found := find(connection, name)) and found.length]
    family = [row, *children]
    check_lengths({each.name or "": each.length for each in family}, expected)
    for each in family:
        connection.execute("UPDATE ledgers SET name = NULL WHERE id = ?", (each.id,))
        _save(connection, each._replace(name=None))
        _drop_unshared(connection, each)
    return True


def child_names(connection: sqlite3.Connection, ledger: str) -> list[str]:
    """The names of the ledgers of child sessions, at any depth."""
    first, second = (connection.execute(_CHILDREN.format(index), child_range(ledger)).fetchall() for index in (_FIRST, _SECOND))
    if first != second:
        raise _damaged_index(min(set(first) ^ set(second))[0])
    return [name for (name,) in first if isinstance(name, str) and is_child_of(name, ledger)]


def came_to_rest(connection: sqlite3.Connection, rests: Mapping[int, int]) -> None:
    connection.executemany("UPDATE ledgers SET rested = ? WHERE id = ?", [(rested, id) for id, rested in rests.items()])


def row_to_lease(connection: sqlite3.Connection, ledger: str) -> Row:
    """The row whose byte is to be locked: an empty one, which nobody else sees, if there is no such ledger yet."""
    return find(connection, ledger) or _create(connection, ledger)


def save_epoch(connection: sqlite3.Connection, row: Row, epoch: int) -> None:
    _save(connection, row._replace(epoch=epoch))


def _create(connection: sqlite3.Connection, ledger: str) -> Row:
    made = connection.execute("INSERT INTO ledgers(name, epoch) VALUES (?, 0)", (ledger,))
    assert made.lastrowid is not None
    row = Row(ledger, made.lastrowid, None, 0, None, 0, 0, 0, 0, "")
    _save(connection, row)
    return row


def _save(connection: sqlite3.Connection, row: Row) -> None:
    """Write what changes with every append or lease, and the checksum of the whole row."""
    connection.execute(
        "UPDATE ledgers SET length = ?, epoch = ?, updated = ?, touched = ?, born = ?, crc = ? WHERE id = ?",
        (row.length, row.epoch, row.updated, row.touched, row.born, _row_crc(row), row.id),
    )


def _row_crc(row: Row) -> int:
    return crc32(repr(tuple(row)).encode())


def _find_born(connection: sqlite3.Connection, ledger: str, born: str) -> Row | None:
    """The row of a ledger; `UnknownLedger` if the caller means one of another birth name, which is not there any more."""
    row = find(connection, ledger)
    if born and (row is None or row.length == 0 or row.born != born):
        raise not_born_so(ledger, row.length if row is not None else 0)
    return row


def _whole(row: Row, crc: int) -> Row:
    if crc != _row_crc(row):
        raise DamagedStore(f"the entry of ledger {row.name!r} was changed since it was written", do="restore the file from a copy")
    return row


def _relative(connection: sqlite3.Connection, row: Row, id: int | None) -> Row:
    """The ledger of this number, which shares facts with `row`."""
    found = connection.execute(_ROW.replace("SELECT ", "SELECT name, ") + "id = ?", (id,)).fetchone()
    if found is None:
        raise DamagedStore(f"what ledger {row.name!r} shares with another is gone", do="restore the file from a copy")
    return _whole(Row._make(found[:-1]), found[-1])


def _parent(connection: sqlite3.Connection, row: Row) -> Row:
    parent = _relative(connection, row, row.parent)
    if parent.shared >= row.shared:  # none that contributes nothing is kept as a parent, and a circle would be followed without end
        raise DamagedStore(f"ledger {row.name!r} shares facts with a ledger that has none for it", do="restore the file from a copy")
    return parent


def _record(connection: sqlite3.Connection, id: int, position: int, bodies: Sequence[bytes]) -> None:
    connection.executemany(
        "INSERT INTO facts VALUES (?, ?, ?, ?)",
        [(id << _SHIFT | at, FORMAT, _crc(id, at, body), body) for at, body in enumerate(bodies, position)],
    )


def _crc(id: int, position: int, body: bytes, format: int = FORMAT) -> int:
    """The checksum of a body in its place, as a signed number: four bytes instead of six."""
    return (crc32(body, crc32(b"%d.%d.%d" % (id, position, format))) ^ _SIGN) - _SIGN


class _TooMuch(Exception):
    """There is more to read than was allowed."""


class _Allowance:
    """How many more bytes may be read, if there is a limit."""

    def __init__(self, most: int | None) -> None:
        self.left = most

    def take(self, rows: Sequence[FactRow]) -> None:
        if self.left is not None:
            self.left -= sum(len(body) if type(body) is bytes else _ANY for _, _, _, body in rows)
            if self.left < 0:
                raise _TooMuch


def _facts(
    connection: sqlite3.Connection, row: Row, start: int, most_bytes: int | None = None, together: int = TOGETHER
) -> Generator[AnyFact, None, None]:
    position, allowance = start, _Allowance(most_bytes)
    try:
        for id, first, end in _stretches(connection, row, start):
            # Of its own facts all are asked for, so that more of them than `length` says is noticed.
            limit = (id + 1) << _SHIFT if id == row.id else id << _SHIFT | end
            with contextlib.closing(_rows(connection, id << _SHIFT | first, limit, allowance, together)) as rows:
                for some in rows:
                    whole = _count_whole(some, id, position, end)
                    yield from [decode(body, format) for _, format, _, body in some[:whole]]
                    position += whole
                    if whole < len(some):
                        raise _damage(row, position)
            if position != end:
                raise _damage(row, position)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        if together == 1:
            raise _damage(row, position) from error
        yield from _facts(connection, row, position, allowance.left, 1)  # some of those that were asked for together may be whole


def _rows(
    connection: sqlite3.Connection, first: int, limit: int, allowance: _Allowance, together: int
) -> Generator[Sequence[FactRow], None, None]:
    """The facts from one key to before another, so many at a time."""
    rows = connection.execute(
        # What is too large is not even read: of such a body only the length is.
        "SELECT key, format, crc, CASE WHEN length(body) > ? THEN length(body) ELSE body END"
        " FROM facts WHERE key >= ? AND key < ? ORDER BY key",
        (_ANY if allowance.left is None else allowance.left, first, limit),
    )
    with contextlib.closing(rows):  # whoever keeps our error keeps this frame, and must not keep the connection
        while some := rows.fetchmany(together):
            allowance.take(some)
            yield some


def _damage(row: Row, position: int) -> DamagedStore:
    found = f"session {row.name!r}" if row.name is not None else "a deleted session that others were forked from"
    return damaged_fact(found, position, row.length)


def _count_whole(rows: Sequence[FactRow], id: int, position: int, end: int) -> int:
    """How many of these rows, from the first on, are what was written in their places."""
    for at, (key, format, crc, body) in enumerate(rows, position):
        in_place = key == id << _SHIFT | at and at < end
        if not in_place or type(format) is not int or type(body) is not bytes or crc != _crc(id, at, body, format):
            return at - position
    return len(rows)


def _stretches(connection: sqlite3.Connection, row: Row, start: int) -> list[tuple[int, int, int]]:
    """Where the facts from `start` on lie: (ledger's number, first position, end), in order."""
    stretches = []
    end = row.length
    while True:
        stretches.append((row.id, max(row.shared, start), end))
        if row.parent is None or row.shared <= start:
            return stretches[::-1]
        end = row.shared
        row = _parent(connection, row)


def _content(connection: sqlite3.Connection, row: Row, digest: str) -> tuple[int, int, int, bytes] | None:
    """What this ledger, or a parent before the fork, recorded under the digest."""
    limit = row.length + 1
    while True:
        found: tuple[int, int, int, bytes] | None = connection.execute(
            "SELECT ledger, position, crc, body FROM contents WHERE ledger = ? AND digest = ? AND position < ?",
            (row.id, digest, limit),
        ).fetchone()
        if found is not None or row.parent is None:
            return found
        limit = row.shared
        row = _parent(connection, row)


def _drop_unshared(connection: sqlite3.Connection, row: Row) -> None:
    """Drop what no ledger with a name can see any more, from this nameless row upwards."""
    while True:
        (kept,) = connection.execute("SELECT max(shared) FROM ledgers WHERE parent = ?", (row.id,)).fetchone()
        beyond = 0 if kept is None else kept
        connection.execute("DELETE FROM facts WHERE key >= ? AND key < ?", (row.id << _SHIFT | beyond, (row.id + 1) << _SHIFT))
        connection.execute("DELETE FROM contents WHERE ledger = ? AND position >= ?", (row.id, beyond))
        if kept is not None:
            return
        connection.execute("DELETE FROM ledgers WHERE id = ?", (row.id,))
        if row.parent is None:
            return
        row = _parent(connection, row)
        if row.name is not None:
            return


def _damaged_index(ledger: str) -> DamagedStore:
    return DamagedStore(
        f"the index of names does not have ledger {ledger!r}, which is in the file",
        do="nothing was written; restore the file from a copy, or stop all programs that use it and run REINDEX with SQLite's own shell",
    )


def _touch() -> int:
    """Now, in microseconds, and never the same twice in this process even if the clock steps back."""
    global _last_touch
    _last_touch = max(time.time_ns() // 1000, _last_touch + 1)
    return _last_touch
