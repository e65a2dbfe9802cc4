"""A conversation as the model sees it. May know: well-formed messages. Decides: that messages of one role in a row are one turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from legato.providers.rules.anthropic.prefix import blocks_of


class Spot(Struct, frozen=True):
    """A block and where it stands."""

    message: int
    block: int
    value: dict[str, Any]

    @property
    def path(self) -> str:
        """As the API writes it."""
        return f"messages.{self.message}.content.{self.block}"

    @property
    def type(self) -> str:
        """The block's type."""
        return str(self.value["type"])


class Turn(Struct, frozen=True):
    """Messages of one role in a row."""

    role: str
    first: int  # the first message
    last: int
    spots: tuple[Spot, ...]

    def of(self, *types: str) -> list[Spot]:
        """The blocks of these types."""
        return [spot for spot in self.spots if spot.type in types]


class Step(Struct, frozen=True):
    """A turn between its neighbours."""

    turn: Turn
    before: Turn | None
    after: Turn | None


def turns_of(messages: list[dict[str, Any]]) -> list[Turn]:
    """The turns of a conversation."""
    turns: list[Turn] = []
    spots: list[Spot] = []
    first = 0
    for index, message in enumerate(messages):
        spots += [Spot(index, number, block) for number, block in enumerate(blocks_of(message.get("content")))]
        if index + 1 == len(messages) or messages[index + 1]["role"] != message["role"]:
            turns.append(Turn(message["role"], first, index, tuple(spots)))
            spots, first = [], index + 1
    return turns


def steps(turns: list[Turn]) -> Iterator[Step]:
    """Every turn with those next to it."""
    for index, turn in enumerate(turns):
        yield Step(turn, turns[index - 1] if index else None, turns[index + 1] if index + 1 < len(turns) else None)
