"""Delta channels: carriers of the pieces of a reply that a model is still writing.

Such pieces, called deltas, are no facts, and no store keeps them. A store may carry them beside its ledgers, from the driver of a session
to its followers: such a store has an attribute `delta_channel`. It is no part of the contract in `contract.py`. Where a store has none,
followers see each reply when it is recorded. The rules of a delta channel:

 a. `publish(ledger, delta)` passes a delta to the subscribers of that ledger. It never waits and never raises. A delta may be lost, come
    twice, late or in another order: subscribers must be right all the same.
 b. `subscribe(ledger, on_delta)` calls `on_delta(delta)` for each delta while the context is open, in the event loop that opened it.
 c. `subscriber_version(ledger)` is 0 where no subscriber is known; else a number that changes whenever a subscriber is added. Publishers
    read it for every delta, so it must cost next to nothing: anything slow happens in the background.
 d. A delta has at most `max_delta_bytes`. `batch_interval_s` is how many seconds of text one delta should hold: 0 if deltas cost nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, TypeAlias, runtime_checkable

from legato.core.argument_checks import implements_protocol
from legato.stores.loop_callbacks import call_in_loop, reset_after_fork

OnDelta: TypeAlias = Callable[[bytes], None]
"""A subscriber's callback."""


@runtime_checkable
class DeltaChannel(Protocol):
    """A carrier of deltas; the letters in parentheses name the rules of the module."""

    @property
    def batch_interval_s(self) -> float:
        """Seconds of text that one delta should hold (d)."""
        ...

    @property
    def max_delta_bytes(self) -> int:
        """The largest size of a delta (d)."""
        ...

    def subscriber_version(self, ledger: str) -> int:
        """Return 0 if no subscriber is known, else a number that changes whenever a subscriber is added (c)."""
        ...

    def publish(self, ledger: str, delta: bytes) -> None:
        """Pass a delta to the subscribers (a)."""
        ...

    def subscribe(self, ledger: str, on_delta: OnDelta) -> AbstractAsyncContextManager[None]:
        """Subscribe for as long as the context is open (b)."""
        ...


def get_delta_channel(store: object) -> DeltaChannel | None:
    """Return the delta channel of a store, if it has one."""
    channel = getattr(store, "delta_channel", None)
    kind = type(channel)
    if kind not in _delta_channel_types:  # once for each class: a check against a protocol costs as much as a whole step
        _delta_channel_types[kind] = implements_protocol(channel, DeltaChannel)
    return channel if _delta_channel_types[kind] else None


_delta_channel_types: dict[type, bool] = {}


class LocalDeltaChannel:
    """The delta channel within one process. Stores that serve one process need no other."""

    batch_interval_s = 0.0
    max_delta_bytes = 1_000_000

    def __init__(self) -> None:
        self.reset()
        reset_after_fork(self)

    def reset(self) -> None:
        """Forget all subscribers, as a forked child does."""
        self._lock = threading.Lock()
        self._newest_version = 0
        self._subscribers: dict[str, dict[int, tuple[asyncio.AbstractEventLoop, OnDelta]]] = {}

    def ledgers(self) -> list[str]:
        """Return the names of the ledgers that have subscribers."""
        with self._lock:
            return list(self._subscribers)

    def subscriber_version(self, ledger: str) -> int:
        """Return the number of the newest subscriber, 0 if there is none."""
        subscribers = self._subscribers.get(ledger)  # without the lock: this is read for every delta
        return max(subscribers, default=0) if subscribers else 0

    def publish(self, ledger: str, delta: bytes) -> None:
        """Pass a delta to the subscribers. Callable from any thread."""
        if ledger not in self._subscribers:
            return
        with self._lock:
            subscribers = list(self._subscribers.get(ledger, {}).values())
        for loop, on_delta in subscribers:
            call_in_loop(loop, on_delta, delta)

    @asynccontextmanager
    async def subscribe(self, ledger: str, on_delta: OnDelta) -> AsyncIterator[None]:
        """Subscribe for as long as the context is open."""
        with self._lock:
            self._newest_version += 1
            version = self._newest_version
            self._subscribers[ledger] = {**self._subscribers.get(ledger, {}), version: (asyncio.get_running_loop(), on_delta)}
        try:
            yield
        finally:
            with self._lock:
                others = {key: value for key, value in self._subscribers.get(ledger, {}).items() if key != version}
                if others:
                    self._subscribers[ledger] = others
                else:
                    self._subscribers.pop(ledger, None)
