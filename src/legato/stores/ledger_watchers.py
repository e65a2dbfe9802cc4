"""Watchers of ledgers: callbacks and waiters that are notified when a ledger grows, each in its own event loop.

A thousand watchers cost a dictionary, and nothing while nothing happens. Nothing of this is stored.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable

from legato.errors import StoreError
from legato.stores.loop_callbacks import call_in_loop, reset_after_fork

MIN_LOOKUP_TIMEOUT_S = 1.0
"""Seconds that reading a ledger's length may take at least, however short a wait is: a wait of 0 seconds reads what is there."""

CLOSED_STORE_LENGTH = sys.maxsize
"""The length that watchers of a closed store are given: when they read the store, it raises why."""


class _LedgerWatcher:
    """A callback for the growth of one ledger, and the length that it knows."""

    __slots__ = ("_loop", "_on_growth", "_watchers", "known_length", "ledger")

    def __init__(self, watchers: LedgerWatchers, ledger: str, known_length: int, on_growth: Callable[[int], None]) -> None:
        self.ledger = ledger
        self.known_length = known_length
        self._watchers = watchers
        self._loop = asyncio.get_running_loop()
        self._on_growth: Callable[[int], None] | None = on_growth

    def notify(self, length: int) -> None:
        call_in_loop(self._loop, self._call_on_growth, length)

    def cancel(self) -> None:
        self._on_growth = None  # a notification from another thread may still be on its way here
        self._watchers.remove(self)

    def _call_on_growth(self, length: int) -> None:
        if self._on_growth is not None:
            self._on_growth(length)


class LedgerWatchers:
    """The watchers of one store's ledgers."""

    def __init__(self) -> None:
        self.reset()
        reset_after_fork(self)

    def reset(self) -> None:
        """Forget all watchers, as a forked child does."""
        self._lock = threading.Lock()
        self._watchers: dict[str, list[_LedgerWatcher]] = {}
        self._closed_error: StoreError | None = None

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def __contains__(self, ledger: str) -> bool:
        return ledger in self._watchers

    def ledgers(self) -> list[str]:
        """Return the names of the watched ledgers."""
        with self._lock:
            return list(self._watchers)

    def notify(self, ledger: str, length: int) -> None:
        """Notify the watchers that know of fewer than `length` facts. Callable from any thread."""
        if ledger not in self._watchers:
            return
        with self._lock:
            ready = [watcher for watcher in self._watchers.get(ledger, ()) if length > watcher.known_length]
            for watcher in ready:
                watcher.known_length = length
        for watcher in ready:
            watcher.notify(length)

    def close(self, error: StoreError) -> None:
        """Notify all watchers that the store is closed; `wait` raises `error`."""
        with self._lock:
            self._closed_error = error
            everyone = [watcher for watchers in self._watchers.values() for watcher in watchers]
        for watcher in everyone:
            watcher.notify(CLOSED_STORE_LENGTH)

    def watch(self, ledger: str, position: int, on_growth: Callable[[int], None]) -> Callable[[], None]:
        """Have `on_growth` called with each new length above `position`, until the returned function is called.

        The store reads the present length *after* this call, so that no append is missed.
        """
        watcher = _LedgerWatcher(self, ledger, position, on_growth)
        with self._lock:
            self._watchers.setdefault(ledger, []).append(watcher)
        return watcher.cancel

    def remove(self, watcher: _LedgerWatcher) -> None:
        """Stop notifying a watcher."""
        with self._lock:
            watchers = self._watchers.get(watcher.ledger, [])
            if watcher in watchers:
                watchers.remove(watcher)
            if not watchers:
                self._watchers.pop(watcher.ledger, None)

    async def wait(
        self,
        ledger: str,
        position: int,
        timeout: float,  # noqa: ASYNC109 - a timeout is an answer here, not an error
        read_length: Callable[[], Awaitable[int]],
    ) -> bool:
        """Return True once the ledger has more than `position` facts, False when the time is over.

        `read_length` reads the store once, *after* this waiter can be notified: an append in between is seen one way or the other.
        """
        began = asyncio.get_running_loop().time()
        grown = asyncio.Event()
        stop_watching = self.watch(ledger, position, lambda length: grown.set())
        try:
            async with asyncio.timeout_at(began + max(timeout, MIN_LOOKUP_TIMEOUT_S)) as time:
                if await read_length() > position:
                    return True
                time.reschedule(began + timeout)
                await grown.wait()
        except TimeoutError:
            return False
        finally:
            stop_watching()
        if self._closed_error is not None:
            raise self._closed_error
        return True
