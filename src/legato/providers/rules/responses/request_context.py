"""The context of one request: its fields, what the provider stores, and the items that the request amounts to.

Nothing here raises, whatever JSON a request is made of. A value of the wrong type is left out; the rules about types find it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from msgspec import Struct

from legato.providers.rules.responses.provider_state import (
    UNSEEN_TYPE,
    DecryptedContent,
    EmptyResponsesState,
    ResponsesModelInfo,
    ResponsesState,
    StoredItem,
)
from legato.providers.rules.responses.rule_switches import OPENAI, ResponsesRuleSwitches
from legato.providers.rules.responses.type_shapes import (
    CALL_TYPE_BY_OUTPUT_TYPE,
    CALL_TYPE_NAMES,
    ITEM_SHAPES,
    OPEN_SHAPE,
    PART_SHAPES,
    TOOL_SHAPES,
    TypeShape,
)

EMPTY_STATE = EmptyResponsesState()
MESSAGE_ROLES = ("assistant", "system", "developer", "user")
NON_MODEL_TYPES = frozenset((
    "function_call_output", "custom_tool_call_output", "computer_call_output", "shell_call_output", "apply_patch_call_output",
    "mcp_approval_response", "additional_tools", "configuration_update", "compaction_trigger", "item_reference",
))  # fmt: skip
"""Types of items that the model does not produce."""


def as_text(value: Any) -> str:
    """Return a string as it is, and an empty one for any other value."""
    return value if isinstance(value, str) else ""


def infer_item_type(item: dict[str, Any]) -> str:
    """Return the type of an item. Messages and references may leave it out."""
    type = item.get("type")
    if type is None:
        return "item_reference" if "id" in item and "role" not in item and "content" not in item else "message"
    return as_text(type)


class ContentPart(Struct, frozen=True):
    """An element of a message's `content`."""

    path: str
    raw: Any  # as it was sent
    members: dict[str, Any]  # empty if it is no object
    type: str
    shape: TypeShape


class RequestItem(Struct, frozen=True):
    """An element of `input`."""

    path: str
    raw: Any  # as it was sent
    members: dict[str, Any]  # empty if it is no object
    type: str
    shape: TypeShape
    parts: Sequence[ContentPart] = ()  # a message's content, if it is an array


class DeclaredTool(Struct, frozen=True):
    """An element of `tools`."""

    path: str
    raw: Any  # as it was sent
    members: dict[str, Any]  # empty if it is no object
    type: str
    shape: TypeShape


class InputEntry(Struct, frozen=True):
    """An item of the model's whole input: sent, referred to, or stored by the provider."""

    position: int
    path: str
    item: dict[str, Any]
    type: str
    id: str
    call_id: str
    is_in_request: bool  # by value or by reference

    @property
    def is_model_output(self) -> bool:
        """True if the model produced it."""
        return self.item.get("role") == "assistant" if self.type == "message" else self.type not in NON_MODEL_TYPES


class CallPairs:
    """The positions of all calls and outputs of an input, by type of call and call id."""

    def __init__(self, entries: list[InputEntry]) -> None:
        self.calls: dict[tuple[str, str], list[int]] = {}
        self.outputs: dict[tuple[str, str], list[int]] = {}
        self.compaction_triggers = [entry.position for entry in entries if entry.type == "compaction_trigger"]
        self.unseen_positions = [entry.position for entry in entries if entry.type == UNSEEN_TYPE]
        for entry in entries:
            if entry.call_id and entry.type in CALL_TYPE_NAMES:
                self.calls.setdefault((entry.type, entry.call_id), []).append(entry.position)
            elif entry.call_id and entry.type in CALL_TYPE_BY_OUTPUT_TYPE:
                self.outputs.setdefault((CALL_TYPE_BY_OUTPUT_TYPE[entry.type], entry.call_id), []).append(entry.position)

    def may_be_answered(self, position: int) -> bool:
        """Return True if the output of a call at this position may be among unseen items."""
        return bool(self.unseen_positions) and self.unseen_positions[-1] > position

    def may_be_called(self, position: int) -> bool:
        """Return True if the call of an output at this position may be among unseen items."""
        return bool(self.unseen_positions) and self.unseen_positions[0] < position


@dataclass
class ResponsesContext:
    """A request with the provider's state, the switches in force, and the number of tokens of the whole input."""

    request: dict[str, Any]
    state: ResponsesState = EMPTY_STATE
    switches: ResponsesRuleSwitches = OPENAI
    token_count: int = 0
    non_objects: tuple[Any, ...] = ()  # the body, if it is no object; then `request` is empty

    def get_field(self, name: str) -> Any:
        """Return a field's value. None: it is absent or null, which means the same."""
        return self.request.get(name)

    @property
    def previous_response_id(self) -> str | None:
        """The id of the response that this request continues, if any."""
        value = self.get_field("previous_response_id")
        return value if isinstance(value, str) else None

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation that this request belongs to, if any."""
        value = self.get_field("conversation")
        id = value.get("id") if isinstance(value, dict) else value
        return id if isinstance(id, str) else None

    @property
    def prompt_id(self) -> str | None:
        """The id of the stored prompt, if any."""
        value = self.get_field("prompt")
        return as_text(value.get("id")) if isinstance(value, dict) else None

    @property
    def is_response_stored(self) -> bool:
        """True if the provider would store the response."""
        return self.get_field("store") is not False and not self.switches.zero_data_retention

    @cached_property
    def model_info(self) -> ResponsesModelInfo | None:
        """The properties of the model. None: it does not exist."""
        return self.state.find_model(as_text(self.get_field("model")))

    @property
    def input_elements(self) -> list[Any]:
        """The elements of `input`; none if it is a string."""
        value = self.get_field("input")
        return value if isinstance(value, list) else []

    @cached_property
    def items(self) -> list[RequestItem]:
        """The elements of `input`, each with its shape."""
        items = []
        for index, raw in enumerate(self.input_elements):
            if isinstance(raw, dict):
                path, type = f"input[{index}]", infer_item_type(raw)
                items.append(RequestItem(path, raw, raw, type, ITEM_SHAPES.get(type, OPEN_SHAPE), _list_parts(path, type, raw)))
            else:
                items.append(RequestItem(f"input[{index}]", raw, {}, "", OPEN_SHAPE))
        return items

    @cached_property
    def tools(self) -> list[DeclaredTool]:
        """The elements of `tools`, each with its shape."""
        value, tools = self.get_field("tools"), []
        for index, raw in enumerate(value if isinstance(value, list) else ()):
            members = raw if isinstance(raw, dict) else {}
            type = as_text(members.get("type"))
            tools.append(DeclaredTool(f"tools[{index}]", raw, members, type, TOOL_SHAPES.get(type, OPEN_SHAPE)))
        return tools

    @cached_property
    def previous_items(self) -> Sequence[dict[str, Any]] | None:
        """The items of the previous response and of those it continues. None: there is no such response."""
        return self.state.find_response_items(self.previous_response_id) if self.previous_response_id is not None else None

    @cached_property
    def conversation_items(self) -> Sequence[dict[str, Any]] | None:
        """The items of the conversation. None: there is no such conversation."""
        return self.state.find_conversation_items(self.conversation_id) if self.conversation_id is not None else None

    @cached_property
    def items_before_input(self) -> Sequence[dict[str, Any]]:
        """The stored items before the request's own input."""
        return (self.conversation_items if self.previous_response_id is None else self.previous_items) or ()

    @cached_property
    def entries(self) -> list[InputEntry]:
        """The whole input of the model, in order. A reference is replaced by its item, if that is stored."""
        entries: list[InputEntry] = []
        source = "conversation" if self.previous_response_id is None else "previous_response_id"
        for item in self.items_before_input:
            entries.append(_make_entry(len(entries), source, item, is_in_request=False))
        for each in self.items:
            item = each.members
            if each.type == "item_reference":
                stored = self.find_stored_item(as_text(item.get("id")))
                item = {**stored.item, "id": item.get("id")} if stored else item
            entries.append(_make_entry(len(entries), each.path, item, is_in_request=True))
        return entries

    @cached_property
    def call_pairs(self) -> CallPairs:
        """The calls of the whole input and their outputs."""
        return CallPairs(self.entries)

    @cached_property
    def positions_by_id(self) -> dict[str, int]:
        """The position of each item id. Encrypted reasoning without an id has the id inside its encrypted content."""
        positions: dict[str, int] = {}
        for entry in self.entries:
            if entry.id:
                positions.setdefault(entry.id, entry.position)
            elif entry.type == "reasoning":
                content = self.decrypt(entry)
                if content is not None and content.item_id:
                    positions.setdefault(content.item_id, entry.position)
        return positions

    @cached_property
    def encrypted_reasoning(self) -> list[InputEntry]:
        """The reasoning items of the request that have encrypted content."""
        return [entry for entry in self.entries if entry.is_in_request and entry.type == "reasoning" and get_encrypted_content(entry)]

    @cached_property
    def _stored_items(self) -> dict[str, StoredItem | None]:
        return {}

    def find_stored_item(self, id: str) -> StoredItem | None:
        """Return a stored item. The state is queried once for each id."""
        if id not in self._stored_items:
            self._stored_items[id] = self.state.find_item(id) if id else None
        return self._stored_items[id]

    @cached_property
    def _decrypted(self) -> dict[str, DecryptedContent | None]:
        return {}

    def decrypt(self, entry: InputEntry) -> DecryptedContent | None:
        """Return the meaning of an entry's encrypted content, decrypted once. None: there is none, or it cannot be decrypted."""
        text = get_encrypted_content(entry)
        if text not in self._decrypted:
            self._decrypted[text] = self.state.decrypt(text) if text else None
        return self._decrypted[text]


def get_encrypted_content(entry: InputEntry) -> str:
    """Return the encrypted content of an entry; empty if it has none."""
    return as_text(entry.item.get("encrypted_content"))


def _list_parts(path: str, type: str, item: dict[str, Any]) -> Sequence[ContentPart]:
    content = item.get("content")
    if type != "message" or not isinstance(content, list):
        return ()
    parts = []
    for index, raw in enumerate(content):
        members = raw if isinstance(raw, dict) else {}
        part_type = as_text(members.get("type"))
        parts.append(ContentPart(f"{path}.content[{index}]", raw, members, part_type, PART_SHAPES.get(part_type, OPEN_SHAPE)))
    return parts


def _make_entry(position: int, path: str, item: dict[str, Any], *, is_in_request: bool) -> InputEntry:
    return InputEntry(position, path, item, infer_item_type(item), as_text(item.get("id")), as_text(item.get("call_id")), is_in_request)
