"""One database as a process uses it. May know: event loops, connections, forks. Decides: what is tried again, and what ends when.

The stores of all tenants share it: a pool of connections for each event loop, one line that listens, who waits.
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
from legato.stores import postgres_statements as sql
from legato.stores.live import Waiters
from legato.stores.postgres_errors import NO_SCHEMA, in_our_words, is_gone, worth_another_try
from legato.stores.postgres_line import BEATS, Line, milliseconds
from legato.stores.postgres_pool import LONG_SILENCE_S, Connection, Pool, ServerSilent, SyncConnection, disown
from legato.stores.postgres_schema import ensure
from legato.stores.refusals import closed_store

T = TypeVar("T")
Rows: TypeAlias = list[tuple[Any, ...]]
ATTEMPTS = 6  # how often what others' writes undid is tried
UNLESS_SAID = {  # how a connection is made and watched over, where the DSN does not say
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "legato",
}


class Server:
    """What the stores of all tenants share: the connections, who waits, which leases are held."""

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
        self.where = _where(parameters)
        self.lease_seconds = lease_seconds
        self.schema_known = False
        self.closed = False
        self.waiters = Waiters()
        how = _Unshown({**UNLESS_SAID, **parameters, "autocommit": True, "prepare_threshold": 0 if prepare else None})
        settings = (milliseconds(lock_timeout), durable)
        silence_s = self._silence_s = lock_timeout + answer_timeout  # a statement may wait for a lock, and say nothing meanwhile
        # Leases live on if a connection that went mute is given up, and another one made, between two renewals.
        line_silence_s = min(silence_s, max(lease_seconds / 3, 1.0))
        line_connect_timeout = str(max(int(min(lease_seconds / 3, 10)), 2))
        line_how = _Unshown({**how, "connect_timeout": parameters.get("connect_timeout", line_connect_timeout)})
        self._pool_size = pool_size
        self._patience = max(lock_timeout, 1.0) * 3
        self._pools: list[Pool] = []
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._looks: set[asyncio.Task[Any]] = set()

        # Neither knows this object, so that it ends when nobody has it any more, whatever the line's thread does.
        def connect() -> SyncConnection:
            connection = SyncConnection.connect(**line_how)
            connection.silence_s = line_silence_s
            try:
                connection.execute(sql.CONFIGURE, (milliseconds(lease_seconds / BEATS), durable))
            except BaseException:
                connection.pgconn.finish()
                raise
            return connection

        async def connect_in_loop() -> Connection:
            connection = await Connection.connect(**how)
            connection.silence_s = silence_s
            try:
                await connection.execute(sql.CONFIGURE, settings)
            except BaseException:
                connection.pgconn.finish()
                raise
            return connection

        self._connect = connect_in_loop
        self.line = Line(connect, self.waiters, lease_seconds)
        weakref.finalize(self, _let_go, self.line, self._pools)
        _all.add(self)

    def pool(self) -> Pool:
        """The connections of the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self.closed:
                raise closed_store()
            for pool in self._pools:
                if pool.loop is loop:
                    return pool
            for pool in [pool for pool in self._pools if pool.loop.is_closed()]:
                pool.abandon()
                self._pools.remove(pool)
            made = Pool(loop, self._connect, self._pool_size, self._patience)
            self._pools.append(made)
            return made

    async def ensure_schema(self, connection: Connection) -> None:
        if not self.schema_known:
            await ensure(connection, self.where)
            self.schema_known = True

    async def to_the_end(self, doing: Coroutine[Any, Any, T], otherwise: Callable[[T], None] | None = None) -> T:
        task = self.keep(doing)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if otherwise is not None:
                task.add_done_callback(lambda done: None if done.cancelled() or done.exception() else otherwise(done.result()))
            raise

    async def for_as_long_as_asked(self, looking: Coroutine[Any, Any, T]) -> T:
        """What a look finds. Whoever has no more time leaves it: to cut it off, the server would have to answer. Closing waits for none."""
        task = asyncio.get_running_loop().create_task(looking)
        self._looks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def run(self, statement: LiteralString, given: Sequence[Any], *, again: bool = False, long: bool = False) -> Rows:
        """The rows of a statement. `again`: it may be asked twice; `long`: the server may work on it for long without a word."""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(random.random() * 0.01 * 2**attempt)
            pool = self.pool()
            try:
                connection = await pool.take()
                try:
                    await self.ensure_schema(connection)
                    connection.silence_s = LONG_SILENCE_S if long else self._silence_s
                    cursor = await connection.execute(statement, given, binary=True)
                    return await cursor.fetchall()
                finally:
                    pool.give_back(connection)
            except (psycopg.Error, OSError, UnicodeError) as error:
                if isinstance(error, ServerSilent):
                    pool.drop_idle()  # what silenced one connection may have silenced all
                if attempt == ATTEMPTS - 1:
                    raise in_our_words(error, self.where) from error
                if isinstance(error, psycopg.Error) and error.sqlstate in NO_SCHEMA and self.schema_known:
                    self.schema_known = False  # somebody made the database anew
                    continue
                if worth_another_try(error) or (again and attempt == 0 and is_gone(error)):
                    continue
                raise in_our_words(error, self.where) from error
        raise AssertionError("the last attempt returns or raises")

    def keep(self, doing: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Have it done, whoever waits for it."""
        task = asyncio.get_running_loop().create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._looks.discard(task)
        _ = task.cancelled() or task.exception()  # whoever asked was told, or was cancelled

    async def close(self) -> None:
        with self._lock:
            if self.closed:
                return
            self.closed = True
        self.waiters.fail(closed_store())
        here = asyncio.get_running_loop()
        mine = [task for task in list(self._tasks) if task.get_loop() is here and task is not asyncio.current_task()]
        if mine:
            await asyncio.wait(mine)
        await asyncio.to_thread(self.line.stop)
        for pool in self._pools:
            if pool.loop is here:
                pool.close()
            elif pool.loop.is_closed():
                pool.abandon()
            else:
                with suppress(RuntimeError):  # it was closed just now: `_let_go` does the rest
                    pool.loop.call_soon_threadsafe(pool.close)

    def after_fork(self) -> None:
        """A child shares nothing with its parent: it makes its own connections, and holds none of its leases."""
        self._lock = threading.Lock()
        self._tasks = set()
        self._looks = set()
        connection = self.line.disown()
        for pool in self._pools:
            pool.disown()
        if connection is not None:
            disown(connection)
        self._pools.clear()


_all: weakref.WeakSet[Server] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for server in list(_all):
        server.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _let_go(line: Line, pools: list[Pool]) -> None:
    """Nobody closed it, and nobody can any more."""
    line.stop(patience=0.5)
    for pool in pools:
        pool.abandon()


class _Unshown(dict[str, Any]):
    """Where a password may be among the values: nobody sees them who prints what is at hand."""

    def __repr__(self) -> str:
        return "<parameters of a connection>"


def parameters_of(dsn: str) -> dict[str, Any]:
    """What a DSN says; `BadInput` if it is none."""
    try:
        said = _Unshown(conninfo_to_dict(dsn))
    except (psycopg.Error, TypeError, AttributeError):
        said = _Unshown()  # what it says quotes the DSN, and so perhaps a password
        understood = False
    else:
        understood = not _has_a_password_astray(said)
    del dsn  # so that it is not among what a report of the error shows of this place
    if understood:
        return said
    raise BadInput(
        "this is no DSN that Postgres understands",
        expected="postgresql://user:password@host:port/database, or key=value pairs",
        do="escape what a URL needs to have escaped, as %2F for / and %40 for @ in a password; it is not shown here, for it may hold one",
    )


def _has_a_password_astray(said: Mapping[str, Any]) -> bool:
    """Whether a part of a password, with a / or an @ that was not escaped, was taken for where the database is.

    No host and no port is called so; a database may be, and cannot be told from that. A path to a socket comes from elsewhere in a DSN.
    """
    hosts = str(said.get("host") or "").split(",")
    ports = str(said.get("port") or "").split(",")
    return (
        any("@" in host and not host.startswith("/") for host in hosts)
        or "@" in str(said.get("dbname") or "")
        or not all(port.isdecimal() for port in ports if port)
    )


def _where(parameters: Mapping[str, Any]) -> str:
    """Which database, without what is nobody's business."""
    user = f"{parameters['user']}@" if parameters.get("user") else ""
    port = f":{parameters['port']}" if parameters.get("port") else ""
    return f"postgresql://{user}{parameters.get('host', '')}{port}/{parameters.get('dbname', '')}"
