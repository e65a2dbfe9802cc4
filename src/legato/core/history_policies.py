"""History policies as data. May know: groups. Decides: which groups an agent sees.

A policy keeps or drops whole groups, or keeps only the words of a group; it never splits a call from its output, and never keeps
reasoning without what followed it. `Custom` names a choice made by user code; that choice is recorded with the reply (`kept`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from legato.core.groups import Group


class Everything(Struct, frozen=True, tag_field="policy", tag="everything"):
    """The complete conversation, including what other agents' tools returned."""


class Dialogue(Struct, frozen=True, tag_field="policy", tag="dialogue"):
    """All words, no tool traffic."""


class SinceHandoff(Struct, frozen=True, tag_field="policy", tag="since_handoff"):
    """From the reply that handed over to this agent on."""


class Last(Struct, frozen=True, tag_field="policy", tag="last"):
    """The last `turns` messages of the user and all that followed them."""

    turns: int


class OwnTools(Struct, frozen=True, tag_field="policy", tag="own_tools"):
    """All words, and the agent's own tool traffic, but not that of others."""


class Summarised(Struct, frozen=True, tag_field="policy", tag="summarised"):
    """A summary of all but the last `keep` turns as soon as the conversation is larger than `tokens`."""

    tokens: int
    keep: int = 2


class Custom(Struct, frozen=True, tag_field="policy", tag="custom"):
    """What a function of the user's chose; the choice itself is recorded in `ModelReplied.kept`."""

    name: str


HistorySpec: TypeAlias = Everything | Dialogue | SinceHandoff | Last | OwnTools | Summarised | Custom


def last_turns(groups: Sequence[Group], turns: int) -> int:
    """The index where the last `turns` messages of the user begin."""
    for index in range(len(groups) - 1, -1, -1):
        if groups[index].kind == "said":
            turns -= 1
            if turns <= 0:
                return index
    return 0


def arrival(groups: Sequence[Group], agent: str) -> int:
    """The index of the reply that last handed over to this agent, or 0 if it never was handed control."""
    for index in range(len(groups) - 1, -1, -1):
        if groups[index].handed_to == agent:
            return index
    return 0


def ranges(indexes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Indexes of kept groups as inclusive runs.

    >>> ranges([0, 1, 2, 7])
    ((0, 2), (7, 7))
    """
    runs: list[tuple[int, int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return tuple(runs)
