"""Who waits for a ledger to grow. May know: event loops and positions. Decides: nothing about facts.

Whoever watches is called in the event loop that asked; whoever records a fact, on whatever thread, sees to it. A thousand of them cost a
dictionary and nothing while nothing happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable

from legato.errors import StoreError

A_LOOK = 1.0
"""Seconds that looking at the store may take at least, however short the time of a wait is: one of no time looks at what is there."""

BEYOND_ALL = sys.maxsize
"""The length that those are told who watch a store which is closed: looking at it, they learn why."""


class _Watch:
    """Somebody who watches one ledger, and what they know of it."""

    __slots__ = ("_loop", "_moved", "_waiters", "known", "ledger")

    def __init__(self, waiters: Waiters, ledger: str, known: int, moved: Callable[[int], None]) -> None:
        self.ledger = ledger
        self.known = known
        self._waiters = waiters
        self._loop = asyncio.get_running_loop()
        self._moved: Callable[[int], None] | None = moved

    def tell(self, length: int) -> None:
        if asyncio._get_running_loop() is self._loop:  # on this very thread: no need to wake it through its socket
            self._tell(length)
            return
        with contextlib.suppress(RuntimeError):  # that loop is closed: nobody listens there any more
            self._loop.call_soon_threadsafe(self._tell, length)

    def stop(self) -> None:
        self._moved = None  # what is on its way from another thread may still arrive here
        self._waiters.without(self)

    def _tell(self, length: int) -> None:
        if self._moved is not None:
            self._moved(length)


class Waiters:
    """Those who watch one store's ledgers, by ledger."""

    def __init__(self) -> None:
        self.forget()
        _all.add(self)

    def forget(self) -> None:
        """Start anew: those who wait in a process do not wait in its forked child."""
        self._lock = threading.Lock()
        self._watching: dict[str, list[_Watch]] = {}
        self._end: StoreError | None = None

    def __bool__(self) -> bool:
        return bool(self._watching)

    def __contains__(self, ledger: str) -> bool:
        return ledger in self._watching

    def ledgers(self) -> list[str]:
        """The ledgers somebody watches."""
        with self._lock:
            return list(self._watching)

    def wake(self, ledger: str, length: int) -> None:
        """The ledger now has `length` facts: tell those who know of fewer. Callable from any thread."""
        if ledger not in self._watching:
            return
        with self._lock:
            ready = [watch for watch in self._watching.get(ledger, ()) if length > watch.known]
            for watch in ready:
                watch.known = length
        for watch in ready:
            watch.tell(length)

    def fail(self, error: StoreError) -> None:
        """Nothing will ever be appended: tell them to look, and those who wait, why."""
        with self._lock:
            self._end = error
            everyone = [watch for watching in self._watching.values() for watch in watching]
        for watch in everyone:
            watch.tell(BEYOND_ALL)

    def watch(self, ledger: str, position: int, moved: Callable[[int], None]) -> Callable[[], None]:
        """Have `moved` called with each new length, until what this returns is called. What is there the store looks at *afterwards*."""
        watch = _Watch(self, ledger, position, moved)
        with self._lock:
            self._watching.setdefault(ledger, []).append(watch)
        return watch.stop

    def without(self, watch: _Watch) -> None:
        """Somebody watches no more."""
        with self._lock:
            watching = self._watching.get(watch.ledger, [])
            if watch in watching:
                watching.remove(watch)
            if not watching:
                self._watching.pop(watch.ledger, None)

    async def wait(
        self,
        ledger: str,
        position: int,
        timeout: float,  # noqa: ASYNC109 - it is an answer, not an error
        length: Callable[[], Awaitable[int]],
    ) -> bool:
        """True once the ledger has more than `position` facts, False when the time is over.

        `length` looks at the store once, *after* this waiter can be woken: an append in between is seen one way or the other.
        """
        began = asyncio.get_running_loop().time()
        grown = asyncio.Event()
        stop = self.watch(ledger, position, lambda length: grown.set())
        try:
            async with asyncio.timeout_at(began + max(timeout, A_LOOK)) as time:
                if await length() > position:
                    return True
                time.reschedule(began + timeout)
                await grown.wait()
        except TimeoutError:
            return False
        finally:
            stop()
        if self._end is not None:
            raise self._end
        return True


_all: weakref.WeakSet[Waiters] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for waiters in list(_all):
        waiters.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
