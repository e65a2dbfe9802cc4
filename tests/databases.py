"""Databases for tests, on the one Postgres server that all processes of a test run share."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from legato.stores import PostgresStore

LEASE_SECONDS = 1.5  # so that the end of a process is noticed soon


class Server(NamedTuple):
    """A server, and a database on it with the schema, from which others are made: that is quicker than making the schema each time."""

    dsn: str
    template: str


def prepared(dsn: str, template: str) -> Server:
    """Make the first database."""
    create(Server(dsn, "template1"), template)

    async def make() -> None:
        async with PostgresStore(on(dsn, template)) as store:
            await store.list()

    with ThreadPoolExecutor(1) as elsewhere:  # an event loop may run here
        elsewhere.submit(lambda: asyncio.run(make())).result()
    return Server(dsn, template)


def on(server: str, database: str) -> str:
    """The DSN of another database on the same server."""
    return make_conninfo(**{**conninfo_to_dict(server), "dbname": database})


def as_url(dsn: str) -> str:
    """The same DSN as a command line wants it."""
    given = conninfo_to_dict(dsn)
    return f"postgresql:///{given.pop('dbname')}?{urlencode(given)}"


def create(server: Server, database: str) -> str:
    """Make a database, if there is none of that name."""
    made = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(database), sql.Identifier(server.template))
    with psycopg.connect(server.dsn, autocommit=True) as connection, contextlib.suppress(psycopg.errors.DuplicateDatabase):
        connection.execute(made)
    return on(server.dsn, database)


def drop(server: str, beginning: str) -> None:
    """Remove all databases whose names begin so."""
    with psycopg.connect(server, autocommit=True) as connection:
        found = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (beginning,)).fetchall()
        for (name,) in found:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def open_store(server: Server, prefix: str, name: str) -> PostgresStore:
    """A store on the database of this name, which is made if there is none. Other processes can be given this function."""
    return PostgresStore(create(server, prefix + name), lease_seconds=LEASE_SECONDS)
