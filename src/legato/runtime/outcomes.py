"""What performing an effect leads to, and how it gets recorded, so that what is finished is not forgotten.

An outcome is recorded after it happened, and by then the state may have moved. The core says in which form it is still recorded, if in
any (`recordable`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from legato.core.facts import AnyFact
from legato.core.state import State, recordable
from legato.errors import BadInput, IllegalFact, LegatoError, StoreError
from legato.runtime.ledger import Ledger, Propose

PATIENCE = (0.0, 0.1, 0.5, 2.0, 8.0)
"""Seconds between attempts to record what a store refused: a disk may be cleared, a lock given up."""

_background: set[asyncio.Task[Any]] = set()  # the event loop holds tasks weakly; these outlive the driver that began them


class Outcome(Struct, frozen=True):
    """What performing an effect led to: facts to record, and contents to keep with them."""

    facts: tuple[AnyFact, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)
    known: int | None = None
    """How many facts there were when its making began, where that matters: see `classify`."""
    attempt: int = 1
    """The number of the model request that a reply came from."""
    decide: Propose | None = None
    """In place of facts: what decides them when they are recorded."""

    def propose(self, state: State) -> Iterator[AnyFact]:
        """The facts that are still to be recorded, in the form in which they may be."""
        if self.decide is not None:
            yield from self.decide(state)
        for fact in self.facts:
            if (recorded := recordable(fact, state, self.known, self.attempt)) is not None:
                yield recorded


async def no_outcome() -> Outcome:
    """Of an effect that is not performed after all."""
    return Outcome()


async def record_outcomes(ledger: Ledger, outcomes: Sequence[Outcome]) -> None:
    """Record these and nothing that would follow from them."""

    def propose(state: State) -> Iterator[AnyFact]:
        for outcome in outcomes:
            yield from outcome.propose(state)

    await ledger.append(propose, {digest: data for outcome in outcomes for digest, data in outcome.contents.items()})


async def record_each(ledger: Ledger, outcomes: list[Outcome]) -> None:
    """Record these one by one, and take each off the list then: one that cannot be recorded costs no other its record."""
    while outcomes:
        with suppress(IllegalFact, BadInput):
            await record_outcomes(ledger, outcomes[:1])
        del outcomes[0]


def record_later(ledger: Ledger, outcomes: Sequence[Outcome]) -> None:
    """Record these although nobody waits for it, and be patient with the store. What cannot be recorded is unknown to the next driver."""
    left = list(outcomes)

    async def keep() -> None:
        for pause in PATIENCE:
            await asyncio.sleep(pause)
            with suppress(StoreError):
                await record_each(ledger, left)
                return

    in_background(keep)


def in_background(doing: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do something that outlives whoever began it. The ledger has what came of it."""

    async def quietly() -> None:
        with suppress(LegatoError):
            await doing()

    task = asyncio.get_running_loop().create_task(quietly())
    _background.add(task)
    task.add_done_callback(_background.discard)
