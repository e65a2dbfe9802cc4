"""Facts as rows of the database, and the rows that a redaction rewrites.

A redaction is planned here, from the rows that were read. Then the server carries it out in one transaction if none of the ledgers has
changed since; otherwise it is planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from zlib import crc32

from psycopg.types.numeric import Int2, Int4, Int8

from legato.core.codec import decode_fact, encode_fact
from legato.core.facts import LEDGER_FORMAT, AnyFact
from legato.core.redaction import LedgerRedaction
from legato.errors import DamagedStore, StoreError
from legato.stores.shared_facts import count_shared_facts, find_owner_ledger, find_unreferenced_contents
from legato.stores.store_errors import damaged_fact_error, replaced_ledger_error, unknown_ledger_error


def ledger_key(tenant: str, ledger: str) -> str:
    """Return the key of a ledger in notifications, which every role of the database can read."""
    return sha256(f"{len(tenant)} {tenant} {ledger}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def compute_checksum(position: int, body: bytes, format: int = LEDGER_FORMAT) -> Int4:
    """Return the checksum of a body at its position, as a signed number."""
    crc = crc32(body, crc32(b"%d.%d" % (position, format)))
    return Int4(crc - (1 << 32) if crc >> 31 else crc)


def encode_fact_columns(position: int, facts: Sequence[AnyFact]) -> tuple[Int2, list[bytes], list[Int4]]:
    """Encode facts that begin at a position. Return the format, and the columns of their bodies and checksums."""
    bodies = [encode_fact(fact) for fact in facts]
    return Int2(LEDGER_FORMAT), bodies, [compute_checksum(at, body) for at, body in enumerate(bodies, position)]


def raise_for_outcome(outcome: str, ledger: str) -> None:
    """Raise the error that an outcome of a server function stands for, unless it is "ok"."""
    if outcome == "unknown":
        raise unknown_ledger_error(ledger)
    if outcome == "another":
        raise replaced_ledger_error(ledger)
    if outcome != "ok":
        raise StoreError(f"the database answered {outcome!r}, which this version of Legato does not know", do="upgrade legato")


def decode_fact_rows(ledger: str, rows: Sequence[tuple[Any, ...]], start: int) -> tuple[list[AnyFact], DamagedStore | None]:
    """Decode rows, of which the first has the ledger's length. Return the facts before the first damage, and the damage, if any."""
    length = rows[0][0]
    facts: list[AnyFact] = []
    position = start
    for _, _, row_position, format, crc, body in rows[1:]:
        if row_position != position or position >= length or crc != compute_checksum(position, body, format):
            return facts, damaged_fact_error(f"session {ledger!r}", position, length)
        facts.append(decode_fact(body, format))
        position += 1
    return facts, None if position >= length else damaged_fact_error(f"session {ledger!r}", position, length)


class RelatedLedger(NamedTuple):
    """One ledger of a fork tree, as it was read. Facts before `shared` are those of `parent`."""

    id: int
    name: str | None
    parent: int | None
    shared: int
    length: int


class ForkTree:
    """All ledgers that are related by forks."""

    def __init__(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self.ledgers: dict[int | None, RelatedLedger] = {row[0]: RelatedLedger(*row) for row in rows}

    @property
    def named_ledgers(self) -> list[RelatedLedger]:
        return [each for each in self.ledgers.values() if each.name is not None and each.length]

    def parent_of(self, each: RelatedLedger) -> RelatedLedger | None:
        return self.ledgers.get(each.parent)

    def count_shared(self, one: RelatedLedger, other: RelatedLedger) -> int:
        """Count the facts, stored as the same rows, that two ledgers share."""
        return count_shared_facts(one, other, min(one.length, other.length), self.parent_of)

    def redaction_arguments(
        self, tenant: str, redacted_ledger: RelatedLedger, redactions: Mapping[int, LedgerRedaction]
    ) -> tuple[Any, ...]:
        """Return the arguments of the server's redact function: the planned redaction of each ledger, by number."""
        ledgers = list(self.ledgers.values())
        return (
            tenant,
            Int8(redacted_ledger.id),
            [Int8(each.id) for each in ledgers],
            [each.name for each in ledgers],
            [Int4(each.length) for each in ledgers],
            Int2(LEDGER_FORMAT),
            *_transpose(4, self._replaced_rows(redactions)),
            *_transpose(3, self._appended_rows(redactions)),
            Int8(max((fact.at for each in redactions.values() for fact in each.appended_facts), default=0)),
            sorted(find_unreferenced_contents(redactions.values())),
            *_transpose(5, self._content_rows(redactions)),
        )

    def _owner_id(self, id: int, position: int) -> int:
        return find_owner_ledger(self.ledgers[id], position, self.parent_of).id

    def _replaced_rows(self, redactions: Mapping[int, LedgerRedaction]) -> list[tuple[Any, ...]]:
        facts = {
            (self._owner_id(id, position), position): fact
            for id, each in redactions.items()
            for position, fact in each.replacements.items()
        }
        bodies = {place: encode_fact(fact) for place, fact in facts.items()}
        return [(Int8(id), Int4(position), compute_checksum(position, body), body) for (id, position), body in bodies.items()]

    def _appended_rows(self, redactions: Mapping[int, LedgerRedaction]) -> list[tuple[Any, ...]]:
        bodies = [(self.ledgers[id], encode_fact(fact)) for id, each in redactions.items() for fact in each.appended_facts]
        return [(Int8(each.id), compute_checksum(each.length, body), body) for each, body in bodies]

    def _content_rows(self, redactions: Mapping[int, LedgerRedaction]) -> list[tuple[Any, ...]]:
        contents = {
            (self._owner_id(id, position), digest): (position, body)
            for id, each in redactions.items()
            for digest, (position, body) in each.new_contents.items()
        }
        return [(Int8(id), digest, Int4(at), compute_checksum(at, body), body) for (id, digest), (at, body) in contents.items()]


def _transpose(width: int, rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Turn rows into columns, the arrays that the server takes."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
