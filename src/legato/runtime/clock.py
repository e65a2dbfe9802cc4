"""The clock and the source of names and random numbers. May know: time and randomness. Decides: nothing; the core is told.

What runs in a context in which `clock` was set (a simulation) takes all three from that clock.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from contextvars import ContextVar


class Clock:
    """The real one."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def seconds(self) -> float:
        """Seconds since some moment, for measuring how long something took."""
        return time.monotonic()

    def fresh_name(self) -> str:
        """A name that no other ledger has."""
        return uuid.uuid4().hex

    def fresh_key(self) -> bytes:
        """A key that nobody can guess."""
        return os.urandom(32)

    def random_fraction(self) -> float:
        """A random number from 0 up to 1, which no `random.seed()` and no fork of the process repeats."""
        return (int.from_bytes(os.urandom(7)) >> 3) / 2**53  # as `random.SystemRandom` does: `random` brings many modules


clock: ContextVar[Clock] = ContextVar("clock", default=Clock())  # noqa: B039 - a clock holds nothing that could change


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return clock.get().now_ms()


def seconds() -> float:
    """Seconds since some moment, for measuring how long something took."""
    return clock.get().seconds()


def fresh_name() -> str:
    """A name that no other ledger has."""
    return clock.get().fresh_name()


def fresh_like(name: str) -> str:
    """A name that nobody has, readable and short: branches of branches do not get longer.

    >>> len(fresh_like("customer-7")), len(fresh_like(fresh_like("customer-7")))
    (17, 17)
    """
    return f"{re.sub(r'-[0-9a-f]{6}$', '', name)[:300]}-{fresh_name()[:6]}"


def fresh_key() -> bytes:
    """A key that nobody can guess."""
    return clock.get().fresh_key()


def random_fraction() -> float:
    """A random number from 0 up to 1."""
    return clock.get().random_fraction()
