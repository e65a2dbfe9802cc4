"""Ids that look like the provider's, drawn from a seed."""

from __future__ import annotations

import hashlib
import itertools
import string

ALPHANUMERIC = string.ascii_letters + string.digits


class IdGenerator:
    """A generator of ids, the same for the same seed.

    >>> IdGenerator(0).make_hex_id("resp_", 50) == IdGenerator(0).make_hex_id("resp_", 50)
    True
    """

    def __init__(self, seed: int | str = 0) -> None:
        self._seed = str(seed)
        self._count = itertools.count()

    def _draw_digits(self) -> str:
        return hashlib.sha512(f"{self._seed}/{next(self._count)}".encode()).hexdigest()

    def make_hex_id(self, prefix: str, length: int) -> str:
        """Return a prefix with hexadecimal digits."""
        return prefix + self._draw_digits()[:length]

    def make_alphanumeric_id(self, prefix: str, length: int) -> str:
        """Return a prefix with letters and digits."""
        number, characters = int(self._draw_digits(), 16), []
        for _ in range(length):
            number, index = divmod(number, len(ALPHANUMERIC))
            characters.append(ALPHANUMERIC[index])
        return prefix + "".join(characters)

    def make_uuid(self) -> str:
        """Return an id in the form of a UUID."""
        digits = self._draw_digits()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
