"""The clock, and the source of ids, keys and random numbers.

The core takes all of these as arguments. In a context that has set `clock` (a simulation), they come from that clock.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from contextvars import ContextVar


class Clock:
    """The clock of this machine, and its randomness."""

    def now_ms(self) -> int:
        """Return the milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary moment, to measure durations."""
        return time.monotonic()

    def new_id(self) -> str:
        """Return a new unique id, for a session or a ledger."""
        return uuid.uuid4().hex

    def new_key(self) -> bytes:
        """Return a new random key of 32 bytes."""
        return os.urandom(32)

    def random_fraction(self) -> float:
        """Return a random number from 0 up to 1, independent of `random.seed()` and different in forked processes."""
        return (int.from_bytes(os.urandom(7)) >> 3) / 2**53  # as `random.SystemRandom` does; importing `random` would import many modules


clock: ContextVar[Clock] = ContextVar("clock", default=Clock())  # noqa: B039 - a clock has no state


def now_ms() -> int:
    """Return the milliseconds since the epoch."""
    return clock.get().now_ms()


def monotonic() -> float:
    """Return the seconds since an arbitrary moment, to measure durations."""
    return clock.get().monotonic()


def elapsed_ms(started: float) -> int:
    """Return the milliseconds since a moment that `monotonic` gave."""
    return round((monotonic() - started) * 1000)


def new_id() -> str:
    """Return a new unique id, for a session or a ledger."""
    return clock.get().new_id()


def new_id_like(name: str) -> str:
    """Return a new id that begins like another id. It stays short: ids of branches of branches do not get longer.

    >>> len(new_id_like("customer-7")), len(new_id_like(new_id_like("customer-7")))
    (17, 17)
    """
    return f"{re.sub(r'-[0-9a-f]{6}$', '', name)[:300]}-{new_id()[:6]}"


def new_key() -> bytes:
    """Return a new random key of 32 bytes."""
    return clock.get().new_key()


def random_fraction() -> float:
    """Return a random number from 0 up to 1."""
    return clock.get().random_fraction()
