"""Ids that look like the provider's. May know: hashes. Decides: nothing about the conversation: they are drawn from a seed."""

from __future__ import annotations

import hashlib
import itertools
import string

ALPHANUMERIC = string.ascii_letters + string.digits


class Ids:
    """A stream of ids, the same for the same seed.

    >>> Ids(0).hex("resp_", 50) == Ids(0).hex("resp_", 50)
    True
    """

    def __init__(self, seed: int | str = 0) -> None:
        self._seed = str(seed)
        self._count = itertools.count()

    def _draw(self) -> str:
        return hashlib.sha512(f"{self._seed}/{next(self._count)}".encode()).hexdigest()

    def hex(self, prefix: str, length: int) -> str:
        """An id in hexadecimal digits."""
        return prefix + self._draw()[:length]

    def word(self, prefix: str, length: int) -> str:
        """An id in letters and digits."""
        number, letters = int(self._draw(), 16), []
        for _ in range(length):
            number, index = divmod(number, len(ALPHANUMERIC))
            letters.append(ALPHANUMERIC[index])
        return prefix + "".join(letters)

    def uuid(self) -> str:
        """An id in the form of a UUID."""
        digits = self._draw()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
