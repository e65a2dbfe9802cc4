"""Ledgers as lines of lists, and what is wrong with a file.

SQLite keeps whatever it is given in any column, and a file can be changed by anybody who may write it. So nothing is taken for what the
schema calls it: a number that is none, or a name that is no text, is told as damage of that line, and hides no other.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Generator, Iterator
from typing import Any

from legato.errors import DamagedStore, LegatoError
from legato.stores import sqlite_ledgers as ledgers
from legato.stores.contract import LedgerInfo

_LARGEST = 2**63 - 1
"""The largest integer that SQLite has."""

_NAMELESS = re.compile(r"\(damaged row ([0-9]{1,18})\)")
_NUMBER = "CASE typeof({0}) WHEN 'integer' THEN {0} END"
_TOUCHED = f"coalesce({_NUMBER.format('l.touched')}, 0)"
_LINES = (
    "SELECT l.id, typeof(l.name), CAST(l.name AS BLOB), o.id, typeof(o.name), CAST(o.name AS BLOB),"
    f" {_NUMBER.format('l.length')}, {_NUMBER.format('l.updated')}, {_NUMBER.format('l.touched')}"
    " FROM ledgers l LEFT JOIN ledgers o ON o.id = l.origin WHERE l.name IS NOT NULL"
)


def recent(connection: sqlite3.Connection, limit: int, after: LedgerInfo | None = None) -> list[LedgerInfo]:
    """The ledgers, the one that was touched last first. Two of the same microsecond are told apart by their numbers; behind one that is
    gone, those of its microsecond come again, rather than not at all."""
    rows = connection.execute(
        f"{_LINES} AND l.length > 0 AND ({_TOUCHED}, l.id) < (?, ?) ORDER BY {_TOUCHED} DESC, l.id DESC LIMIT ?",
        (*_place(connection, after, _LARGEST, _LARGEST), max(limit, 0)),
    )
    return [_line(*row) for row in rows]


def unrested(connection: sqlite3.Connection, after: LedgerInfo | None = None) -> Generator[tuple[int, LedgerInfo], None, None]:
    """The ledgers whose driver did not come to rest at their end, with their numbers, the one that waits for longest first.

    A ledger never gets shorter. So a number that is not its length, for whatever reason, names a ledger that may well rest, and never
    hides one that does not. Two that were touched in the same microsecond are told apart by their numbers. A damaged line is of no ledger
    that could be driven.
    """
    rows = connection.execute(
        f"{_LINES} AND l.length > 0 AND l.rested <> l.length AND ({_TOUCHED}, l.id) > (?, ?) ORDER BY {_TOUCHED}, l.id",
        _place(connection, after, -_LARGEST - 1, 0),
    )
    with contextlib.closing(rows):
        for id, *columns in rows:
            if not (info := _line(id, *columns)).damaged:
                yield id, info


def children(connection: sqlite3.Connection, ledger: str) -> list[LedgerInfo]:
    """The ledgers of child sessions that have facts, at any depth, in the order of their names."""
    names = ledgers.child_names(connection, ledger)
    rows = [row for name in names for row in connection.execute(f"{_LINES} AND l.length > 0 AND l.name = ?", (name,))]
    return [_line(*row) for row in rows]


def lines(connection: sqlite3.Connection) -> Iterator[LedgerInfo]:
    """All of them, also of those that have no facts yet, in the order in which they were made."""
    return iter([_line(*row) for row in connection.execute(f"{_LINES} ORDER BY l.id")])


def problems(connection: sqlite3.Connection) -> list[str]:
    """Everything that is wrong with the file, one line each: SQLite's own findings first, then each damaged ledger."""
    found = [line for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
    for line in lines(connection):
        name = line.ledger
        try:
            if line.damaged:
                raise DamagedStore(line.damaged)
            ledgers.read(connection, name, 0)
        except LegatoError as error:
            found.append(f"ledger {name!r}: {error.summary}")
        except sqlite3.OperationalError as error:
            if "decode to UTF-8" not in str(error):
                raise
            found.append(f"ledger {name!r}: {error}")
    for id, position, crc, body in connection.execute("SELECT ledger, position, crc, body FROM contents"):
        if type(body) is not bytes or crc != ledgers._crc(id, position, body):
            found.append(f"a content of the ledger with number {id} is damaged")
    return found


def _line(
    id: int, kind: str, name: bytes, of: int | None, its_kind: str, its_name: bytes | None, length: Any, updated: Any, touched: Any
) -> LedgerInfo:
    columns = {"name": _read_name(kind, name), "length": length, "updated": updated, "touched": touched}
    wrong = [column for column, value in columns.items() if value is None]
    told = f"the entry of this ledger was changed since it was written: {', '.join(wrong)}" if wrong else ""
    parent = "" if of is None or its_name is None else _told(of, its_kind, its_name)
    return LedgerInfo(_told(id, kind, name), length or 0, updated or 0, parent, touched or 0, told)


def _told(id: int, kind: str, name: bytes) -> str:
    return _read_name(kind, name) or f"(damaged row {id})"


def _read_name(kind: str, name: bytes) -> str | None:
    """A name as it was written; None if this can be none."""
    try:
        return name.decode() or None if kind == "text" else None
    except UnicodeDecodeError:
        return None


def _place(connection: sqlite3.Connection, after: LedgerInfo | None, *first: int) -> tuple[int, ...]:
    """Where a line is: when it was touched, and its number. Of one that is gone, the number that nothing comes before in the order."""
    if after is None:
        return first
    if nameless := _NAMELESS.fullmatch(after.ledger):
        found = connection.execute(f"{_LINES} AND l.id = ?", (int(nameless[1]),)).fetchone()
        if found and (line := _line(*found)).ledger == after.ledger and line.touched == after.touched:
            return after.touched, found[0]
    row = connection.execute("SELECT id FROM ledgers WHERE name = ?", (after.ledger,)).fetchone()
    return after.touched, row[0] if row else first[1]
