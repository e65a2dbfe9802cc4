"""The prompt and the reply of a fake model, in terms that belong to no API.

Prompts and replies are written to the emulator's log. `rename` and `tag` give the names that they have there.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct


class PromptTool(Struct, frozen=True):
    """A function that the model may call. `schema` is the JSON schema of its arguments."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class ReplyCall(Struct, frozen=True, tag="Use"):
    """A tool call. `arguments` is JSON text, as the API has it; a fault may make it invalid JSON. Without an `id` a new one is made."""

    tool: str
    arguments: str = "{}"
    id: str = ""


class ReplyThought(Struct, frozen=True, tag="Thought"):
    """The model's reasoning. Each API decides whether its client may read it."""

    text: str


class ReplyText(Struct, frozen=True, tag="Words"):
    """Text for the user."""

    text: str


class ReplyRefusal(Struct, frozen=True, tag="Refused"):
    """The text with which the model declines."""

    text: str


FakeReplyItem: TypeAlias = ReplyThought | ReplyText | ReplyCall | ReplyRefusal


class PromptMessage(Struct, frozen=True, rename={"role": "who", "calls": "uses", "call_id": "call"}):
    """A message of the conversation. A tool's output has the id of its call and the name of the tool."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ReplyCall, ...] = ()
    call_id: str = ""
    tool: str = ""


_LOG_NAMES = {
    "messages": "heard",
    "tool_choice": "choice",
    "allows_parallel_calls": "parallel",
    "has_reasoning": "thinks",
    "output_schema": "schema",
}


class ModelPrompt(Struct, frozen=True, rename=_LOG_NAMES):
    """Everything that the model is given, the same for every API."""

    api: str
    model: str
    instructions: str = ""
    tools: tuple[PromptTool, ...] = ()
    messages: tuple[PromptMessage, ...] = ()
    tool_choice: str = "auto"  # "auto", "none", "required", or the name of the tool that must be called
    allows_parallel_calls: bool = True
    has_reasoning: bool = False  # the model reasons before it replies
    output_schema: dict[str, Any] | None = None  # the JSON schema that the text must satisfy
    seed: int = 0

    @property
    def last_user_text(self) -> str:
        """The text of the user's last message; empty if there is none."""
        return next((message.text for message in reversed(self.messages) if message.role == "user"), "")


class FakeReply(Struct, frozen=True):
    """A reply of the model. `finish` is "length" if the reply was cut short, "content_filter" if it was stopped."""

    items: tuple[FakeReplyItem, ...]
    finish: Literal["stop", "length", "content_filter"] = "stop"


class FakeModel(Protocol):
    """A stand-in for a model: code that replies to prompts. The same prompt gets the same reply."""

    def reply(self, prompt: ModelPrompt) -> FakeReply:
        """Return the reply to a prompt."""
        ...
