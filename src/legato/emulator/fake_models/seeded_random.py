"""Random numbers that are the same every time."""

from __future__ import annotations

import hashlib


class SeededRandom:
    """A source of random numbers that depend only on its seed.

    >>> SeededRandom("a", 1)(6) == SeededRandom("a", 1)(6)
    True
    """

    def __init__(self, *seed_parts: object) -> None:
        self._key = "/".join(map(str, seed_parts)).encode("utf-8", "replace")
        self._count = 0

    def __call__(self, below: int) -> int:
        """Return a number from 0 to below `below`."""
        self._count += 1
        digest = hashlib.sha256(self._key + b"#%d" % self._count).digest()
        return int.from_bytes(digest[:8], "big") % max(1, below)
