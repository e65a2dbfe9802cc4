"""The endpoints for conversations. May know: the store and the law book. Decides: which items a conversation takes in.

Deleting a conversation leaves its items, and deleting an item leaves the responses that were made with it.
"""

from __future__ import annotations

from typing import Any

from legato.emulator.asks import Ask
from legato.emulator.ids import Ids
from legato.emulator.responses.held import Store
from legato.emulator.responses.items import ItemIds, stored_form, tokens_of
from legato.emulator.responses.lists import Query, Reply, listed, not_found, page, refused, refused_for
from legato.emulator.responses.turns import REFERENCE, Turn
from legato.providers.rules.responses.case import type_of
from legato.providers.rules.responses.held import Nothing
from legato.providers.rules.responses.laws import Profile, judge
from legato.providers.rules.responses.texts import array_too_long, missing, unknown, wrong_type

MOST_ITEMS = 20  # that may be added at a time
_ANY_MODEL = "gpt-4o"


class ConversationEndpoints:
    """`/v1/conversations` and what is under it. Everything belongs to the account that asks."""

    def __init__(self, store: Store, ids: Ids, profile: Profile) -> None:
        self._store = store
        self._ids = ids
        self._profile = profile

    def create(self, ask: Ask, query: Query) -> Reply:
        """POST /v1/conversations."""
        items = ask.body.get("items")
        wrong = self._without_retention() or self._wrong(ask.body, ("items", "metadata"))
        if wrong or (wrong := self._wrong_items(ask, [] if items is None else items, [])):
            return wrong
        row: dict[str, Any] = {
            "id": self._ids.hex("conv_", 48),
            "object": "conversation",
            "created_at": int(ask.now),
            "metadata": ask.body.get("metadata") or {},
            "tail": "",
            "deleted": [],
        }
        self._append(ask, row, items or [])
        return 200, _public(row)

    def get(self, ask: Ask, id: str, query: Query) -> Reply:
        """GET /v1/conversations/{id}."""
        row = self._row(ask, id)
        return (200, _public(row)) if row else _no_conversation(id)

    def update(self, ask: Ask, id: str, query: Query) -> Reply:
        """POST /v1/conversations/{id}: other metadata."""
        row = self._row(ask, id)
        if row is None:
            return _no_conversation(id)
        if "metadata" not in ask.body:
            return refused_for(missing("metadata"))
        if wrong := self._wrong(ask.body, ("metadata",)):
            return wrong
        row = {**row, "metadata": ask.body["metadata"] or {}}
        self._store.shelf.put(ask.account, "conversation", id, row)
        return 200, _public(row)

    def delete(self, ask: Ask, id: str, query: Query) -> Reply:
        """DELETE /v1/conversations/{id}."""
        if not self._store.shelf.delete(ask.account, "conversation", id):
            return _no_conversation(id)
        return 200, {"id": id, "object": "conversation.deleted", "deleted": True}

    def list_items(self, ask: Ask, id: str, query: Query) -> Reply:
        """GET /v1/conversations/{id}/items."""
        row = self._row(ask, id)
        return page(self._items(ask, row), query) if row else _no_conversation(id)

    def add_items(self, ask: Ask, id: str, query: Query) -> Reply:
        """POST /v1/conversations/{id}/items. A conversation that a request is at work on takes in nothing else."""
        row = self._row(ask, id)
        if row is None:
            return _no_conversation(id)
        if "items" not in ask.body:
            return refused_for(missing("items"))
        items = ask.body["items"]
        if wrong := self._wrong(ask.body, ("items",)) or self._wrong_items(ask, items, self._items(ask, row)):
            return wrong
        if (ask.account, id) in self._store.locks:
            words = "Another process is currently operating on this conversation. Please retry in a few seconds."
            return refused(words, param="conversation", code="conversation_locked")
        return 200, listed(self._append(ask, row, items))

    def get_item(self, ask: Ask, id: str, item: str, query: Query) -> Reply:
        """GET /v1/conversations/{id}/items/{item}."""
        row = self._row(ask, id)
        if row is None:
            return _no_conversation(id)
        found = [one for one in self._items(ask, row) if one["id"] == item]
        return (200, found[0]) if found else not_found("Item", item)

    def delete_item(self, ask: Ask, id: str, item: str, query: Query) -> Reply:
        """DELETE /v1/conversations/{id}/items/{item}."""
        row = self._row(ask, id)
        if row is None:
            return _no_conversation(id)
        if all(one["id"] != item for one in self._items(ask, row)):
            return not_found("Item", item)
        self._store.shelf.put(ask.account, "conversation", id, {**row, "deleted": [*row["deleted"], item]})
        return 200, _public(row)

    def _row(self, ask: Ask, id: str) -> dict[str, Any] | None:
        return self._store.conversation(ask.account, id)

    def _items(self, ask: Ask, row: dict[str, Any]) -> list[dict[str, Any]]:
        return self._store.conversation_items(ask.account, row)

    # -- what may be in a body -----------------------------------------------------------------------------------------

    def _without_retention(self) -> Reply | None:
        """An account that keeps nothing has no conversations (S6)."""
        named = {"input": "-", "conversation": "conv_"}
        return self._judged(named, "conversation", "conversation") if self._profile.zero_data_retention else None

    def _wrong(self, body: dict[str, Any], known: tuple[str, ...]) -> Reply | None:
        """The first fault of a body's keys and metadata, which follow the same rules as a response's."""
        for key in body:
            if key not in known:
                return refused_for(unknown(key))
        return self._judged({"input": "-", "metadata": body.get("metadata")}, "metadata", "metadata")

    def _wrong_items(self, ask: Ask, items: Any, present: list[dict[str, Any]]) -> Reply | None:
        """The first fault of the items: each alone follows the same rules as an input item."""
        if not isinstance(items, list):
            return refused_for(wrong_type("items", "an array of input items", items))
        if len(items) > MOST_ITEMS:
            return refused_for(array_too_long("items", MOST_ITEMS, len(items)))
        if wrong := self._judged({"input": items}, "input[", "items["):
            return wrong
        seen = {item["id"] for item in present}
        for item in items:
            id = item.get("id")
            if id and id in seen:
                return refused(f"Duplicate item found with id {id}. Remove duplicate items from your input and try again.", param="items")
            seen.add(id)
            if type_of(item) == REFERENCE and self._store.turns.item(ask.account, id) is None:
                return refused(f"Item with id '{id}' not found.", 404, param="items")
        return None

    def _judged(self, request: dict[str, Any], param: str, ours: str) -> Reply | None:
        for complaint in judge({"model": _ANY_MODEL, **request}, Nothing(), self._profile):
            if complaint.param and complaint.param.startswith(param):
                message = complaint.message.replace(f"'{param}", f"'{ours}")
                return refused(message, complaint.status, ours + complaint.param.removeprefix(param), complaint.code)
        return None

    def _append(self, ask: Ask, row: dict[str, Any], items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add the items, as they are stored, and keep the conversation's row."""
        ids = ItemIds(self._ids, ask.now)
        added = [self._found(ask, item) or stored_form(item, ids) for item in items]
        if added:
            turn = Turn(ids.new("turn_"), added, row["tail"], inputs=len(added), tokens=tokens_of(added))
            self._store.turns.add(ask.account, turn)
            row = {**row, "tail": turn.id}
        self._store.shelf.put(ask.account, "conversation", row["id"], row)
        return added

    def _found(self, ask: Ask, item: dict[str, Any]) -> dict[str, Any] | None:
        held = self._store.turns.item(ask.account, item["id"]) if type_of(item) == REFERENCE else None
        return held.item if held else None


def _public(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("id", "object", "created_at", "metadata")}


def _no_conversation(id: str) -> Reply:
    return not_found("Conversation", id)
