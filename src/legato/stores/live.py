"""What is being said, to whoever listens. May know: event loops. Decides: nothing about facts; nothing of this is kept.

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
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Protocol, TypeAlias, runtime_checkable

from legato.core.checking import provides

Heard: TypeAlias = Callable[[bytes], None]


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
        _all.add(self)

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
        here = asyncio._get_running_loop()
        for loop, heard in listening:
            if loop is here:
                heard(note)
            else:
                with suppress(RuntimeError):  # that loop is closed: nobody listens there any more
                    loop.call_soon_threadsafe(heard, note)

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


_all: weakref.WeakSet[Listeners] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for listeners in list(_all):
        listeners.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
