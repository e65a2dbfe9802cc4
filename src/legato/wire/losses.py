"""What could not be carried over. May know: groups. Decides: that each loss is told once, and which reasoning is not offered again.

A loss is recorded with the reply whose request it was left out of. Later requests leave the same thing out, and do not tell it again.
After the provider refused reasoning, the reply to the same request without any is marked: what was made before it is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from legato.core.groups import Group

# Why reasoning does not go back.
FOREIGN = "only the model that made it can read it"
REFUSED = "the provider would not take it back"
UNWANTED = "replay_reasoning is off"
STANDS_LAST = "nothing followed it, and the provider takes none that stands last"

NOT_TAKEN_BACK = "only the provider that ran it can take it back"
"""Why something that a provider did by itself does not go on."""

BARE = "bare"
"""What `Answered.held` of a reply ends with whose request the provider only took without reasoning."""


def not_told_yet(losses: list[str], groups: Iterable[Group]) -> tuple[str, ...]:
    """The losses that no reply in this view was recorded with."""
    if not losses:
        return ()
    told = {loss for group in groups if group.fact is not None for loss in group.fact.losses}
    return tuple(loss for loss in dict.fromkeys(losses) if loss not in told)


def refused_before(groups: Iterable[Group], origin: str) -> float:
    """The position before which the provider refused reasoning of its own: none from before it is sent again; -1: it never did.

    A provider that has refused it twice is sent none at all: it would refuse every turn, and every turn would go twice.
    """
    replies = [(group.position, group.fact) for group in groups if group.fact is not None]
    marked = [position for position, fact in replies if fact.origin == origin and fact.held.endswith(BARE)]
    return inf if len(marked) > 1 else marked[0] if marked else -1
