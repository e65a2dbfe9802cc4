"""Folding long ledgers beside other work. May know: the state, the event loop. Decides: for how long a fold may hold the loop.

A fact takes one to three microseconds to fold, so a ledger of 20,000 turns takes a tenth of a second. Coroutines that fold what a store
holds do it here: after each slice, the other tasks of the loop have their turn. A shorter ledger is folded at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from legato.core.facts import AnyFact
from legato.core.state import State

FACTS_PER_SLICE = 1024
"""How many facts are folded before other tasks run: one to three milliseconds."""


async def fold_in_slices(facts: Sequence[AnyFact], session: str = "") -> State:
    """The state that these facts lead to; what `fold` gives."""
    state = State(session=session)
    await apply_in_slices(state, facts)
    return state


async def apply_in_slices(state: State, facts: Sequence[AnyFact], after_each: Callable[[], None] | None = None) -> None:
    """Advance a state by these facts. Until that is done it is for this caller alone, unless the facts are no more than a slice.

    `after_each` is called after each fact, if given.
    """
    apply, is_long = state.apply, len(facts) > FACTS_PER_SLICE
    for first in range(0, len(facts), FACTS_PER_SLICE):
        for fact in facts[first : first + FACTS_PER_SLICE] if is_long else facts:
            apply(fact)
            if after_each is not None:
                after_each()
        if is_long:
            await asyncio.sleep(0)
