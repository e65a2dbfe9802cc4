"""What could not be carried over. May know: groups. Decides: that each loss is told once.

A loss is recorded with the reply whose request it was left out of. Later requests leave the same thing out, and do not tell it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from legato.core.groups import Group


def not_told_yet(losses: list[str], groups: Iterable[Group]) -> tuple[str, ...]:
    """The losses that no reply in this view was recorded with."""
    if not losses:
        return ()
    told = {loss for group in groups if group.fact is not None for loss in group.fact.losses}
    return tuple(loss for loss in dict.fromkeys(losses) if loss not in told)
