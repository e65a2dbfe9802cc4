"""Databases for tests, on the Postgres server that all processes of a test run share."""

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

LEASE_SECONDS = 1.5  # short, so that the end of a process is noticed soon


class DatabaseServer(NamedTuple):
    """A server, and a template database with the schema. Copying it is quicker than creating the schema for each database."""

    dsn: str
    template: str


def prepare_server(dsn: str, template: str) -> DatabaseServer:
    """Create the template database of a server."""
    create_database(DatabaseServer(dsn, "template1"), template)

    async def create_schema() -> None:
        async with PostgresStore(replace_database(dsn, template)) as store:
            await store.list()

    with ThreadPoolExecutor(1) as executor:  # an event loop may run in this thread
        executor.submit(lambda: asyncio.run(create_schema())).result()
    return DatabaseServer(dsn, template)


def replace_database(server: str, database: str) -> str:
    """Return the DSN of another database on the same server."""
    return make_conninfo(**{**conninfo_to_dict(server), "dbname": database})


def convert_dsn_to_url(dsn: str) -> str:
    """Return the same DSN as a URL, for command lines."""
    parameters = conninfo_to_dict(dsn)
    return f"postgresql:///{parameters.pop('dbname')}?{urlencode(parameters)}"


def create_database(server: DatabaseServer, database: str) -> str:
    """Create a database, if there is none of that name; return its DSN."""
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(database), sql.Identifier(server.template))
    with psycopg.connect(server.dsn, autocommit=True) as connection, contextlib.suppress(psycopg.errors.DuplicateDatabase):
        connection.execute(statement)
    return replace_database(server.dsn, database)


def drop_databases(server: str, prefix: str) -> None:
    """Drop all databases whose names have this prefix."""
    with psycopg.connect(server, autocommit=True) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (prefix,)).fetchall()
        for (name,) in rows:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def open_store(server: DatabaseServer, prefix: str, name: str) -> PostgresStore:
    """Return a store on the database of this name, which is created if there is none. This function can be pickled for other processes."""
    return PostgresStore(create_database(server, prefix + name), lease_seconds=LEASE_SECONDS)
