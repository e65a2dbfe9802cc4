"""The index of a file's ledgers: lists of ledgers, and checks for damage.

SQLite accepts any value in any column, and any program with write access can change the file. So no value is trusted to have the type of
its column: a number that is none, or a name that is no text, is reported as damage of that line, and hides no other line.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Generator, Iterator
from typing import Any

from legato.errors import DamagedStore, LegatoError
from legato.stores.contract import LedgerInfo
from legato.stores.sqlite import ledgers

_MAX_INTEGER = 2**63 - 1
"""The largest integer that SQLite has."""

_DAMAGED_ROW_NAME = re.compile(r"\(damaged row ([0-9]{1,18})\)")
_INTEGER_OR_NULL = "CASE typeof({0}) WHEN 'integer' THEN {0} END"
_TOUCHED = f"coalesce({_INTEGER_OR_NULL.format('l.touched')}, 0)"
_SELECT_INFOS = (
    "SELECT l.id, typeof(l.name), CAST(l.name AS BLOB), o.id, typeof(o.name), CAST(o.name AS BLOB),"
    f" {_INTEGER_OR_NULL.format('l.length')}, {_INTEGER_OR_NULL.format('l.updated')}, {_INTEGER_OR_NULL.format('l.touched')}"
    " FROM ledgers l LEFT JOIN ledgers o ON o.id = l.origin WHERE l.name IS NOT NULL"
)


def list_recent(connection: sqlite3.Connection, limit: int, after: LedgerInfo | None = None) -> list[LedgerInfo]:
    """Return the ledgers, the most recently touched first. Ledgers of the same microsecond are ordered by their numbers. After a line whose
    ledger was deleted, the ledgers of its microsecond are repeated rather than left out."""
    rows = connection.execute(
        f"{_SELECT_INFOS} AND l.length > 0 AND ({_TOUCHED}, l.id) < (?, ?) ORDER BY {_TOUCHED} DESC, l.id DESC LIMIT ?",
        (*_list_position(connection, after, _MAX_INTEGER, _MAX_INTEGER), max(limit, 0)),
    )
    return [_make_info(*row) for row in rows]


def list_runnable(connection: sqlite3.Connection, after: LedgerInfo | None = None) -> Generator[tuple[int, LedgerInfo], None, None]:
    """Yield the ledgers that were not idle at their present length, with their numbers, the one with the oldest append first.

    A ledger never gets shorter. So an idle position that differs from the length, for whatever reason, may name a ledger that is idle, but
    never hides one that is not. Ledgers of the same microsecond are ordered by their numbers. Damaged lines are left out: such a ledger
    cannot be driven.
    """
    rows = connection.execute(
        f"{_SELECT_INFOS} AND l.length > 0 AND l.rested <> l.length AND ({_TOUCHED}, l.id) > (?, ?) ORDER BY {_TOUCHED}, l.id",
        _list_position(connection, after, -_MAX_INTEGER - 1, 0),
    )
    with contextlib.closing(rows):
        for id, *columns in rows:
            if not (info := _make_info(id, *columns)).damage:
                yield id, info


def list_children(connection: sqlite3.Connection, ledger: str) -> list[LedgerInfo]:
    """Return the ledgers of child sessions that have facts, at any depth, in the order of their names."""
    names = ledgers.find_child_names(connection, ledger)
    rows = [row for name in names for row in connection.execute(f"{_SELECT_INFOS} AND l.length > 0 AND l.name = ?", (name,))]
    return [_make_info(*row) for row in rows]


def list_all(connection: sqlite3.Connection) -> Iterator[LedgerInfo]:
    """Return all ledgers, also those without facts, in the order of their creation."""
    return iter([_make_info(*row) for row in connection.execute(f"{_SELECT_INFOS} ORDER BY l.id")])


def find_problems(connection: sqlite3.Connection) -> list[str]:
    """Return one line for each damage of the file: SQLite's own findings first, then each damaged ledger and content."""
    problems = [line for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
    for info in list_all(connection):
        name = info.ledger
        try:
            if info.damage:
                raise DamagedStore(info.damage)
            ledgers.read(connection, name, 0)
        except LegatoError as error:
            problems.append(f"ledger {name!r}: {error.summary}")
        except sqlite3.OperationalError as error:
            if "decode to UTF-8" not in str(error):
                raise
            problems.append(f"ledger {name!r}: {error}")
    for id, position, crc, body in connection.execute("SELECT ledger, position, crc, body FROM contents"):
        if type(body) is not bytes or crc != ledgers.compute_crc(id, position, body):
            problems.append(f"a content of the ledger with number {id} is damaged")
    return problems


def _make_info(
    id: int,
    name_type: str,
    name: bytes,
    origin_id: int | None,
    origin_name_type: str,
    origin_name: bytes | None,
    length: Any,
    updated: Any,
    touched: Any,
) -> LedgerInfo:
    columns = {"name": _decode_name(name_type, name), "length": length, "updated": updated, "touched": touched}
    damaged_columns = [column for column, value in columns.items() if value is None]
    damage = f"the entry of this ledger was changed since it was written: {', '.join(damaged_columns)}" if damaged_columns else ""
    parent = "" if origin_id is None or origin_name is None else _printable_name(origin_id, origin_name_type, origin_name)
    return LedgerInfo(_printable_name(id, name_type, name), length or 0, updated or 0, parent, touched or 0, damage)


def _printable_name(id: int, sqlite_type: str, name: bytes) -> str:
    return _decode_name(sqlite_type, name) or f"(damaged row {id})"


def _decode_name(sqlite_type: str, name: bytes) -> str | None:
    """Return a name as it was written; None if it cannot be one."""
    try:
        return name.decode() or None if sqlite_type == "text" else None
    except UnicodeDecodeError:
        return None


def _list_position(connection: sqlite3.Connection, after: LedgerInfo | None, *first: int) -> tuple[int, ...]:
    """Return the place of a line in a list: `touched` and number. A deleted ledger has the number `first`, the start of its microsecond."""
    if after is None:
        return first
    if nameless := _DAMAGED_ROW_NAME.fullmatch(after.ledger):
        found = connection.execute(f"{_SELECT_INFOS} AND l.id = ?", (int(nameless[1]),)).fetchone()
        if found and (line := _make_info(*found)).ledger == after.ledger and line.touched == after.touched:
            return after.touched, found[0]
    row = connection.execute("SELECT id FROM ledgers WHERE name = ?", (after.ledger,)).fetchone()
    return after.touched, row[0] if row else first[1]
