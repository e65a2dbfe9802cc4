"""What ledgers share by forks, and which contents go when words are erased in them.

The facts of a fork before `shared` are those of its parent: the same objects in memory, the same rows elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from legato.core.redaction import Erased


class _Fork(Protocol):
    @property
    def shared(self) -> int: ...


ForkT = TypeVar("ForkT", bound=_Fork)


def find_owner(ledger: ForkT, position: int, parent_of: Callable[[ForkT], ForkT | None]) -> ForkT:
    """Find the ledger in which this position was recorded: ledgers with the same one share it."""
    while position < ledger.shared and (parent := parent_of(ledger)) is not None:
        ledger = parent
    return ledger


def count_shared(one: ForkT, other: ForkT, most: int, parent_of: Callable[[ForkT], ForkT | None]) -> int:
    """Count the facts that two ledgers share; `most` is the length of the shorter one. What is shared comes first."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        together = find_owner(one, middle - 1, parent_of) == find_owner(other, middle - 1, parent_of)
        low, high = (middle, high) if together else (low, middle - 1)
    return low


def find_unnamed_contents(erased: Iterable[Erased]) -> frozenset[str]:
    """Find the digests of the contents to drop: some ledger dropped them, and none names them any more."""
    done = list(erased)
    return frozenset().union(*(each.dropped for each in done)).difference(*(each.named for each in done))
