"""Facts as rows. May know: how facts are written as JSON. Decides: what of a damaged ledger can still be read."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from zlib import crc32

from psycopg.types.numeric import Int2, Int4

from legato.core.codec import decode, encode
from legato.core.facts import FORMAT, AnyFact
from legato.errors import DamagedStore, StoreError
from legato.stores.refusals import another_ledger, unknown_ledger


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
            return facts, _damage(ledger, position, length)
        facts.append(decode(body, format))
        position += 1
    return facts, None if position >= length else _damage(ledger, position, length)


def _damage(ledger: str, position: int, length: int) -> DamagedStore:
    return DamagedStore(
        f"a stored fact was changed since it was written: position {position} of {length}",
        readable=position,
        found=f"session {ledger!r}",
        do="store.salvage(ledger) gives the facts before it; restore the rest from a backup",
    )
