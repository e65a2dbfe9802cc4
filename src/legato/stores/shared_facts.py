"""Facts that ledgers share by forks, and the contents to drop when text is erased in them.

The facts of a fork before `shared` are those of its parent: the same objects in memory, the same rows elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from legato.core.redaction import LedgerRedaction


class _ForkedLedger(Protocol):
    @property
    def shared(self) -> int: ...


ForkT = TypeVar("ForkT", bound=_ForkedLedger)


def find_owner_ledger(ledger: ForkT, position: int, parent_of: Callable[[ForkT], ForkT | None]) -> ForkT:
    """Return the ledger in which this position was recorded. Ledgers with the same owner share the fact."""
    while position < ledger.shared and (parent := parent_of(ledger)) is not None:
        ledger = parent
    return ledger


def count_shared_facts(one: ForkT, other: ForkT, max_shared: int, parent_of: Callable[[ForkT], ForkT | None]) -> int:
    """Count the facts that two ledgers share; `max_shared` is the length of the shorter one. Shared facts come first."""
    low, high = 0, max_shared
    while low < high:
        middle = (low + high + 1) // 2
        together = find_owner_ledger(one, middle - 1, parent_of) == find_owner_ledger(other, middle - 1, parent_of)
        low, high = (middle, high) if together else (low, middle - 1)
    return low


def find_unreferenced_contents(redactions: Iterable[LedgerRedaction]) -> frozenset[str]:
    """Return the digests of the contents to drop: some ledger dropped them, and no ledger names them any more."""
    listed = list(redactions)
    return frozenset().union(*(each.dropped_contents for each in listed)).difference(*(each.remaining_contents for each in listed))
