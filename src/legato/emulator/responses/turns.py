"""What was said, as it lies on the shelf. May know: the shelf. Decides: how chains and conversations are kept without copies.

A *turn* is what one request added: its new input and its output, and a link to the turn before it. A stored response is a row that
names its turn; so is a conversation, whose turn is the last of those added to it. A chain is found by following the links, so a
conversation of a thousand turns is kept once and not a thousand times. An input item that is on the shelf already, word for word, is
kept as a reference.

Deleting a response or a conversation deletes its row, so that nobody can build on it or ask for it any more. The turns stay: what was
built on them before goes on working, and so do references to their items.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from legato.emulator.shelf import Shelf, damaged
from legato.providers.rules.responses.held import HeldItem

REFERENCE = "item_reference"
REMEMBERED = 4096  # turns kept in memory beside the shelf: a turn never changes, and long chains are walked for every request


class Turn(Struct, frozen=True):
    """What one request added. `frame` tells the instructions, tools and model it was made with; empty: no model was asked."""

    id: str
    items: list[dict[str, Any]]
    parent: str = ""
    inputs: int = 0  # how many of the items were sent; the rest was answered
    tokens: int = 0
    frame: str = ""

    @property
    def sent(self) -> list[dict[str, Any]]:
        """What came with the request."""
        return self.items[: self.inputs]

    @property
    def answered(self) -> list[dict[str, Any]]:
        """What the model said."""
        return self.items[self.inputs :]


class _Place(Struct):
    """Where an item lies, and what it was born with."""

    turn: str
    reasoning: str = ""
    following: str = ""
    index: int = 0  # among the turn's items


ThingT = TypeVar("ThingT")


class Turns:
    """The turns of all accounts on a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._row = lru_cache(maxsize=REMEMBERED)(self._read)

    def add(self, account: str, turn: Turn) -> None:
        """Keep a turn, and where to find its items. An item that is known keeps its first place."""
        neighbours = itertools.pairwise(turn.answered)
        following = {before["id"]: after["id"] for before, after in neighbours if before["type"] == "reasoning"}
        reasoning = {after: before for before, after in following.items()}
        kept = msgspec.structs.replace(turn, items=[self._once(account, item) for item in turn.sent] + turn.answered)
        self._shelf.put(account, "turn", turn.id, msgspec.to_builtins(kept))
        for index, item in enumerate(kept.items):
            id = item["id"]
            if item["type"] != REFERENCE and self._shelf.get(account, "item", id) is None:
                place = _Place(turn.id, reasoning.get(id, ""), following.get(id, ""), index)
                self._shelf.put(account, "item", id, msgspec.to_builtins(place))

    def get(self, account: str, id: str) -> Turn | None:
        """A turn, its references replaced by what they stand for. It is shared: look, do not touch."""
        try:
            turn = self._row(account, id)
        except KeyError:
            return None
        if all(item["type"] != REFERENCE for item in turn.items):
            return turn
        return msgspec.structs.replace(turn, items=[self._resolved(account, item) for item in turn.items])

    def walk(self, account: str, id: str) -> list[Turn]:
        """A turn and all that it stands on, the oldest first."""
        found: list[Turn] = []
        while id and (turn := self.get(account, id)):
            found.append(turn)
            id = turn.parent
        return found[::-1]

    def item(self, account: str, id: str) -> HeldItem | None:
        """A stored item."""
        row = self._shelf.get(account, "item", id)
        if row is None:
            return None
        place = _read_as(_Place, "item", id, row)
        item = self._at(account, place, id)
        return HeldItem(item, place.reasoning, place.following) if item else None

    def _at(self, account: str, place: _Place, id: str) -> dict[str, Any] | None:
        """What lies at a place. A shelf of an older emulator does not tell the index, so there it is looked for."""
        try:
            items = self._row(account, place.turn).items
        except KeyError:
            return None
        here = items[place.index : place.index + 1]
        return next((item for item in itertools.chain(here, items) if item.get("id") == id), None)

    def _read(self, account: str, id: str) -> Turn:
        row = self._shelf.get(account, "turn", id)
        if row is None:
            raise KeyError(id)  # which, unlike an answer, is not remembered
        return _read_as(Turn, "turn", id, row)

    def _once(self, account: str, item: dict[str, Any]) -> dict[str, Any]:
        held = self.item(account, item["id"])
        return {"type": REFERENCE, "id": item["id"]} if held and held.item == item else item

    def _resolved(self, account: str, item: dict[str, Any]) -> dict[str, Any]:
        held = self.item(account, item["id"]) if item["type"] == REFERENCE else None
        return held.item if held else item


def _read_as(kind: type[ThingT], name: str, id: str, row: dict[str, Any]) -> ThingT:
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        raise damaged(name, id, error) from error
