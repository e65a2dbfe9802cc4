"""The provider formats of stories: every API in every mode, with reasoning if it has any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from legato.emulator import Emulator
from legato.models import Anthropic, AzureOpenAIResponses, OpenAIChat, OpenAIResponses
from tests.providers.stories.expected_contents import FormatConventions

KEY = "sk-story"
PLAIN_CONVENTIONS = FormatConventions()
STORED_CONVENTIONS = FormatConventions(messages_in_instructions=True)
CHAT_CONVENTIONS = FormatConventions(one_text_per_reply=True)
COMPATIBLE_CONVENTIONS = FormatConventions(one_text_per_reply=True, one_text_per_message=True, raw_arguments_member="arguments")
ANTHROPIC_CONVENTIONS = FormatConventions(raw_arguments_member="_raw", without_blank_text=True)


@dataclass(frozen=True)
class StoryFormat:
    """A provider format. `thinks`: every reply begins with reasoning."""

    make: Callable[[Emulator, bool], Any]
    api: Literal["responses", "chat", "anthropic"] = "responses"
    conventions: FormatConventions = PLAIN_CONVENTIONS
    thinks: bool = False


def _responses(memory: str, emulator: Emulator, stream: bool) -> OpenAIResponses:
    return OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key=KEY, memory=memory, stream=stream)  # type: ignore[arg-type]


def _azure(memory: str, emulator: Emulator, stream: bool) -> AzureOpenAIResponses:
    return AzureOpenAIResponses("our-gpt-5", endpoint=emulator.url, api_key=KEY, memory=memory, stream=stream)  # type: ignore[arg-type]


def _chat(compatible: bool, emulator: Emulator, stream: bool) -> OpenAIChat:
    return OpenAIChat("gpt-5", base_url=emulator.openai_url, api_key=KEY, compatible=compatible, stream=stream)


def _anthropic(model: str, options: dict[str, Any], emulator: Emulator, stream: bool) -> Anthropic:
    return Anthropic(model, base_url=emulator.url, api_key=KEY, stream=stream, **options)


FORMATS: dict[str, StoryFormat] = {
    "responses inline": StoryFormat(partial(_responses, "inline")),
    "responses chained": StoryFormat(partial(_responses, "chained"), conventions=STORED_CONVENTIONS),
    "responses conversation": StoryFormat(partial(_responses, "conversation"), conventions=STORED_CONVENTIONS),
    "responses inline, thinking": StoryFormat(partial(_responses, "inline"), thinks=True),
    "responses chained, thinking": StoryFormat(partial(_responses, "chained"), conventions=STORED_CONVENTIONS, thinks=True),
    "responses conversation, thinking": StoryFormat(partial(_responses, "conversation"), conventions=STORED_CONVENTIONS, thinks=True),
    "azure inline": StoryFormat(partial(_azure, "inline")),
    "azure chained": StoryFormat(partial(_azure, "chained"), conventions=STORED_CONVENTIONS),
    "chat": StoryFormat(partial(_chat, False), "chat", CHAT_CONVENTIONS),
    "chat compatible": StoryFormat(partial(_chat, True), "chat", COMPATIBLE_CONVENTIONS),
    "chat compatible, thinking": StoryFormat(partial(_chat, True), "chat", COMPATIBLE_CONVENTIONS, thinks=True),
    "anthropic": StoryFormat(partial(_anthropic, "claude-sonnet-5-5", {}), "anthropic", ANTHROPIC_CONVENTIONS),
    # The first model binds its thinking to the content before it, the second does not.
    "anthropic, thinking bound": StoryFormat(
        partial(_anthropic, "claude-opus-5-5", {"effort": "low"}), "anthropic", ANTHROPIC_CONVENTIONS, thinks=True
    ),
    "anthropic, thinking": StoryFormat(
        partial(_anthropic, "claude-sonnet-4-5", {"thinking_tokens": 2048}), "anthropic", ANTHROPIC_CONVENTIONS, thinks=True
    ),
}
