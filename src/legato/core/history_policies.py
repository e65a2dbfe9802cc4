"""History policies as data: rules for which groups of the conversation an agent sees.

A policy keeps or drops whole groups, or keeps only the text of a group. It never splits a call from its output, and never keeps reasoning
without the items after it. `Custom` names a choice made by user code; that choice is recorded with the reply
(`ModelReplied.kept_groups`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from legato.core.groups import Group


class Everything(Struct, frozen=True, tag_field="policy", tag="everything"):
    """The complete conversation, including what other agents' tools returned."""


class Dialogue(Struct, frozen=True, tag_field="policy", tag="dialogue"):
    """All messages and replies, without tool traffic."""


class SinceHandoff(Struct, frozen=True, tag_field="policy", tag="since_handoff"):
    """Everything from the reply that handed over to this agent."""


class LastTurns(Struct, frozen=True, tag_field="policy", tag="last"):
    """The last `turns` messages of the user and everything after the first of them."""

    turns: int


class OwnTools(Struct, frozen=True, tag_field="policy", tag="own_tools"):
    """All messages and replies, with the agent's own tool traffic and without that of other agents."""


class Summarised(Struct, frozen=True, tag_field="policy", tag="summarised"):
    """A summary in place of all but the last `keep` turns, once the conversation is larger than `tokens`."""

    tokens: int
    keep: int = 2


class Custom(Struct, frozen=True, tag_field="policy", tag="custom"):
    """The choice of a user's function, which is recorded in `ModelReplied.kept_groups`."""

    name: str


HistoryPolicy: TypeAlias = Everything | Dialogue | SinceHandoff | LastTurns | OwnTools | Summarised | Custom


def find_turns_start(groups: Sequence[Group], turns: int) -> int:
    """Return the index of the first of the last `turns` user messages; 0 if there are fewer."""
    for index in range(len(groups) - 1, -1, -1):
        if groups[index].kind == "said":
            turns -= 1
            if turns <= 0:
                return index
    return 0


def find_handoff_index(groups: Sequence[Group], agent: str) -> int:
    """Return the index of the reply that last handed over to this agent; 0 if there is none."""
    for index in range(len(groups) - 1, -1, -1):
        if groups[index].handed_to == agent:
            return index
    return 0


def to_ranges(indexes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the indexes of kept groups as inclusive ranges.

    >>> to_ranges([0, 1, 2, 7])
    ((0, 2), (7, 7))
    """
    ranges: list[tuple[int, int]] = []
    for index in indexes:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], index)
        else:
            ranges.append((index, index))
    return tuple(ranges)
