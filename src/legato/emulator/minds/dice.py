"""Chance that is the same every time. May know: hashes. Decides: nothing; it draws from what it is given."""

from __future__ import annotations

import hashlib


class Dice:
    """Draws that depend on nothing but what they are made from.

    >>> Dice("a", 1)(6) == Dice("a", 1)(6)
    True
    """

    def __init__(self, *made_from: object) -> None:
        self._key = "/".join(map(str, made_from)).encode("utf-8", "replace")
        self._count = 0

    def __call__(self, below: int) -> int:
        """A number from 0 on, below this one."""
        self._count += 1
        digest = hashlib.sha256(self._key + b"#%d" % self._count).digest()
        return int.from_bytes(digest[:8], "big") % max(1, below)
