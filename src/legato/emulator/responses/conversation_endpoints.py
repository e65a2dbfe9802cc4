"""The endpoints of conversations.

Deleting a conversation leaves its items, and deleting an item leaves the responses that were made with it.
"""

from __future__ import annotations

from typing import Any

from legato.emulator.ids import IdGenerator
from legato.emulator.request_types import EmulatorRequest
from legato.emulator.responses.endpoint_replies import (
    EndpointReply,
    Query,
    make_error,
    make_list,
    make_not_found,
    make_page,
    make_value_error,
)
from legato.emulator.responses.items import ItemIdGenerator, count_item_tokens, to_stored_item
from legato.emulator.responses.provider_state import ResponsesStorage
from legato.emulator.responses.stored_turns import REFERENCE_TYPE, StoredTurn
from legato.providers.rules.responses.error_messages import array_too_long, missing_member, unknown_member, wrong_type
from legato.providers.rules.responses.provider_state import EmptyResponsesState
from legato.providers.rules.responses.request_context import infer_item_type
from legato.providers.rules.responses.rules import ResponsesRuleSwitches, check_request

MAX_ADDED_ITEMS = 20  # in one request
_CHECK_MODEL = "gpt-4o"  # for checking items: any model will do


class ConversationEndpoints:
    """`/v1/conversations` and the paths below it. An account sees only its own conversations."""

    def __init__(self, storage: ResponsesStorage, ids: IdGenerator, switches: ResponsesRuleSwitches) -> None:
        self._storage = storage
        self._ids = ids
        self._switches = switches

    def create(self, request: EmulatorRequest, query: Query) -> EndpointReply:
        """Answer `POST /v1/conversations`."""
        items = request.body.get("items")
        error = self._check_retention() or self._check_body(request.body, ("items", "metadata"))
        if error or (error := self._check_items(request, [] if items is None else items, [])):
            return error
        row: dict[str, Any] = {
            "id": self._ids.make_hex_id("conv_", 48),
            "object": "conversation",
            "created_at": int(request.now),
            "metadata": request.body.get("metadata") or {},
            "tail": "",
            "deleted": [],
        }
        self._append_items(request, row, items or [])
        return 200, _to_public(row)

    def get(self, request: EmulatorRequest, id: str, query: Query) -> EndpointReply:
        """Answer `GET /v1/conversations/{id}`."""
        row = self._find_row(request, id)
        return (200, _to_public(row)) if row else _conversation_not_found(id)

    def update(self, request: EmulatorRequest, id: str, query: Query) -> EndpointReply:
        """Answer `POST /v1/conversations/{id}`, which replaces the metadata."""
        row = self._find_row(request, id)
        if row is None:
            return _conversation_not_found(id)
        if "metadata" not in request.body:
            return make_value_error(missing_member("metadata"))
        if error := self._check_body(request.body, ("metadata",)):
            return error
        row = {**row, "metadata": request.body["metadata"] or {}}
        self._storage.objects.put(request.account, "conversation", id, row)
        return 200, _to_public(row)

    def delete(self, request: EmulatorRequest, id: str, query: Query) -> EndpointReply:
        """Answer `DELETE /v1/conversations/{id}`."""
        if not self._storage.objects.delete(request.account, "conversation", id):
            return _conversation_not_found(id)
        return 200, {"id": id, "object": "conversation.deleted", "deleted": True}

    def list_items(self, request: EmulatorRequest, id: str, query: Query) -> EndpointReply:
        """Answer `GET /v1/conversations/{id}/items`."""
        row = self._find_row(request, id)
        return make_page(self._list_items(request, row), query) if row else _conversation_not_found(id)

    def add_items(self, request: EmulatorRequest, id: str, query: Query) -> EndpointReply:
        """Answer `POST /v1/conversations/{id}/items`. A conversation that another request has locked takes no items."""
        row = self._find_row(request, id)
        if row is None:
            return _conversation_not_found(id)
        if "items" not in request.body:
            return make_value_error(missing_member("items"))
        items = request.body["items"]
        if error := self._check_body(request.body, ("items",)) or self._check_items(request, items, self._list_items(request, row)):
            return error
        if (request.account, id) in self._storage.locks:
            message = "Another process is currently operating on this conversation. Please retry in a few seconds."
            return make_error(message, param="conversation", code="conversation_locked")
        return 200, make_list(self._append_items(request, row, items))

    def get_item(self, request: EmulatorRequest, id: str, item: str, query: Query) -> EndpointReply:
        """Answer `GET /v1/conversations/{id}/items/{item}`."""
        row = self._find_row(request, id)
        if row is None:
            return _conversation_not_found(id)
        matching = [each for each in self._list_items(request, row) if each["id"] == item]
        return (200, matching[0]) if matching else make_not_found("Item", item)

    def delete_item(self, request: EmulatorRequest, id: str, item: str, query: Query) -> EndpointReply:
        """Answer `DELETE /v1/conversations/{id}/items/{item}`."""
        row = self._find_row(request, id)
        if row is None:
            return _conversation_not_found(id)
        if all(each["id"] != item for each in self._list_items(request, row)):
            return make_not_found("Item", item)
        self._storage.objects.put(request.account, "conversation", id, {**row, "deleted": [*row["deleted"], item]})
        return 200, _to_public(row)

    def _find_row(self, request: EmulatorRequest, id: str) -> dict[str, Any] | None:
        return self._storage.find_conversation(request.account, id)

    def _list_items(self, request: EmulatorRequest, row: dict[str, Any]) -> list[dict[str, Any]]:
        return self._storage.list_items(request.account, row)

    # -- checking bodies -----------------------------------------------------------------------------------------------

    def _check_retention(self) -> EndpointReply | None:
        """Return the error for an account with zero data retention: it has no conversations (S6)."""
        body = {"input": "-", "conversation": "conv_"}
        return self._check_rules(body, "conversation", "conversation") if self._switches.zero_data_retention else None

    def _check_body(self, body: dict[str, Any], allowed_keys: tuple[str, ...]) -> EndpointReply | None:
        """Return the first error in a body's keys and metadata, which follow the rules of the Responses API."""
        for key in body:
            if key not in allowed_keys:
                return make_value_error(unknown_member(key))
        return self._check_rules({"input": "-", "metadata": body.get("metadata")}, "metadata", "metadata")

    def _check_items(self, request: EmulatorRequest, items: Any, present: list[dict[str, Any]]) -> EndpointReply | None:
        """Return the first error in the items, which follow the rules of input items."""
        if not isinstance(items, list):
            return make_value_error(wrong_type("items", "an array of input items", items))
        if len(items) > MAX_ADDED_ITEMS:
            return make_value_error(array_too_long("items", MAX_ADDED_ITEMS, len(items)))
        if error := self._check_rules({"input": items}, "input[", "items["):
            return error
        known_ids = {item["id"] for item in present}
        for item in items:
            id = item.get("id")
            if id and id in known_ids:
                return make_error(
                    f"Duplicate item found with id {id}. Remove duplicate items from your input and try again.", param="items"
                )
            known_ids.add(id)
            if infer_item_type(item) == REFERENCE_TYPE and self._storage.turns.find_item(request.account, id) is None:
                return make_error(f"Item with id '{id}' not found.", 404, param="items")
        return None

    def _check_rules(self, body: dict[str, Any], checked_param: str, reported_param: str) -> EndpointReply | None:
        for violation in check_request({"model": _CHECK_MODEL, **body}, EmptyResponsesState(), self._switches):
            if violation.param and violation.param.startswith(checked_param):
                message = violation.message.replace(f"'{checked_param}", f"'{reported_param}")
                return make_error(message, violation.status, reported_param + violation.param.removeprefix(checked_param), violation.code)
        return None

    def _append_items(self, request: EmulatorRequest, row: dict[str, Any], items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add the items in their stored form, and store the conversation's row."""
        ids = ItemIdGenerator(self._ids, request.now)
        added = [self._find_referenced_item(request, item) or to_stored_item(item, ids) for item in items]
        if added:
            turn = StoredTurn(ids.make_id("turn_"), added, row["tail"], input_count=len(added), tokens=count_item_tokens(added))
            self._storage.turns.add(request.account, turn)
            row = {**row, "tail": turn.id}
        self._storage.objects.put(request.account, "conversation", row["id"], row)
        return added

    def _find_referenced_item(self, request: EmulatorRequest, item: dict[str, Any]) -> dict[str, Any] | None:
        stored = self._storage.turns.find_item(request.account, item["id"]) if infer_item_type(item) == REFERENCE_TYPE else None
        return stored.item if stored else None


def _to_public(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("id", "object", "created_at", "metadata")}


def _conversation_not_found(id: str) -> EndpointReply:
    return make_not_found("Conversation", id)
