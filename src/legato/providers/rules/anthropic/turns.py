"""The turns of a conversation: messages of one role in a row are one turn, as the model sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from legato.providers.rules.anthropic.prefix_digest import list_blocks


class PlacedBlock(Struct, frozen=True):
    """A content block and its place in the request."""

    message_index: int
    block_index: int
    value: dict[str, Any]

    @property
    def path(self) -> str:
        """The block's path as the API writes it."""
        return f"messages.{self.message_index}.content.{self.block_index}"

    @property
    def type(self) -> str:
        """The block's type."""
        return str(self.value["type"])


class RoleTurn(Struct, frozen=True):
    """Messages of one role in a row."""

    role: str
    first_index: int
    last_index: int
    blocks: tuple[PlacedBlock, ...]

    def blocks_of_type(self, *types: str) -> list[PlacedBlock]:
        """Return the blocks of these types."""
        return [block for block in self.blocks if block.type in types]


class TurnWithNeighbours(Struct, frozen=True):
    """A turn, the one before it and the one after it."""

    turn: RoleTurn
    before: RoleTurn | None
    after: RoleTurn | None


def merge_turns(messages: list[dict[str, Any]]) -> list[RoleTurn]:
    """Return the turns of a conversation."""
    turns: list[RoleTurn] = []
    blocks: list[PlacedBlock] = []
    first = 0
    for index, message in enumerate(messages):
        blocks += [PlacedBlock(index, number, block) for number, block in enumerate(list_blocks(message.get("content")))]
        if index + 1 == len(messages) or messages[index + 1]["role"] != message["role"]:
            turns.append(RoleTurn(message["role"], first, index, tuple(blocks)))
            blocks, first = [], index + 1
    return turns


def pair_with_neighbours(turns: list[RoleTurn]) -> Iterator[TurnWithNeighbours]:
    """Yield every turn with its neighbours."""
    for index, turn in enumerate(turns):
        yield TurnWithNeighbours(turn, turns[index - 1] if index else None, turns[index + 1] if index + 1 < len(turns) else None)
