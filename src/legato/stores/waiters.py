"""Who waits for a ledger to grow. May know: event loops and positions. Decides: nothing about facts.

A waiter lives in the event loop that made it; whoever records a fact, on whatever thread, wakes it there. A thousand waiters
cost a dictionary of futures and nothing while nothing happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Awaitable, Callable

from legato.errors import StoreError


class Waiters:
    """The coroutines that wait for one store's ledgers, by ledger."""

    def __init__(self) -> None:
        self.forget()
        _all.add(self)

    def forget(self) -> None:
        """Start anew: those who wait in a process do not wait in its forked child."""
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[asyncio.Future[bool], int]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def ledgers(self) -> list[str]:
        """The ledgers somebody waits for."""
        with self._lock:
            return list(self._waiting)

    def wake(self, ledger: str, length: int) -> None:
        """The ledger now has `length` facts: wake those who waited for fewer. Callable from any thread."""
        with self._lock:
            waiting = self._waiting.get(ledger, {})
            ready = [future for future, position in waiting.items() if length > position]
        for future in ready:
            _deliver(future, None)

    def fail(self, error: StoreError) -> None:
        """Nothing will ever wake them: tell them why."""
        with self._lock:
            everyone = [future for waiting in self._waiting.values() for future in waiting]
        for future in everyone:
            _deliver(future, error)

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
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        future: asyncio.Future[bool] = loop.create_future()
        with self._lock:
            self._waiting.setdefault(ledger, {})[future] = position
        try:
            if await length() > position:
                return True
            async with asyncio.timeout_at(until):
                return await future
        except TimeoutError:
            return False
        finally:
            if future.done() and not future.cancelled():
                future.exception()  # it may have been told of the store's end after it had ceased to listen
            with self._lock:
                waiting = self._waiting.get(ledger, {})
                waiting.pop(future, None)
                if not waiting:
                    self._waiting.pop(ledger, None)


_all: weakref.WeakSet[Waiters] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for waiters in list(_all):
        waiters.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _deliver(future: asyncio.Future[bool], error: StoreError | None) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(True)
        else:
            future.set_exception(error)

    loop = future.get_loop()
    if asyncio._get_running_loop() is loop:  # on this very thread: no need to wake it through its socket
        settle()
        return
    with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there any more
        loop.call_soon_threadsafe(settle)
