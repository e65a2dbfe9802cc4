"""Tells those who look on, in the event loop of each, that a ledger has grown (`Waiters`) and what is being said (`Listeners`).

A thousand of them cost a dictionary, and nothing while nothing happens. Nothing of this is kept.

The pieces of a reply that a model is still writing are no facts, and no store keeps them. A store may carry them beside its ledgers, from
whoever drives to whoever looks on: such a store has a `live`. That is no part of the contract in `contract.py`: a store without one is
whole, and those who follow a conversation there see each reply when it is recorded. What carries notes promises little:

 a. `tell(ledger, note)` passes a note to those who listen to that ledger. It never waits and never raises. A note may be lost, come twice,
    late, or in another order: whoever listens has to be right all the same.
 b. `hear(ledger, heard)` calls `heard(note)` for each note that comes while the context is open, in the event loop that opened it.
 c. `listeners(ledger)` is 0 where nobody is known to listen; else a number that is another one when somebody has begun to. Whoever
    tells asks it for every word, so it must cost next to nothing: what takes time to find out is found out on the side.
 d. A note has at most `longest` bytes. `pace` is how many seconds' worth of words one note should hold: 0 where notes cost nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from legato.core.argument_checks import provides
from legato.errors import StoreError

T = TypeVar("T")
Heard: TypeAlias = Callable[[bytes], None]

A_LOOK = 1.0
"""Seconds that looking at the store may take at least, however short the time of a wait is: one of no time looks at what is there."""

BEYOND_ALL = sys.maxsize
"""The length that those are told who watch a store which is closed: looking at it, they learn why."""


@runtime_checkable
class Live(Protocol):
    """What carries notes; see the module's lettered contract."""

    @property
    def pace(self) -> float:
        """Seconds' worth of words that go into one note (d)."""
        ...

    @property
    def longest(self) -> int:
        """Bytes that a note may have (d)."""
        ...

    def listeners(self, ledger: str) -> int:
        """0: nobody is known to listen; any other number is another one when somebody has begun to (c)."""
        ...

    def tell(self, ledger: str, note: bytes) -> None:
        """Pass a note to those who listen (a)."""
        ...

    def hear(self, ledger: str, heard: Heard) -> AbstractAsyncContextManager[None]:
        """Listen for as long as the context is open (b)."""
        ...


def live_of(store: object) -> Live | None:
    """What carries the notes of a store, if it has that."""
    carrier = getattr(store, "live", None)
    kind = type(carrier)
    if kind not in _judged:  # asked once for each class: looking at a protocol costs as much as a whole step
        _judged[kind] = provides(carrier, Live)
    return carrier if _judged[kind] else None


_judged: dict[type, bool] = {}


class Listeners:
    """Those who listen in this process, by ledger: all there is to it for stores that live in one process."""

    pace = 0.0
    longest = 1_000_000

    def __init__(self) -> None:
        self.forget()
        _registries.add(self)

    def forget(self) -> None:
        """Start anew: those who listen in a process do not listen in its forked child."""
        self._lock = threading.Lock()
        self._begun = 0
        self._listening: dict[str, dict[int, tuple[asyncio.AbstractEventLoop, Heard]]] = {}

    def ledgers(self) -> list[str]:
        """What somebody listens to."""
        with self._lock:
            return list(self._listening)

    def listeners(self, ledger: str) -> int:
        """0 for nobody, else the number of the one that began last."""
        listening = self._listening.get(ledger)  # without the lock: it is asked for every word
        return max(listening, default=0) if listening else 0

    def tell(self, ledger: str, note: bytes) -> None:
        """Pass a note on. Callable from any thread."""
        if ledger not in self._listening:
            return
        with self._lock:
            listening = list(self._listening.get(ledger, {}).values())
        for loop, heard in listening:
            _call_in(loop, heard, note)

    @asynccontextmanager
    async def hear(self, ledger: str, heard: Heard) -> AsyncIterator[None]:
        """Listen for as long as the context is open."""
        with self._lock:
            self._begun += 1
            number = self._begun
            self._listening[ledger] = {**self._listening.get(ledger, {}), number: (asyncio.get_running_loop(), heard)}
        try:
            yield
        finally:
            with self._lock:
                listening = {key: value for key, value in self._listening.get(ledger, {}).items() if key != number}
                if listening:
                    self._listening[ledger] = listening
                else:
                    self._listening.pop(ledger, None)


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
        _call_in(self._loop, self._tell, length)

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
        _registries.add(self)

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


def _call_in(loop: asyncio.AbstractEventLoop, callback: Callable[[T], None], given: T) -> None:
    """Call it in this event loop; if that is the one that runs here, at once, without waking it through its socket."""
    if asyncio._get_running_loop() is loop:
        callback(given)
        return
    with suppress(RuntimeError):  # that loop is closed: nobody listens there any more
        loop.call_soon_threadsafe(callback, given)


_registries: weakref.WeakSet[Waiters | Listeners] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for registry in list(_registries):
        registry.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
