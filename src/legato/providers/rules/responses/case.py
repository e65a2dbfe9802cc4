"""One request together with what the provider holds. May know: data. Decides: which items the request amounts to.

Whatever JSON a request is made of, nothing here raises: what has the wrong type is left out and is for the schema laws to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from msgspec import Struct

from legato.providers.rules.responses.held import UNSEEN, Blob, Held, HeldItem, ModelInfo, Nothing
from legato.providers.rules.responses.profile import OPENAI, Profile
from legato.providers.rules.responses.shapes import CALL_OF, ITEM_SHAPES, OPEN, PART_SHAPES, SPOKEN, TOOL_SHAPES, Shape

NOTHING = Nothing()
ROLES = ("assistant", "system", "developer", "user")
NOT_SPOKEN = frozenset((
    "function_call_output", "custom_tool_call_output", "computer_call_output", "shell_call_output", "apply_patch_call_output",
    "mcp_approval_response", "additional_tools", "configuration_update", "compaction_trigger", "item_reference",
))  # fmt: skip


def text(value: Any) -> str:
    """A string as it is; anything else as no string."""
    return value if isinstance(value, str) else ""


def type_of(item: dict[str, Any]) -> str:
    """The type of an item. Only messages and references may leave it out."""
    kind = item.get("type")
    if kind is None:
        return "item_reference" if "id" in item and "role" not in item and "content" not in item else "message"
    return text(kind)


class Part(Struct, frozen=True):
    """An element of a message's `content` as it was sent, where it stands, and what its type is made of."""

    path: str
    sent: Any
    part: dict[str, Any]  # empty, if it is no object
    type: str
    shape: Shape


class Item(Struct, frozen=True):
    """An element of `input` as it was sent, where it stands, and what its type is made of."""

    path: str
    sent: Any
    item: dict[str, Any]  # empty, if it is no object
    type: str
    shape: Shape
    parts: Sequence[Part] = ()  # a message's content, if that is an array


class Tool(Struct, frozen=True):
    """An element of `tools` as it was sent, where it stands, and what its type is made of."""

    path: str
    sent: Any
    tool: dict[str, Any]  # empty, if it is no object
    type: str
    shape: Shape


class Entry(Struct, frozen=True):
    """One item that the model would be given: sent, referred to, or held."""

    place: int
    path: str
    item: dict[str, Any]
    type: str
    id: str
    call: str
    own: bool  # it stands in the request, by value or by reference

    @property
    def spoken(self) -> bool:
        """Whether it is something that the model said or did."""
        return self.item.get("role") == "assistant" if self.type == "message" else self.type not in NOT_SPOKEN


class Pairs:
    """The calls and outputs of an input, by type of call and call id: for each the places where it stands, in order."""

    def __init__(self, entries: list[Entry]) -> None:
        self.calls: dict[tuple[str, str], list[int]] = {}
        self.outputs: dict[tuple[str, str], list[int]] = {}
        self.triggers = [entry.place for entry in entries if entry.type == "compaction_trigger"]
        self.unseen = [entry.place for entry in entries if entry.type == UNSEEN]
        for entry in entries:
            if entry.call and entry.type in SPOKEN:
                self.calls.setdefault((entry.type, entry.call), []).append(entry.place)
            elif entry.call and entry.type in CALL_OF:
                self.outputs.setdefault((CALL_OF[entry.type], entry.call), []).append(entry.place)

    def may_be_answered(self, place: int) -> bool:
        """Tell whether the output of a call at this place may be among items that cannot be seen."""
        return bool(self.unseen) and self.unseen[-1] > place

    def may_be_called(self, place: int) -> bool:
        """Tell whether the call of an output at this place may be among items that cannot be seen."""
        return bool(self.unseen) and self.unseen[0] < place


@dataclass
class Case:
    """A request, what the provider holds, which rules are in force, and how many tokens the whole comes to."""

    request: dict[str, Any]
    held: Held = NOTHING
    profile: Profile = OPENAI
    tokens: int = 0
    stray: tuple[Any, ...] = ()  # what was sent in place of an object, if something was; then `request` is empty

    def sent(self, name: str) -> Any:
        """A field's value; None if it is absent, and null means absent."""
        return self.request.get(name)

    @property
    def previous(self) -> str | None:
        """The id of the response that this one continues; None if it continues none."""
        value = self.sent("previous_response_id")
        return value if isinstance(value, str) else None

    @property
    def conversation(self) -> str | None:
        """The id of the conversation that this is part of; None if it is part of none."""
        value = self.sent("conversation")
        id = value.get("id") if isinstance(value, dict) else value
        return id if isinstance(id, str) else None

    @property
    def prompt(self) -> str | None:
        """The id of the stored prompt; None if there is to be none."""
        value = self.sent("prompt")
        return text(value.get("id")) if isinstance(value, dict) else None

    @property
    def stores(self) -> bool:
        """Whether the answer would be kept."""
        return self.sent("store") is not False and not self.profile.zero_data_retention

    @cached_property
    def model(self) -> ModelInfo | None:
        """What is known of the model."""
        return self.held.model(text(self.sent("model")))

    @property
    def inputs(self) -> list[Any]:
        """The elements of `input`; none if it is a string."""
        value = self.sent("input")
        return value if isinstance(value, list) else []

    @cached_property
    def items(self) -> list[Item]:
        """The elements of `input`, each with its shape."""
        items = []
        for index, sent in enumerate(self.inputs):
            if isinstance(sent, dict):
                path, kind = f"input[{index}]", type_of(sent)
                items.append(Item(path, sent, sent, kind, ITEM_SHAPES.get(kind, OPEN), _parts(path, kind, sent)))
            else:
                items.append(Item(f"input[{index}]", sent, {}, "", OPEN))
        return items

    @cached_property
    def tools(self) -> list[Tool]:
        """The elements of `tools`, each with its shape."""
        value, tools = self.sent("tools"), []
        for index, sent in enumerate(value if isinstance(value, list) else ()):
            tool = sent if isinstance(sent, dict) else {}
            kind = text(tool.get("type"))
            tools.append(Tool(f"tools[{index}]", sent, tool, kind, TOOL_SHAPES.get(kind, OPEN)))
        return tools

    @cached_property
    def chain(self) -> Sequence[dict[str, Any]] | None:
        """What the previous response stands on. None: there is no such response."""
        return self.held.chain(self.previous) if self.previous is not None else None

    @cached_property
    def talk(self) -> Sequence[dict[str, Any]] | None:
        """What the conversation holds. None: there is no such conversation."""
        return self.held.conversation(self.conversation) if self.conversation is not None else None

    @cached_property
    def before(self) -> Sequence[dict[str, Any]]:
        """What stands before the request's own input: the chain, or the conversation."""
        return (self.talk if self.previous is None else self.chain) or ()

    @cached_property
    def entries(self) -> list[Entry]:
        """Everything that the model would be given, in order. A reference stands for its item, if that is held."""
        entries: list[Entry] = []
        source = "conversation" if self.previous is None else "previous_response_id"
        for item in self.before:
            entries.append(_entry(len(entries), source, item, own=False))
        for each in self.items:
            item = each.item
            if each.type == "item_reference":
                found = self.look(text(item.get("id")))
                item = {**found.item, "id": item.get("id")} if found else item
            entries.append(_entry(len(entries), each.path, item, own=True))
        return entries

    @cached_property
    def pairs(self) -> Pairs:
        """Calls and their outputs."""
        return Pairs(self.entries)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where the item of an id stands. Sealed reasoning without an id is known by what its seal says."""
        places: dict[str, int] = {}
        for entry in self.entries:
            if entry.id:
                places.setdefault(entry.id, entry.place)
            elif entry.type == "reasoning":
                blob = self.opened(entry)
                if blob is not None and blob.item:
                    places.setdefault(blob.item, entry.place)
        return places

    @cached_property
    def sealed(self) -> list[Entry]:
        """The reasoning items of the request that carry encrypted content."""
        return [entry for entry in self.entries if entry.own and entry.type == "reasoning" and seal(entry)]

    @cached_property
    def _found(self) -> dict[str, HeldItem | None]:
        return {}

    def look(self, id: str) -> HeldItem | None:
        """A stored item; each is asked for once."""
        if id not in self._found:
            self._found[id] = self.held.item(id) if id else None
        return self._found[id]

    @cached_property
    def _opened(self) -> dict[str, Blob | None]:
        return {}

    def opened(self, entry: Entry) -> Blob | None:
        """What an entry's encrypted content holds; each is opened once. None if there is none, or it cannot be opened."""
        blob = seal(entry)
        if blob not in self._opened:
            self._opened[blob] = self.held.blob(blob) if blob else None
        return self._opened[blob]


def seal(entry: Entry) -> str:
    """The encrypted content of an entry."""
    return text(entry.item.get("encrypted_content"))


def _parts(path: str, kind: str, item: dict[str, Any]) -> Sequence[Part]:
    content = item.get("content")
    if kind != "message" or not isinstance(content, list):
        return ()
    parts = []
    for index, sent in enumerate(content):
        part = sent if isinstance(sent, dict) else {}
        type = text(part.get("type"))
        parts.append(Part(f"{path}.content[{index}]", sent, part, type, PART_SHAPES.get(type, OPEN)))
    return parts


def _entry(place: int, path: str, item: dict[str, Any], *, own: bool) -> Entry:
    return Entry(place, path, item, type_of(item), text(item.get("id")), text(item.get("call_id")), own)
