"""The schema of a database. May know: the numbered files of `postgres_sql/`. Decides: which of them are still to be run.

They go forward only, each once, in the order of their numbers; one that is missing below others that were run is run too. Whoever comes
first runs them, in one transaction and alone: the others wait, and find them done.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from legato.errors import NewerFormat
from legato.stores import postgres_statements as sql
from legato.stores.postgres_errors import NO_SCHEMA
from legato.stores.postgres_pool import LONG_SILENCE_S, Connection
from legato.stores.refusals import never_released

FOLDER = Path(__file__).with_name("postgres_sql")


@cache
def migrations() -> dict[int, Path]:
    """The files by their numbers."""
    return {int(path.name.partition("_")[0]): path for path in sorted(FOLDER.glob("*.sql"))}


async def ensure(connection: Connection, where: str) -> None:
    """Make the schema the one that this Legato knows; refuse a newer one."""
    if migrations().keys() - await _applied(connection, where):
        connection.silence_s = LONG_SILENCE_S
        async with connection.transaction():
            await connection.execute(sql.ALONE)
            for statement in sql.SCHEMA:
                await connection.execute(statement)
            done = await _applied(connection, where)  # another process may have been quicker
            for number, path in sorted(migrations().items()):
                if number not in done:
                    await connection.execute(path.read_bytes(), prepare=False)  # several statements, so as they are
                    await connection.execute(sql.MIGRATED, (number, path.name))


async def _applied(connection: psycopg.AsyncConnection[Any], where: str) -> set[int]:
    """The numbers of those that were run here."""
    try:
        rows = await (await connection.execute(sql.APPLIED)).fetchall()
    except psycopg.Error as error:
        if error.sqlstate not in NO_SCHEMA:
            raise
        return set()
    applied = {int(number): str(name) for number, name in rows}
    if other := [name for number, name in applied.items() if number in migrations() and name != migrations()[number].name]:
        raise never_released(f"the database at {where}", f"schema {min(other)}")
    if unknown := applied.keys() - migrations().keys():
        raise NewerFormat(
            f"the database at {where} has schema {max(unknown)}, made by a newer Legato",
            expected=f"schema {max(migrations())} or older",
            found=f"schema {max(unknown)}",
            do="upgrade legato to use it; nothing was changed",
        )
    return set(applied)
