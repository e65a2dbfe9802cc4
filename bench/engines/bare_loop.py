"""The bare limit: a loop that appends the same bytes to the same database, in as many transactions, and does nothing else.

The bytes are recorded from one conversation of the runtime: the facts of each append as the store writes them. Settings are those of the
stores: SQLite with a write-ahead log that waits for the disk before a tool starts, Postgres with one INSERT that commits.
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


class RecordedAppend(NamedTuple):
    """One append: the bytes of its facts and contents, and whether it waits for the disk before a tool starts."""

    bodies: tuple[bytes, ...]
    is_durable: bool


class RecordingStore(MemoryStore):
    """A store that records the bytes of its appends."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[RecordedAppend] = []

    async def append(self, ledger: str, expected: int, facts: Sequence[AnyFact], **more: Any) -> int:
        contents = tuple((more.get("contents") or {}).values())
        self.appends.append(RecordedAppend((*map(encode_fact, facts), *contents), bool(more.get("durable"))))
        return await super().append(ledger, expected, facts, **more)


async def record_appends(turns: int) -> list[list[RecordedAppend]]:
    """Return the appends of one conversation, turn by turn."""
    store, found = RecordingStore(), []
    session = desk.session(store=store)
    for _ in range(turns):
        await session.run(QUESTION)
        found.append(store.appends)
        store.appends = []
    return found


class BareSQLite:
    """A table of rows in a file with one writer, which waits for nothing but the disk."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("CREATE TABLE bare (ledger TEXT, position INTEGER, body BLOB, PRIMARY KEY (ledger, position)) WITHOUT ROWID")

    async def append(self, ledger: str, position: int, append: RecordedAppend) -> None:
        self._db.execute(f"PRAGMA synchronous={'FULL' if append.is_durable else 'NORMAL'}")
        self._db.execute("BEGIN IMMEDIATE")
        rows = ((ledger, position + index, body) for index, body in enumerate(append.bodies))
        self._db.executemany("INSERT INTO bare VALUES (?, ?, ?)", rows)
        self._db.execute("COMMIT")

    async def close(self) -> None:
        self._db.close()


class BarePostgres:
    """A table of rows on a server, with one connection for each concurrent conversation."""

    def __init__(self, connections: list[psycopg.AsyncConnection[Any]]) -> None:
        self._connections = connections

    @classmethod
    async def connect(cls, dsn: str, at_once: int) -> BarePostgres:
        """Connect, and create the table."""
        connections = [await psycopg.AsyncConnection.connect(dsn, autocommit=True) for _ in range(at_once)]
        await connections[0].execute(
            'CREATE TABLE IF NOT EXISTS bare (ledger text, "position" integer, body bytea, PRIMARY KEY (ledger, "position"))'
        )
        return cls(connections)

    async def append(self, ledger: str, position: int, append: RecordedAppend) -> None:
        connection = self._connections.pop()
        try:
            positions = list(range(position, position + len(append.bodies)))
            await connection.execute(
                "INSERT INTO bare SELECT %s, * FROM unnest(%s::int[], %s::bytea[])", (ledger, positions, list(append.bodies)), prepare=True
            )
        finally:
            self._connections.append(connection)

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()
