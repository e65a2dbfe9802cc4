"""What performing an effect leads to. May know: facts. Decides: nothing.

An outcome proposes facts when it is recorded, not when it happened: by then the state may have moved, and what is no longer legal
is not proposed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from legato.core.facts import AnyFact
from legato.core.state import State
from legato.drive.ledger import Propose


def nothing(state: State) -> Iterator[AnyFact]:
    """Propose nothing."""
    yield from ()


@dataclass(frozen=True)
class Outcome:
    """Facts to propose, and contents to keep with them."""

    propose: Propose = nothing
    contents: Mapping[str, bytes] = field(default_factory=dict)
