"""The migrations of a database's schema: the numbered files of `sql/`.

They go forward only, each once, in the order of their numbers; one that is missing below others that were run is run too. The first process
runs them, in one transaction and under a lock: the others wait, and find them done.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from legato.errors import NewerFormat
from legato.stores.postgres import statements as sql
from legato.stores.postgres.connection_pool import LONG_OPERATION_SILENCE_S, PostgresConnection
from legato.stores.postgres.errors import MISSING_SCHEMA_CODES
from legato.stores.store_errors import unreleased_format_error

SQL_FOLDER = Path(__file__).with_name("sql")


@cache
def list_migrations() -> dict[int, Path]:
    """Return the migration files by number."""
    return {int(path.name.partition("_")[0]): path for path in sorted(SQL_FOLDER.glob("*.sql"))}


async def migrate(connection: PostgresConnection, target: str) -> None:
    """Bring the schema up to this version of Legato; raise `NewerFormat` if it is newer."""
    if list_migrations().keys() - await _read_applied_numbers(connection, target):
        connection.silence_s = LONG_OPERATION_SILENCE_S
        async with connection.transaction():
            await connection.execute(sql.LOCK_MIGRATIONS)
            for statement in sql.CREATE_SCHEMA:
                await connection.execute(statement)
            applied = await _read_applied_numbers(connection, target)  # another process may have been faster
            for number, path in sorted(list_migrations().items()):
                if number not in applied:
                    await connection.execute(path.read_bytes(), prepare=False)  # several statements cannot be prepared
                    await connection.execute(sql.RECORD_MIGRATION, (number, path.name))


async def _read_applied_numbers(connection: psycopg.AsyncConnection[Any], target: str) -> set[int]:
    """Return the numbers of the migrations that were run on this database."""
    try:
        rows = await (await connection.execute(sql.READ_MIGRATIONS)).fetchall()
    except psycopg.Error as error:
        if error.sqlstate not in MISSING_SCHEMA_CODES:
            raise
        return set()
    applied = {int(number): str(name) for number, name in rows}
    if other := [name for number, name in applied.items() if number in list_migrations() and name != list_migrations()[number].name]:
        raise unreleased_format_error(f"the database at {target}", f"schema {min(other)}")
    if unknown := applied.keys() - list_migrations().keys():
        raise NewerFormat(
            f"the database at {target} has schema {max(unknown)}, made by a newer Legato",
            expected=f"schema {max(list_migrations())} or older",
            found=f"schema {max(unknown)}",
            do="upgrade legato to use it; nothing was changed",
        )
    return set(applied)
