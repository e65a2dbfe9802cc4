"""The storage of chains and conversations as turns, without copies.

A *stored turn* has the new input and the output of one request, and a link to the turn before it. A stored response is a row that names
its turn; a conversation is a row that names its last turn. A chain is found by following the links, so a conversation of a thousand
turns is stored once and not a thousand times. An input item that equals a stored one is stored as a reference.

Deleting a response or a conversation deletes its row, so that it cannot be continued or retrieved. The turns stay: responses that
continued them go on working, and so do references to their items.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from legato.emulator.storage import ProviderStorage, make_damage_error
from legato.providers.rules.responses.provider_state import StoredItem

REFERENCE_TYPE = "item_reference"
MAX_CACHED_TURNS = 4096  # a turn never changes, and every request follows long chains


class StoredTurn(Struct, frozen=True, rename={"parent_id": "parent", "input_count": "inputs", "context_digest": "frame"}):
    """The items of one request. `context_digest` is that of the instructions, tools and model; empty if no model was requested."""

    id: str
    items: list[dict[str, Any]]
    parent_id: str = ""
    input_count: int = 0  # the first items are input, the others output
    tokens: int = 0
    context_digest: str = ""

    @property
    def input_items(self) -> list[dict[str, Any]]:
        """The items of the request."""
        return self.items[: self.input_count]

    @property
    def output_items(self) -> list[dict[str, Any]]:
        """The items of the reply."""
        return self.items[self.input_count :]


class _ItemLocation(Struct, rename={"turn_id": "turn", "reasoning_id": "reasoning", "next_item_id": "following"}):
    """The turn and the index of an item, and the items next to it when it was made."""

    turn_id: str
    reasoning_id: str = ""
    next_item_id: str = ""
    index: int = 0  # among the turn's items


RowT = TypeVar("RowT")


class TurnStorage:
    """The stored turns of all accounts."""

    def __init__(self, storage: ProviderStorage) -> None:
        self._storage = storage
        self._read_cached = lru_cache(maxsize=MAX_CACHED_TURNS)(self._read)

    def add(self, account: str, turn: StoredTurn) -> None:
        """Store a turn and the locations of its items. A known item keeps its first location."""
        pairs = itertools.pairwise(turn.output_items)
        next_ids = {before["id"]: after["id"] for before, after in pairs if before["type"] == "reasoning"}
        reasoning_ids = {after: before for before, after in next_ids.items()}
        stored_turn = msgspec.structs.replace(
            turn, items=[self._to_reference(account, item) for item in turn.input_items] + turn.output_items
        )
        self._storage.put(account, "turn", turn.id, msgspec.to_builtins(stored_turn))
        for index, item in enumerate(stored_turn.items):
            id = item["id"]
            if item["type"] != REFERENCE_TYPE and self._storage.get(account, "item", id) is None:
                location = _ItemLocation(turn.id, reasoning_ids.get(id, ""), next_ids.get(id, ""), index)
                self._storage.put(account, "item", id, msgspec.to_builtins(location))

    def find_turn(self, account: str, id: str) -> StoredTurn | None:
        """Return a turn with its references resolved. The object is shared: do not change it."""
        try:
            turn = self._read_cached(account, id)
        except KeyError:
            return None
        if all(item["type"] != REFERENCE_TYPE for item in turn.items):
            return turn
        return msgspec.structs.replace(turn, items=[self._resolve_reference(account, item) for item in turn.items])

    def list_chain(self, account: str, id: str) -> list[StoredTurn]:
        """Return a turn and all turns before it, the oldest first."""
        chain: list[StoredTurn] = []
        while id and (turn := self.find_turn(account, id)):
            chain.append(turn)
            id = turn.parent_id
        return chain[::-1]

    def find_item(self, account: str, id: str) -> StoredItem | None:
        """Return a stored item."""
        row = self._storage.get(account, "item", id)
        if row is None:
            return None
        location = _convert(_ItemLocation, "item", id, row)
        item = self._find_at(account, location, id)
        return StoredItem(item, location.reasoning_id, location.next_item_id) if item else None

    def _find_at(self, account: str, location: _ItemLocation, id: str) -> dict[str, Any] | None:
        """Return the item at a location. State files of older emulators have no index, so the item is searched for."""
        try:
            items = self._read_cached(account, location.turn_id).items
        except KeyError:
            return None
        expected = items[location.index : location.index + 1]
        return next((item for item in itertools.chain(expected, items) if item.get("id") == id), None)

    def _read(self, account: str, id: str) -> StoredTurn:
        row = self._storage.get(account, "turn", id)
        if row is None:
            raise KeyError(id)  # an exception, unlike a result, is not cached
        return _convert(StoredTurn, "turn", id, row)

    def _to_reference(self, account: str, item: dict[str, Any]) -> dict[str, Any]:
        stored = self.find_item(account, item["id"])
        return {"type": REFERENCE_TYPE, "id": item["id"]} if stored and stored.item == item else item

    def _resolve_reference(self, account: str, item: dict[str, Any]) -> dict[str, Any]:
        stored = self.find_item(account, item["id"]) if item["type"] == REFERENCE_TYPE else None
        return stored.item if stored else item


def _convert(kind: type[RowT], object_name: str, id: str, row: dict[str, Any]) -> RowT:
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        raise make_damage_error(object_name, id, error) from error
