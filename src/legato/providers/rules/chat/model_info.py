"""The properties of Chat Completions models. The API itself stores nothing between requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct


class ChatModelInfo(Struct, frozen=True):
    """The properties of a model that rules depend on. The defaults mean "not known", and refuse nothing."""

    name: str
    has_reasoning: bool | None = None  # None: not known
    context_window: int = 0  # tokens; 0: no limit known
    accepts_developer_role: bool = True
    accepts_tools_with_effort: bool = True  # function tools together with `reasoning_effort`
    accepts_system_role: bool = True
    accepts_stop: bool = True
    fixed_sampling: tuple[str, ...] = ()  # sampling fields that it refuses at any value while it reasons
    accepts_parallel_tool_calls: bool = True  # the field `parallel_tool_calls`
    default_effort: str = ""  # "none": it does not reason by default; empty: not known
    efforts: tuple[str, ...] = ()  # the accepted values of `reasoning_effort`; empty: not known
    accepts_images: bool = True
    accepts_audio: bool = True
    requires_audio: bool = False  # audio in the messages, or in the reply
    has_web_search: bool | None = None  # None: not known
    accepts_json_schema: bool = True  # for its output
    max_output_tokens: int = 0  # 0: no limit known
    other_endpoint: str = ""  # the API that serves it instead of this one


FindChatModel: TypeAlias = Callable[[str], ChatModelInfo | None]
"""A lookup of a model by name. None: it does not exist."""


def accept_any_model(name: str) -> ChatModelInfo | None:
    """Return a model without known limits, for any name.

    >>> accept_any_model("gpt-4o").name
    'gpt-4o'
    """
    return ChatModelInfo(name)
