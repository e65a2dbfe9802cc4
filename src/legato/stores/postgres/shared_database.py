"""One database as a process uses it: retries, background work, closing, and forks of the process.

The stores of all tenants share it: a connection pool for each event loop, one listener, and the watchers.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from legato.errors import BadInput
from legato.stores.ledger_watchers import LedgerWatchers
from legato.stores.postgres import statements as sql
from legato.stores.postgres.connection_pool import (
    LONG_OPERATION_SILENCE_S,
    ConnectionPool,
    PostgresConnection,
    ServerSilent,
    SyncPostgresConnection,
    detach_connection,
)
from legato.stores.postgres.errors import MISSING_SCHEMA_CODES, is_retryable, is_unavailable, translate_error
from legato.stores.postgres.listener import RENEWALS_PER_LEASE, Listener, format_milliseconds
from legato.stores.postgres.migrations import migrate
from legato.stores.store_errors import closed_store_error

T = TypeVar("T")
Rows: TypeAlias = list[tuple[Any, ...]]
MAX_ATTEMPTS = 6  # for a statement that concurrent writes have rolled back
DEFAULT_CONNECTION_PARAMETERS = {  # for parameters that the DSN does not have
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "legato",
}


class PostgresDatabase:
    """One database, shared by the stores of all tenants: connections, watchers, leases."""

    def __init__(
        self,
        parameters: dict[str, Any],
        lease_seconds: float,
        pool_size: int,
        lock_timeout: float,
        answer_timeout: float,
        prepare: bool,
        durable: bool,
    ) -> None:
        self.target = _describe_target(parameters)
        self.lease_seconds = lease_seconds
        self.is_schema_current = False
        self.is_closed = False
        self.watchers = LedgerWatchers()
        pool_parameters = _SecretParameters(
            {**DEFAULT_CONNECTION_PARAMETERS, **parameters, "autocommit": True, "prepare_threshold": 0 if prepare else None}
        )
        settings = (format_milliseconds(lock_timeout), durable)
        silence_s = self._silence_s = lock_timeout + answer_timeout  # a statement may wait for a lock, and the server is silent meanwhile
        # Leases stay valid if a silent connection is given up, and another one opened, between two renewals.
        listener_silence_s = min(silence_s, max(lease_seconds / 3, 1.0))
        connect_timeout = parameters.get("connect_timeout", str(max(int(min(lease_seconds / 3, 10)), 2)))
        listener_parameters = _SecretParameters({**pool_parameters, "connect_timeout": connect_timeout})
        self._pool_size = pool_size
        self._pool_timeout_s = max(lock_timeout, 1.0) * 3
        self._pools: list[ConnectionPool] = []
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._length_reads: set[asyncio.Task[Any]] = set()

        # Neither function refers to this object, so that it is collected when it is not used any more, while the thread still runs.
        def connect() -> SyncPostgresConnection:
            connection = SyncPostgresConnection.connect(**listener_parameters)
            connection.silence_s = listener_silence_s
            try:
                connection.execute(sql.CONFIGURE, (format_milliseconds(lease_seconds / RENEWALS_PER_LEASE), durable))
            except BaseException:
                connection.pgconn.finish()
                raise
            return connection

        async def connect_in_loop() -> PostgresConnection:
            connection = await PostgresConnection.connect(**pool_parameters)
            connection.silence_s = silence_s
            try:
                await connection.execute(sql.CONFIGURE, settings)
            except BaseException:
                connection.pgconn.finish()
                raise
            return connection

        self._connect = connect_in_loop
        self.listener = Listener(connect, self.watchers, lease_seconds)
        weakref.finalize(self, _close_abandoned, self.listener, self._pools)
        _databases.add(self)

    def pool(self) -> ConnectionPool:
        """Return the connection pool of the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self.is_closed:
                raise closed_store_error()
            for pool in self._pools:
                if pool.loop is loop:
                    return pool
            for pool in [pool for pool in self._pools if pool.loop.is_closed()]:
                pool.close_all()
                self._pools.remove(pool)
            new_pool = ConnectionPool(loop, self._connect, self._pool_size, self._pool_timeout_s)
            self._pools.append(new_pool)
            return new_pool

    async def ensure_schema(self, connection: PostgresConnection) -> None:
        if not self.is_schema_current:
            await migrate(connection, self.target)
            self.is_schema_current = True

    async def run_to_completion(self, work: Coroutine[Any, Any, T], on_unclaimed: Callable[[T], None] | None = None) -> T:
        """Run work to its end even if the caller is cancelled. `on_unclaimed` then gets the result."""
        task = self.run_in_background(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if on_unclaimed is not None:
                task.add_done_callback(lambda done: None if done.cancelled() or done.exception() else on_unclaimed(done.result()))
            raise

    async def await_or_abandon(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a read. A cancelled caller abandons it: to cut it off, the server would have to answer."""
        task = asyncio.get_running_loop().create_task(work)
        self._length_reads.add(task)
        task.add_done_callback(self._forget_task)
        return await asyncio.shield(task)

    async def execute(
        self, statement: LiteralString, arguments: Sequence[Any], *, is_repeatable: bool = False, is_long: bool = False
    ) -> Rows:
        """Execute a statement and return its rows. `is_repeatable`: it may run twice. `is_long`: the server may be silent for long."""
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                await asyncio.sleep(random.random() * 0.01 * 2**attempt)
            pool = self.pool()
            try:
                connection = await pool.acquire()
                try:
                    await self.ensure_schema(connection)
                    connection.silence_s = LONG_OPERATION_SILENCE_S if is_long else self._silence_s
                    cursor = await connection.execute(statement, arguments, binary=True)
                    return await cursor.fetchall()
                finally:
                    pool.release(connection)
            except (psycopg.Error, OSError, UnicodeError) as error:
                if isinstance(error, ServerSilent):
                    pool.close_idle()  # what silenced one connection may have silenced all
                if attempt == MAX_ATTEMPTS - 1:
                    raise translate_error(error, self.target) from error
                if isinstance(error, psycopg.Error) and error.sqlstate in MISSING_SCHEMA_CODES and self.is_schema_current:
                    self.is_schema_current = False  # the database was recreated
                    continue
                if is_retryable(error) or (is_repeatable and attempt == 0 and is_unavailable(error)):
                    continue
                raise translate_error(error, self.target) from error
        raise AssertionError("the last attempt returns or raises")

    def run_in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run work in a task that `close` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._length_reads.discard(task)
        _ = task.cancelled() or task.exception()  # the caller has got the exception, or was cancelled

    async def close(self) -> None:
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
        self.watchers.close(closed_store_error())
        here = asyncio.get_running_loop()
        mine = [task for task in list(self._tasks) if task.get_loop() is here and task is not asyncio.current_task()]
        if mine:
            await asyncio.wait(mine)
        await asyncio.to_thread(self.listener.stop)
        for pool in self._pools:
            if pool.loop is here:
                pool.close()
            elif pool.loop.is_closed():
                pool.close_all()
            else:
                with suppress(RuntimeError):  # the loop was closed just now: `_close_unused` does the rest
                    pool.loop.call_soon_threadsafe(pool.close)

    def detach_after_fork(self) -> None:
        """Reset a forked child: it opens connections of its own, and has none of its parent's leases."""
        self._lock = threading.Lock()
        self._tasks = set()
        self._length_reads = set()
        connection = self.listener.detach_after_fork()
        for pool in self._pools:
            pool.detach_after_fork()
        if connection is not None:
            detach_connection(connection)
        self._pools.clear()


_databases: weakref.WeakSet[PostgresDatabase] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for database in list(_databases):
        database.detach_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _close_abandoned(listener: Listener, pools: list[ConnectionPool]) -> None:
    """Close the connections of a database object that was collected without being closed."""
    listener.stop(timeout_s=0.5)
    for pool in pools:
        pool.close_all()


class _SecretParameters(dict[str, Any]):
    """Connection parameters, whose repr does not show a password."""

    def __repr__(self) -> str:
        return "<parameters of a connection>"


def parse_dsn(dsn: str) -> dict[str, Any]:
    """Return the parameters in a DSN; raise `BadInput` if it cannot be read."""
    try:
        parameters = _SecretParameters(conninfo_to_dict(dsn))
    except (psycopg.Error, TypeError, AttributeError):
        parameters = _SecretParameters()  # the error is dropped: it quotes the DSN, and so perhaps a password
        is_valid = False
    else:
        is_valid = not _has_misplaced_password(parameters)
    del dsn  # so that a traceback with local variables does not show it
    if is_valid:
        return parameters
    raise BadInput(
        "Postgres does not understand this DSN",
        expected="postgresql://user:password@host:port/database, or key=value pairs",
        do="escape special characters, such as / as %2F and @ as %40 in a password; the DSN is not shown here, because it may contain one",
    )


def _has_misplaced_password(parameters: Mapping[str, Any]) -> bool:
    """Return True if a part of a password, with an unescaped / or @, was parsed as a host, port or database.

    No host and no port has such a name; a database may have one, and cannot be distinguished. A path to a socket is at another place.
    """
    hosts = str(parameters.get("host") or "").split(",")
    ports = str(parameters.get("port") or "").split(",")
    return (
        any("@" in host and not host.startswith("/") for host in hosts)
        or "@" in str(parameters.get("dbname") or "")
        or not all(port.isdecimal() for port in ports if port)
    )


def _describe_target(parameters: Mapping[str, Any]) -> str:
    """Return the URL of the database without the password and other options."""
    user = f"{parameters['user']}@" if parameters.get("user") else ""
    port = f":{parameters['port']}" if parameters.get("port") else ""
    return f"postgresql://{user}{parameters.get('host', '')}{port}/{parameters.get('dbname', '')}"
