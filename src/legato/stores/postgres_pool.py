"""Connections: those of one event loop, and when a silent server is given up.

There is no task in the background: a connection is made when one is needed and none is free, so that whoever cannot have one is told why
and at once. One that lay idle while its server went away has something to read, its end; so that is looked for before it is used, which
costs a system call and no round trip.

A connection may be open and mute: a middlebox forgot it, a machine was frozen, a server was stopped. The kernel's keepalives do not notice
all of that, for what is in between may go on acknowledging. So every statement has a deadline of its own, which is put off whenever bytes
move: what takes long because it is much is not cut off.
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
from legato.stores.refusals import closed_store

T = TypeVar("T")

LONG_SILENCE_S = 600.0
"""For what the server may work on for long without a word: erasing, deleting families, migrations, large appends."""


class ServerSilent(psycopg.OperationalError):
    """The server did not answer in time. The connection is of no use any more."""


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection for an event loop. `silence_s`: how long the server may say nothing while it is asked something."""

    silence_s = LONG_SILENCE_S

    async def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Run a libpq generator, with a deadline."""
        return await super().wait(_give_up_when_silent(gen, self.silence_s), *args, **options)


class SyncConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection for a thread. `silence_s`: how long the server may say nothing while it is asked something."""

    silence_s = LONG_SILENCE_S

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Run a libpq generator, with a deadline."""
        return super().wait(_give_up_when_silent(gen, self.silence_s), *args, **options)


def _give_up_when_silent(gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """Pass on what psycopg runs a statement by: it is resumed when the socket is ready, and every 0.1 s otherwise."""
    try:
        wanted = next(gen)
        active = time.monotonic()
        while True:
            ready = yield wanted
            if ready:
                active = time.monotonic()
            elif time.monotonic() - active > seconds:
                raise ServerSilent(f"the server has not answered for {seconds:g} s; the connection was given up")
            wanted = gen.send(ready or 0)  # 0: the time until it is to look again is over
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        gen.close()


class Pool:
    """At most `size` connections, for the tasks of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connect: Callable[[], Awaitable[Connection]], size: int, patience: float) -> None:
        self.loop = loop
        self._connect = connect
        self._size = size
        self._patience = patience
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._taken = 0  # those in use, and those being made
        self._queue: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def take(self) -> Connection:
        """A connection of one's own, until it is given back."""
        while True:
            if self._closed:
                raise closed_store()
            while self._idle:
                connection = self._idle.pop()
                if _is_quiet(connection):
                    self._taken += 1
                    return connection
                self._drop(connection)
            if self._taken < self._size:
                return await self._make()
            await self._wait_for_another()

    def give_back(self, connection: Connection) -> None:
        """It is used no more by whoever took it."""
        self._taken -= 1
        if self._closed or connection.closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
            self._drop(connection)
        else:
            self._idle.append(connection)
        self._next()

    def drop_idle(self) -> None:
        """Close those that are idle: they may be of no use any more, and look as if they were."""
        while self._idle:
            self._drop(self._idle.pop())

    def close(self) -> None:
        """Close those that are idle now; the others when they are given back. In this pool's event loop, or when that is no more."""
        self._closed = True
        self.drop_idle()
        while self._queue:
            self._next()

    def abandon(self) -> None:
        """Close everything: its event loop runs no more, or this process ends."""
        self._closed = True
        for connection in list(self._all):
            self._drop(connection)

    def disown(self) -> None:
        """In a forked child: let go of what belongs to the parent without a word to the server."""
        self._closed = True
        for connection in self._all:
            disown(connection)
        self._all.clear()

    async def _make(self) -> Connection:
        self._taken += 1
        try:
            connection = await self._connect()
        except BaseException:
            self._taken -= 1
            self._next()
            raise
        self._all.add(connection)
        return connection

    async def _wait_for_another(self) -> None:
        turn: asyncio.Future[None] = self.loop.create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._next()  # it was given a turn, and does not use it
            if isinstance(error, TimeoutError):
                raise StoreLocked(
                    f"all {self._size} connections of this store are in use, for {self._patience:.0f} s",
                    do="give PostgresStore a larger pool_size, or look for what takes Postgres so long",
                ) from None
            raise

    def _next(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _drop(self, connection: Connection) -> None:
        self._all.discard(connection)
        connection.pgconn.finish()


def _is_quiet(connection: Connection) -> bool:
    """Whether it is open and has nothing to tell: whoever is idle has been asked nothing."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def disown(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
    """In a forked child: close a connection that the parent goes on using. The farewell must not reach the server."""
    with suppress(OSError, psycopg.Error):
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, connection.fileno())
        os.close(nothing)
        connection.pgconn.finish()
