"""The context of one Chat Completions request: its fields, its model, and the switches in force."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from legato.providers.rules.chat.model_info import ChatModelInfo
from legato.providers.rules.chat.rule_switches import OPENAI, ChatRuleSwitches


class ChatContext(Struct, frozen=True):
    """A request with its model, the number of tokens of its messages (0: not counted), and the switches in force."""

    request: Any
    model_info: ChatModelInfo | None  # None: the model does not exist
    token_count: int = 0
    switches: ChatRuleSwitches = OPENAI

    @property
    def model(self) -> ChatModelInfo:
        """The model; one that refuses nothing if it does not exist."""
        return self.model_info or ChatModelInfo("")

    @property
    def function_tools(self) -> list[tuple[str, dict[str, Any]]]:
        """The function tools, each with its path."""
        return [
            (f"tools[{index}].function", tool["function"])
            for index, tool in enumerate(self.request.get("tools") or ())
            if tool.get("type", "function") == "function"
        ]

    def has_field(self, field: str) -> bool:
        """Return True if a parameter is present and not null."""
        return self.request.get(field) is not None

    @property
    def is_reasoning_on(self) -> bool:
        """True if the model reasons about this request. With an unknown default effort, only if the request sets an effort."""
        if not self.model.has_reasoning:
            return False
        return (self.request.get("reasoning_effort") or self.model.default_effort or "none") != "none"
