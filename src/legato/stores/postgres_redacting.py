"""Erasing words in a database. May know: what the server's functions answer. Decides: which rows are rewritten.

What becomes of the ledgers is worked out here, from what was read; then the server does it in one transaction, if none of them has moved
since. Otherwise it is worked out again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from psycopg.types.numeric import Int2, Int4, Int8

from legato.core.codec import encode
from legato.core.erasing import Erased
from legato.core.facts import FORMAT
from legato.stores.postgres_rows import checksum


class Kin(NamedTuple):
    """One ledger of a family, as it was when it was looked at. Facts before `shared` are those of `parent`."""

    id: int
    name: str | None
    parent: int | None
    shared: int
    length: int


class Family:
    """All ledgers that have a fork in common."""

    def __init__(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self.kin = {row[0]: Kin(*row) for row in rows}

    @property
    def named(self) -> list[Kin]:
        return [each for each in self.kin.values() if each.name is not None and each.length]

    def owner(self, each: Kin, position: int) -> int:
        """The ledger whose row it is."""
        while each.parent is not None and position < each.shared:
            each = self.kin[each.parent]
        return each.id

    def shared(self, one: Kin, other: Kin) -> int:
        """How many facts two of them share: the same rows."""
        if one.id == other.id:
            return one.length
        low, high = 0, min(one.length, other.length)
        while low < high:  # what is shared comes first
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.owner(one, middle - 1) == self.owner(other, middle - 1) else (low, middle - 1)
        return low

    def parameters(self, tenant: str, asked: Kin, done: Mapping[int, Erased]) -> tuple[Any, ...]:
        """What the server is given to do it."""
        gone = frozenset().union(*(erased.dropped for erased in done.values())).difference(*(erased.named for erased in done.values()))
        replaced: dict[tuple[int, int], bytes] = {}
        contents: dict[tuple[int, str], tuple[int, bytes]] = {}
        added: list[tuple[int, int, bytes]] = []
        at = 0
        for id, erased in done.items():
            each = self.kin[id]
            replaced.update(((self.owner(each, position), position), encode(fact)) for position, fact in erased.replaced.items())
            for digest, (position, body) in erased.contents.items():
                contents[self.owner(each, position), digest] = position, body
            for fact in erased.added:
                added.append((id, each.length, encode(fact)))
                at = fact.at
        kin = list(self.kin.values())
        return (
            tenant,
            Int8(asked.id),
            [Int8(each.id) for each in kin],
            [each.name for each in kin],
            [Int4(each.length) for each in kin],
            Int2(FORMAT),
            [Int8(id) for id, _ in replaced],
            [Int4(position) for _, position in replaced],
            [checksum(position, body) for (_, position), body in replaced.items()],
            list(replaced.values()),
            [Int8(id) for id, _, _ in added],
            [checksum(position, body) for _, position, body in added],
            [body for _, _, body in added],
            Int8(at),
            sorted(gone),
            [Int8(id) for id, _ in contents],
            [digest for _, digest in contents],
            [Int4(position) for position, _ in contents.values()],
            [checksum(position, body) for position, body in contents.values()],
            [body for _, body in contents.values()],
        )
