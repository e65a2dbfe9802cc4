"""Erasing words in a file. May know: SQL, the rows of sqlite_ledgers.py. Decides: which rows are rewritten, and that no old bytes stay.

Facts that ledgers share are rows of one of them, so they are rewritten there, for all. What a commit replaces is still in the file: in the
log, in pages that are free, and in what is free within a page, where a page was divided once. So the file is rewritten afterwards.
"""

from __future__ import annotations

import sqlite3
import time

from legato.core.codec import encode
from legato.core.erasing import Erased, Erases
from legato.core.facts import FORMAT
from legato.errors import StoreLocked
from legato.stores import sqlite_ledgers as ledgers
from legato.stores.refusals import unknown_ledger
from legato.stores.sqlite_ledgers import Row

_FAMILY = """WITH RECURSIVE family(id) AS (VALUES (?) UNION SELECT l.id FROM ledgers l JOIN family f ON l.parent = f.id)
    SELECT id FROM family"""


def redact(connection: sqlite3.Connection, ledger: str, erasing: Erases, born: str) -> dict[str, tuple[Erased, int]]:
    """What became of each ledger that was changed, and its length."""
    row = ledgers.find(connection, ledger)
    ledgers._check_birth(ledger, row, born)
    if row is None or row.length == 0:
        raise unknown_ledger(ledger)
    kin = _kin(connection, row)
    done: list[tuple[Row, Erased]] = []
    for each in kin:
        if each.name is None or each.length == 0:
            continue
        facts = list(ledgers._facts(connection, each, 0))
        shared = row.length if each.id == row.id else _shared(connection, row, each)
        looked_at = ((digest, ledgers._content(connection, each, digest)) for digest in erasing.looks_at(facts, shared))
        done.append((each, erasing.erased(facts, shared, {digest: found[3] for digest, found in looked_at if found is not None})))
    gone = frozenset().union(*(erased.dropped for _, erased in done)).difference(*(erased.named for _, erased in done))
    for each in kin:
        connection.executemany("DELETE FROM contents WHERE ledger = ? AND digest = ?", [(each.id, digest) for digest in gone])
    return {row.name: (erased, _apply(connection, row, erased)) for row, erased in done if row.name and erased.added}


def scrub(connection: sqlite3.Connection) -> None:
    """Write the file anew and cut its log off. `StoreLocked` if others use it all the time."""
    (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
    until = time.monotonic() + patience / 1000
    connection.execute("VACUUM")
    while True:
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not busy:
            return
        if time.monotonic() > until:
            raise StoreLocked(
                "what was erased is gone from every ledger, and its bytes are still in the log, which somebody else is reading",
                do="await store.scrub() when nobody else uses the file",
            )
        time.sleep(0.005)


def _apply(connection: sqlite3.Connection, row: Row, erased: Erased) -> int:
    stretches = ledgers._stretches(connection, row, 0)

    def owner(position: int) -> int:
        return next(id for id, first, end in stretches if first <= position < end)

    for position, fact in erased.replaced.items():
        id, body = owner(position), encode(fact)
        connection.execute(
            "UPDATE facts SET format = ?, crc = ?, body = ? WHERE key = ?",
            (FORMAT, ledgers._crc(id, position, body), body, id << ledgers._SHIFT | position),
        )
    for digest, (position, body) in erased.contents.items():
        id = owner(position)
        connection.execute(
            "INSERT INTO contents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET position = excluded.position, crc = excluded.crc"
            " WHERE excluded.position < position",
            (id, digest, position, ledgers._crc(id, position, body), body),
        )
    bodies = [encode(fact) for fact in erased.added]
    ledgers._record(connection, row.id, row.length, bodies)
    grown = row._replace(length=row.length + len(bodies), updated=erased.added[-1].at, touched=ledgers._touch())
    ledgers._save(connection, grown)
    return grown.length


def _kin(connection: sqlite3.Connection, row: Row) -> list[Row]:
    """All ledgers that have a fork in common with this one, those without a name too."""
    first = row
    while first.parent is not None:
        first = ledgers._parent(connection, first)
    ids = [id for (id,) in connection.execute(_FAMILY, (first.id,)).fetchall()]
    return [ledgers._relative(connection, row, id) for id in ids]


def _shared(connection: sqlite3.Connection, one: Row, other: Row) -> int:
    """How many facts two ledgers share: the same rows."""
    shared = 0
    pairs = zip(ledgers._stretches(connection, one, 0), ledgers._stretches(connection, other, 0), strict=False)
    for (id, _, end), (another, _, other_end) in pairs:
        if id != another:
            break
        shared = min(end, other_end)
        if end != other_end:
            break
    return shared
