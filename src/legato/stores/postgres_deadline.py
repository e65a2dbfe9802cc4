"""Connections that do not wait for ever. May know: how psycopg waits for a socket. Decides: when a silent server is given up.

A connection may be open and mute: a middlebox forgot it, a machine was frozen, a server was stopped. The kernel's keepalives do not notice
all of that, for what is in between may go on acknowledging. So every statement has a deadline of its own, which is put off whenever bytes
move: what takes long because it is much is not cut off.

psycopg runs a statement as a generator, which it resumes when the socket is ready, and every 0.1 s otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")

LONG_SILENCE_S = 600.0
"""For what the server may work on for long without a word: erasing, deleting families, migrations, large appends."""


class ServerSilent(psycopg.OperationalError):
    """The server did not answer in time. The connection is of no use any more."""


class AsyncDeadlineConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection for an event loop. `silence_s`: how long the server may say nothing while it is asked something."""

    silence_s = LONG_SILENCE_S

    async def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Run a libpq generator, with a deadline."""
        return await super().wait(_give_up_when_silent(gen, self.silence_s), *args, **options)


class DeadlineConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection for a thread. `silence_s`: how long the server may say nothing while it is asked something."""

    silence_s = LONG_SILENCE_S

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Run a libpq generator, with a deadline."""
        return super().wait(_give_up_when_silent(gen, self.silence_s), *args, **options)


def _give_up_when_silent(gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
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
