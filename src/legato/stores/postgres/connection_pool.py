"""The connection pool of one event loop, and connections that give up a silent server.

There is no background task: a connection is opened when one is needed and none is free, so that a failure reaches its caller at once. An
idle connection whose server went away has something to read, its end. That is checked before each use, which costs a system call and no
round trip.

A connection may be open and silent: a middlebox forgot it, a machine was frozen, a server was stopped. The kernel's keepalives do not
notice all of that, because a host in between may go on acknowledging. So every statement has a deadline, which is extended whenever bytes
move: a large transfer is not cut off.
"""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from legato.errors import StoreLocked
from legato.stores.store_errors import closed_store_error

T = TypeVar("T")

LONG_OPERATION_SILENCE_S = 600.0
"""The limit for statements that the server may work on for long: redactions, deletions, migrations, large appends."""


class ServerSilent(psycopg.OperationalError):
    """The server did not answer in time. The connection must not be used again."""


class PostgresConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection for an event loop. `silence_s`: how long the server may be silent during a statement."""

    silence_s = LONG_OPERATION_SILENCE_S

    async def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Run a libpq generator, with a deadline."""
        return await super().wait(_give_up_when_silent(gen, self.silence_s), *args, **options)


class SyncPostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection for a thread. `silence_s`: how long the server may be silent during a statement."""

    silence_s = LONG_OPERATION_SILENCE_S

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Run a libpq generator, with a deadline."""
        return super().wait(_give_up_when_silent(gen, self.silence_s), *args, **options)


def _give_up_when_silent(gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """Wrap the generator by which psycopg runs a statement. It is resumed when the socket is ready, and every 0.1 s otherwise."""
    try:
        wanted = next(gen)
        active = time.monotonic()
        while True:
            ready = yield wanted
            if ready:
                active = time.monotonic()
            elif time.monotonic() - active > seconds:
                raise ServerSilent(f"the server has not answered for {seconds:g} s; the connection was given up")
            wanted = gen.send(ready or 0)  # 0: the interval is over, and the socket is not ready
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        gen.close()


class ConnectionPool:
    """A pool of at most `size` connections, for the tasks of one event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, connect: Callable[[], Awaitable[PostgresConnection]], size: int, timeout_s: float
    ) -> None:
        self.loop = loop
        self._connect = connect
        self._size = size
        self._timeout_s = timeout_s
        self._idle: list[PostgresConnection] = []
        self._all: set[PostgresConnection] = set()
        self._in_use = 0  # connections in use, and connections being opened
        self._queue: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def acquire(self) -> PostgresConnection:
        """Return a connection for the caller alone, until it is released."""
        while True:
            if self._closed:
                raise closed_store_error()
            while self._idle:
                connection = self._idle.pop()
                if _is_usable(connection):
                    self._in_use += 1
                    return connection
                self._close_connection(connection)
            if self._in_use < self._size:
                return await self._open()
            await self._wait_for_turn()

    def release(self, connection: PostgresConnection) -> None:
        """Return a connection to the pool."""
        self._in_use -= 1
        if self._closed or connection.closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
            self._close_connection(connection)
        else:
            self._idle.append(connection)
        self._wake_next()

    def close_idle(self) -> None:
        """Close the idle connections: they may be broken without showing it."""
        while self._idle:
            self._close_connection(self._idle.pop())

    def close(self) -> None:
        """Close idle connections now, the others when they are released. Called in the pool's event loop, or when that has ended."""
        self._closed = True
        self.close_idle()
        while self._queue:
            self._wake_next()

    def close_all(self) -> None:
        """Close all connections: the event loop has ended, or the process ends."""
        self._closed = True
        for connection in list(self._all):
            self._close_connection(connection)

    def detach_after_fork(self) -> None:
        """Close the copies of the parent's connections in a forked child, without a message to the server."""
        self._closed = True
        for connection in self._all:
            detach_connection(connection)
        self._all.clear()

    async def _open(self) -> PostgresConnection:
        self._in_use += 1
        try:
            connection = await self._connect()
        except BaseException:
            self._in_use -= 1
            self._wake_next()
            raise
        self._all.add(connection)
        return connection

    async def _wait_for_turn(self) -> None:
        turn: asyncio.Future[None] = self.loop.create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(self._timeout_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._wake_next()  # this caller does not use its turn
            if isinstance(error, TimeoutError):
                raise StoreLocked(
                    f"all {self._size} connections of this store are in use, for {self._timeout_s:.0f} s",
                    do="give PostgresStore a larger pool_size, or find out what takes Postgres so long",
                ) from None
            raise

    def _wake_next(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _close_connection(self, connection: PostgresConnection) -> None:
        self._all.discard(connection)
        connection.pgconn.finish()


def _is_usable(connection: PostgresConnection) -> bool:
    """Return True if an idle connection is open and has received nothing: an idle connection expects no answer."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def detach_connection(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
    """Close the copy of a connection in a forked child. The goodbye message must not reach the server: the parent uses the connection."""
    with suppress(OSError, psycopg.Error):
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, connection.fileno())
        os.close(nothing)
        connection.pgconn.finish()
