"""The wires that stories are told over: every API, every way to use it, with reasoning where it has any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from legato.emulator import Emulator
from legato.models import Anthropic, AzureOpenAIResponses, OpenAIChat, OpenAIResponses
from tests.providers.stories.seen import Manner

KEY = "sk-story"
PLAIN = Manner()
HELD = Manner(aside=True)
CHAT = Manner(one_text=True)
COMPATIBLE = Manner(one_text=True, one_text_of_parts=True, unreadable="arguments")
ANTHROPIC = Manner(unreadable="_raw", no_blanks=True)


@dataclass(frozen=True)
class Kind:
    """One wire. `thinks`: every reply of the model begins with a thought."""

    make: Callable[[Emulator, bool], Any]
    api: Literal["responses", "chat", "anthropic"] = "responses"
    manner: Manner = PLAIN
    thinks: bool = False


def _responses(memory: str, emulator: Emulator, stream: bool) -> OpenAIResponses:
    return OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key=KEY, memory=memory, stream=stream)  # type: ignore[arg-type]


def _azure(memory: str, emulator: Emulator, stream: bool) -> AzureOpenAIResponses:
    return AzureOpenAIResponses("our-gpt-5", endpoint=emulator.url, api_key=KEY, memory=memory, stream=stream)  # type: ignore[arg-type]


def _chat(compatible: bool, emulator: Emulator, stream: bool) -> OpenAIChat:
    return OpenAIChat("gpt-5", base_url=emulator.openai_url, api_key=KEY, compatible=compatible, stream=stream)


def _anthropic(model: str, options: dict[str, Any], emulator: Emulator, stream: bool) -> Anthropic:
    return Anthropic(model, base_url=emulator.url, api_key=KEY, stream=stream, **options)


WIRES: dict[str, Kind] = {
    "responses inline": Kind(partial(_responses, "inline")),
    "responses chained": Kind(partial(_responses, "chained"), manner=HELD),
    "responses conversation": Kind(partial(_responses, "conversation"), manner=HELD),
    "responses inline, thinking": Kind(partial(_responses, "inline"), thinks=True),
    "responses chained, thinking": Kind(partial(_responses, "chained"), manner=HELD, thinks=True),
    "responses conversation, thinking": Kind(partial(_responses, "conversation"), manner=HELD, thinks=True),
    "azure inline": Kind(partial(_azure, "inline")),
    "azure chained": Kind(partial(_azure, "chained"), manner=HELD),
    "chat": Kind(partial(_chat, False), "chat", CHAT),
    "chat compatible": Kind(partial(_chat, True), "chat", COMPATIBLE),
    "chat compatible, thinking": Kind(partial(_chat, True), "chat", COMPATIBLE, thinks=True),
    "anthropic": Kind(partial(_anthropic, "claude-sonnet-5-5", {}), "anthropic", ANTHROPIC),
    # Thinking of the first is bound to what stood before it, thinking of the second is not.
    "anthropic, thinking bound": Kind(partial(_anthropic, "claude-opus-5-5", {"effort": "low"}), "anthropic", ANTHROPIC, thinks=True),
    "anthropic, thinking": Kind(partial(_anthropic, "claude-sonnet-4-5", {"thinking_tokens": 2048}), "anthropic", ANTHROPIC, thinks=True),
}
