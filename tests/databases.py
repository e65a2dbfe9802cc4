"""Databases for tests, on the one Postgres server that all processes of a test run share."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from legato.stores import PostgresStore

TEMPLATE = "legato_tests_template"
LEASE_SECONDS = 1.5  # so that the end of a process is noticed soon


def prepare(server: str) -> None:
    """A database with the schema in it, from which others are made: that is quicker than making the schema each time."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(77)")  # of several test processes one makes it; closing the connection unlocks
        if connection.execute("SELECT FROM pg_database WHERE datname = %s", (TEMPLATE,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE + "_new")))

            async def make() -> None:
                async with PostgresStore(on(server, TEMPLATE + "_new")) as store:
                    await store.list()

            with ThreadPoolExecutor(1) as elsewhere:  # an event loop may run here
                elsewhere.submit(lambda: asyncio.run(make())).result()
            renamed = sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(TEMPLATE + "_new"), sql.Identifier(TEMPLATE))
            connection.execute(renamed)


def on(server: str, database: str) -> str:
    """The DSN of another database on the same server."""
    return make_conninfo(**{**conninfo_to_dict(server), "dbname": database})


def create(server: str, database: str, template: str = TEMPLATE) -> str:
    """Make a database, if there is none of that name."""
    made = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(database), sql.Identifier(template))
    with psycopg.connect(server, autocommit=True) as connection, contextlib.suppress(psycopg.errors.DuplicateDatabase):
        connection.execute(made)
    return on(server, database)


def drop(server: str, beginning: str) -> None:
    """Remove all databases whose names begin so."""
    with psycopg.connect(server, autocommit=True) as connection:
        found = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (beginning,)).fetchall()
        for (name,) in found:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def open_store(server: str, prefix: str, name: str) -> PostgresStore:
    """A store on the database of this name, which is made if there is none. Other processes can be given this function."""
    return PostgresStore(create(server, prefix + name), lease_seconds=LEASE_SECONDS)

