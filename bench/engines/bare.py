"""The bare limit: a loop that appends the same bytes to the same database, in as many transactions, and does nothing else.

What is appended comes from one conversation that the runtime held: of each append, the facts as the store writes them. Settings are those
of the stores: SQLite with a write-ahead log that waits for the disk where a tool starts, Postgres with one INSERT that commits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from bench.engines.desk import desk
from bench.workloads import QUESTION
from legato.core.codec import encode_fact
from legato.core.facts import AnyFact
from legato.stores import MemoryStore


class Append(NamedTuple):
    """One append: the bytes of its facts and contents, and whether it waits for the disk before a tool starts."""

    bodies: tuple[bytes, ...]
    durable: bool


class Recording(MemoryStore):
    """Keeps what is appended as it would be written."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[Append] = []

    async def append(self, ledger: str, expected: int, facts: Sequence[AnyFact], **more: Any) -> int:
        contents = tuple((more.get("contents") or {}).values())
        self.appends.append(Append((*map(encode_fact, facts), *contents), bool(more.get("durable"))))
        return await super().append(ledger, expected, facts, **more)


async def appends_of(turns: int) -> list[list[Append]]:
    """What one conversation appends, turn by turn."""
    store, found = Recording(), []
    session = desk.session(store=store)
    for _ in range(turns):
        await session.run(QUESTION)
        found.append(store.appends)
        store.appends = []
    return found


class BareSQLite:
    """A table of rows in a file. There is one writer, and nothing to wait for but the disk."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("CREATE TABLE bare (ledger TEXT, position INTEGER, body BLOB, PRIMARY KEY (ledger, position)) WITHOUT ROWID")

    async def append(self, ledger: str, position: int, append: Append) -> None:
        self._db.execute(f"PRAGMA synchronous={'FULL' if append.durable else 'NORMAL'}")
        self._db.execute("BEGIN IMMEDIATE")
        rows = ((ledger, position + index, body) for index, body in enumerate(append.bodies))
        self._db.executemany("INSERT INTO bare VALUES (?, ?, ?)", rows)
        self._db.execute("COMMIT")

    async def close(self) -> None:
        self._db.close()


class BarePostgres:
    """A table of rows on a server, through as many connections as there are conversations at once."""

    def __init__(self, connections: list[psycopg.AsyncConnection[Any]]) -> None:
        self._free = connections

    @classmethod
    async def on(cls, dsn: str, at_once: int) -> BarePostgres:
        """Connect, and make the table."""
        connections = [await psycopg.AsyncConnection.connect(dsn, autocommit=True) for _ in range(at_once)]
        await connections[0].execute(
            'CREATE TABLE IF NOT EXISTS bare (ledger text, "position" integer, body bytea, PRIMARY KEY (ledger, "position"))'
        )
        return cls(connections)

    async def append(self, ledger: str, position: int, append: Append) -> None:
        connection = self._free.pop()
        try:
            positions = list(range(position, position + len(append.bodies)))
            await connection.execute(
                "INSERT INTO bare SELECT %s, * FROM unnest(%s::int[], %s::bytea[])", (ledger, positions, list(append.bodies)), prepare=True
            )
        finally:
            self._free.append(connection)

    async def close(self) -> None:
        for connection in self._free:
            await connection.close()
