"""What the emulated model is asked and what it says, in terms that belong to no API. May know: nothing. Decides: nothing."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct


class Tool(Struct, frozen=True):
    """A function the model may call. `schema` is the JSON schema of its arguments."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class Use(Struct, frozen=True, tag=True):
    """A call of a tool. `arguments` is JSON text, as on the wire (a fault may make it no JSON at all). `id`: empty, a new one is made."""

    tool: str
    arguments: str = "{}"
    id: str = ""


class Thought(Struct, frozen=True, tag=True):
    """Reasoning: kept secret or shown, as the API has it."""

    text: str


class Words(Struct, frozen=True, tag=True):
    """Text for the user."""

    text: str


class Refused(Struct, frozen=True, tag=True):
    """The model declines."""

    text: str


Item: TypeAlias = Thought | Words | Use | Refused


class Heard(Struct, frozen=True):
    """One thing that stands in the conversation before the model speaks. A tool's output names its call and the tool."""

    who: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    uses: tuple[Use, ...] = ()
    call: str = ""
    tool: str = ""


class Prompt(Struct, frozen=True):
    """All that the model is given, whatever the API it came through."""

    api: str
    model: str
    instructions: str = ""
    tools: tuple[Tool, ...] = ()
    heard: tuple[Heard, ...] = ()
    choice: str = "auto"  # "auto", "none", "required", or the name of the tool that must be called
    parallel: bool = True
    thinks: bool = False  # whether the model reasons before it speaks
    schema: dict[str, Any] | None = None  # the JSON schema that the text must satisfy
    seed: int = 0

    @property
    def said(self) -> str:
        """What the user said last."""
        return next((heard.text for heard in reversed(self.heard) if heard.who == "user"), "")


class Say(Struct, frozen=True):
    """What the model says. `finish`: "length" when it was cut short, "content_filter" when it was stopped."""

    items: tuple[Item, ...]
    finish: Literal["stop", "length", "content_filter"] = "stop"


class Mind(Protocol):
    """A policy: what the emulated model says to what it is given. The same prompt gets the same answer."""

    def reply(self, prompt: Prompt) -> Say:
        """What to say."""
        ...
