"""The clock and the source of names. May know: time and randomness. Decides: nothing; the core is told."""

from __future__ import annotations

import time
import uuid


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def fresh_name() -> str:
    """A name that no other ledger has."""
    return uuid.uuid4().hex
