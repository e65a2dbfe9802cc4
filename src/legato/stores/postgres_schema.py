"""The schema of a database. May know: the numbered files of `postgres_sql/`. Decides: which of them are still to be run.

They go forward only, each once. Whoever comes first runs them, in one transaction and alone: the others wait, and find them done.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from legato.errors import NewerFormat
from legato.stores import postgres_statements as sql
from legato.stores.postgres_errors import NO_SCHEMA

FOLDER = Path(__file__).with_name("postgres_sql")


@cache
def migrations() -> dict[int, Path]:
    """The files by their numbers."""
    return {int(path.name.partition("_")[0]): path for path in sorted(FOLDER.glob("*.sql"))}


async def ensure(connection: psycopg.AsyncConnection[Any], where: str) -> None:
    """Make the schema the one that this Legato knows; refuse a newer one."""
    if await _version(connection, where) < max(migrations()):
        async with connection.transaction():
            await connection.execute(sql.ALONE)
            for statement in sql.SCHEMA:
                await connection.execute(statement)
            done = await _version(connection, where)  # another process may have been quicker
            for number, path in migrations().items():
                if number > done:
                    await connection.execute(path.read_bytes(), prepare=False)  # several statements, so as they are
                    await connection.execute(sql.MIGRATED, (number, path.name))


async def _version(connection: psycopg.AsyncConnection[Any], where: str) -> int:
    try:
        row = await (await connection.execute(sql.VERSION)).fetchone()
    except psycopg.Error as error:
        if error.sqlstate not in NO_SCHEMA:
            raise
        return 0
    version = int(row[0]) if row else 0
    known = max(migrations())
    if version > known:
        raise NewerFormat(
            f"the database at {where} has schema {version}, made by a newer Legato",
            expected=f"schema {known} or older",
            found=f"schema {version}",
            do="upgrade legato to use it; nothing was changed",
        )
    return version
