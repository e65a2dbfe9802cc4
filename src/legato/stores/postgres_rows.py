"""Facts as rows: what is written, what of a damaged ledger can still be read, and which rows erasing words rewrites.

What becomes of ledgers in which words are erased is worked out here, from what was read; then the server does it in one transaction, if
none of them has moved since. Otherwise it is worked out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from zlib import crc32

from psycopg.types.numeric import Int2, Int4, Int8

from legato.core.codec import decode, encode
from legato.core.facts import FORMAT, AnyFact
from legato.core.redaction import Erased
from legato.errors import DamagedStore, StoreError
from legato.stores.forks import count_shared, find_owner, find_unnamed_contents
from legato.stores.refusals import another_ledger, damaged_fact, unknown_ledger


def key_of(tenant: str, ledger: str) -> str:
    """What a ledger is called in notifications, which everybody in the database may hear."""
    return sha256(f"{len(tenant)} {tenant} {ledger}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def checksum(position: int, body: bytes, format: int = FORMAT) -> Int4:
    """The checksum of a body in its place, as a signed number."""
    crc = crc32(body, crc32(b"%d.%d" % (position, format)))
    return Int4(crc - (1 << 32) if crc >> 31 else crc)


def written(position: int, facts: Sequence[AnyFact]) -> tuple[Int2, list[bytes], list[Int4]]:
    bodies = [encode(fact) for fact in facts]
    return Int2(FORMAT), bodies, [checksum(at, body) for at, body in enumerate(bodies, position)]


def refuse(outcome: str, ledger: str) -> None:
    if outcome == "unknown":
        raise unknown_ledger(ledger)
    if outcome == "another":
        raise another_ledger(ledger)
    if outcome != "ok":
        raise StoreError(f"the database answered {outcome!r}, which this Legato does not know", do="upgrade legato")


def facts_in(ledger: str, rows: Sequence[tuple[Any, ...]], start: int) -> tuple[list[AnyFact], DamagedStore | None]:
    """The facts in these rows, of which the first says how many there are; and what is wrong with them, if something is."""
    length = rows[0][0]
    facts: list[AnyFact] = []
    position = start
    for _, _, found, format, crc, body in rows[1:]:
        if found != position or position >= length or crc != checksum(position, body, format):
            return facts, damaged_fact(f"session {ledger!r}", position, length)
        facts.append(decode(body, format))
        position += 1
    return facts, None if position >= length else damaged_fact(f"session {ledger!r}", position, length)


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
        self.kin: dict[int | None, Kin] = {row[0]: Kin(*row) for row in rows}

    @property
    def named(self) -> list[Kin]:
        return [each for each in self.kin.values() if each.name is not None and each.length]

    def parent_of(self, each: Kin) -> Kin | None:
        return self.kin.get(each.parent)

    def count_shared(self, one: Kin, other: Kin) -> int:
        """Count the facts that two of them share: the same rows."""
        return count_shared(one, other, min(one.length, other.length), self.parent_of)

    def redaction(self, tenant: str, asked: Kin, done: Mapping[int, Erased]) -> tuple[Any, ...]:
        """What the server is given to erase words: what became of each ledger, by number."""
        kin = list(self.kin.values())
        return (
            tenant,
            Int8(asked.id),
            [Int8(each.id) for each in kin],
            [each.name for each in kin],
            [Int4(each.length) for each in kin],
            Int2(FORMAT),
            *_columns(4, self._replaced(done)),
            *_columns(3, self._added(done)),
            Int8(max((fact.at for erased in done.values() for fact in erased.added), default=0)),
            sorted(find_unnamed_contents(done.values())),
            *_columns(5, self._contents(done)),
        )

    def _owner(self, id: int, position: int) -> int:
        return find_owner(self.kin[id], position, self.parent_of).id

    def _replaced(self, done: Mapping[int, Erased]) -> list[tuple[Any, ...]]:
        facts = {(self._owner(id, position), position): fact for id, each in done.items() for position, fact in each.replaced.items()}
        bodies = {place: encode(fact) for place, fact in facts.items()}
        return [(Int8(id), Int4(position), checksum(position, body), body) for (id, position), body in bodies.items()]

    def _added(self, done: Mapping[int, Erased]) -> list[tuple[Any, ...]]:
        bodies = [(self.kin[id], encode(fact)) for id, each in done.items() for fact in each.added]
        return [(Int8(each.id), checksum(each.length, body), body) for each, body in bodies]

    def _contents(self, done: Mapping[int, Erased]) -> list[tuple[Any, ...]]:
        contents = {
            (self._owner(id, position), digest): (position, body)
            for id, each in done.items()
            for digest, (position, body) in each.contents.items()
        }
        return [(Int8(id), digest, Int4(at), checksum(at, body), body) for (id, digest), (at, body) in contents.items()]


def _columns(width: int, rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows as columns: so arrays are given to the server."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
