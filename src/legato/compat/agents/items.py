"""The items of a run, in the SDK's types.

Items are made from the ledger on each access (`ledger_items.py`); they own nothing. Where the provider's type fits, the raw item is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from legato.compat.agents.context import Usage
from legato.compat.agents.exceptions import UserError
from legato.compat.agents.unsupported_errors import mirrors
from legato.compat.gaps import explain
from legato.core.pending_requests import Pending
from legato.tools import tool_output

if TYPE_CHECKING:
    from legato.compat.agents.agent import Agent

TResponseInputItem: TypeAlias = dict[str, Any]


@mirrors("RunItem")
@dataclass(eq=False)
class RunItem:
    """One thing that happened."""

    agent: Agent[Any]
    raw_item: Any
    type: str = ""

    def to_input_item(self) -> TResponseInputItem:
        """As an item that can be sent by value: without the id that its provider gave it."""
        return _sendable(self.raw_item)

    def release_agent(self) -> None:
        """Nothing is held that would have to be let go."""
        explain("release_agent()", "an item is made when it is asked for, and goes with who asked")


@dataclass(eq=False)
class MessageOutputItem(RunItem):
    type: str = "message_output_item"


@dataclass(eq=False)
class ReasoningItem(RunItem):
    type: str = "reasoning_item"


@dataclass(eq=False)
class ToolCallItem(RunItem):
    type: str = "tool_call_item"

    @property
    def tool_name(self) -> str | None:
        return _member(self.raw_item, "name")

    @property
    def call_id(self) -> str | None:
        return _member(self.raw_item, "call_id")


@dataclass(eq=False)
class HandoffCallItem(RunItem):
    type: str = "handoff_call_item"


@dataclass(eq=False)
class ToolCallOutputItem(RunItem):
    output: Any = None
    type: str = "tool_call_output_item"

    @property
    def call_id(self) -> str:
        id: str = self.raw_item["call_id"]
        return id


@dataclass(eq=False, kw_only=True)
class HandoffOutputItem(RunItem):
    source_agent: Agent[Any]
    target_agent: Agent[Any]
    type: str = "handoff_output_item"


@mirrors("ToolApprovalItem")
@dataclass(eq=False)
class ToolApprovalItem(RunItem):
    """A call that waits for a person. `pending` is Legato's request: it names the recorded call and the digest of its arguments."""

    pending: Pending | None = None
    type: str = "tool_approval_item"

    @property
    def name(self) -> str:
        name: str = self.raw_item.name
        return name

    tool_name = qualified_name = name
    tool_namespace = None

    def to_input_item(self) -> TResponseInputItem:
        """It is no item to send: the call itself is among the items too."""
        raise UserError("a call that waits is not sent: decide on it, or use result.to_input_list(), which says of it that it waits")

    @property
    def arguments(self) -> str:
        text: str = self.raw_item.arguments
        return text

    @property
    def call_id(self) -> str:
        id: str = self.raw_item.call_id
        return id


def _member(raw: Any, name: str) -> str | None:
    value: str | None = raw.get(name) if isinstance(raw, dict) else getattr(raw, name, None)
    return value


@mirrors("ModelResponse")
@dataclass(eq=False)
class ModelResponse:
    """A reply of a model: its output in OpenAI's types, what it used, and the provider's ids."""

    output: list[Any]
    usage: Usage
    response_id: str | None
    request_id: str | None = None

    def to_input_items(self) -> list[TResponseInputItem]:
        """Its items as items that can be sent by value."""
        return [_sendable(raw) for raw in self.output]


def _sendable(raw: Any) -> TResponseInputItem:
    """A raw item by value: without the id that its provider gave it."""
    item: dict[str, Any] = dict(raw) if isinstance(raw, dict) else raw.model_dump(exclude_none=True)
    if item.get("type") == "message":
        return {"role": "assistant", "content": _words(raw)}
    return {name: value for name, value in item.items() if name not in ("id", "status")}


def _words(message: Any) -> str:
    return "".join(getattr(part, "text", "") or getattr(part, "refusal", "") for part in message.content)


@mirrors("ItemHelpers")
class ItemHelpers:
    """The SDK's small readers of items."""

    @staticmethod
    def text_message_output(message: RunItem) -> str:
        """The words of a message."""
        return _words(message.raw_item)

    @classmethod
    def text_message_outputs(cls, items: Iterable[RunItem]) -> str:
        """The words of all messages among these items."""
        return "".join(cls.text_message_output(item) for item in items if isinstance(item, MessageOutputItem))

    @staticmethod
    def extract_last_text(message: Any) -> str | None:
        """The last words of a raw message."""
        content = getattr(message, "content", None)
        return getattr(content[-1], "text", None) if content else None

    @staticmethod
    def extract_last_content(message: Any) -> str:
        """The last words of a raw message, or of its refusal."""
        content = getattr(message, "content", None)
        return getattr(content[-1], "text", "") or getattr(content[-1], "refusal", "") if content else ""

    @staticmethod
    def extract_text(message: Any) -> str | None:
        """All words of a raw message that are no refusal."""
        return "".join(getattr(part, "text", "") for part in getattr(message, "content", None) or ()) or None

    @staticmethod
    def extract_refusal(message: Any) -> str | None:
        """The words of a raw message that refuse."""
        return "".join(getattr(part, "refusal", "") for part in getattr(message, "content", None) or ()) or None

    @staticmethod
    def tool_call_output_item(tool_call: Any, output: Any, **schema: Any) -> TResponseInputItem:
        """Return the output item for a call that the program ran itself."""
        return {"type": "function_call_output", "call_id": tool_call.call_id, "output": tool_output(output)}

    @staticmethod
    def input_to_new_input_list(input: str | list[TResponseInputItem]) -> list[TResponseInputItem]:
        """An input as a list of its own."""
        return [{"role": "user", "content": input}] if isinstance(input, str) else [dict(item) for item in input]
