"""Types that programs annotate with, under the framework's names: dicts and text."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Generic, Literal, Protocol, TypedDict, TypeVar, runtime_checkable

T = TypeVar("T")

RoleLiteral = Literal["system", "user", "assistant", "tool"]
FinishReasonLiteral = Literal["stop", "length", "tool_calls", "content_filter"]
FinishReason = str


class Role(StrEnum):
    """The author's role. Plain text works as well: `Role.USER == "user"`."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolMode(TypedDict, total=False):
    """The model's tool choice: none, any, or a named tool."""

    mode: Literal["auto", "required", "none"]
    required_function_name: str


class UsageDetails(TypedDict, total=False):
    """Counted tokens."""

    input_token_count: int
    output_token_count: int
    total_token_count: int
    cache_read_input_token_count: int


class ChatOptions(TypedDict, Generic[T], total=False):
    """The keys of `default_options`. Keys that Legato does not know go to the provider unchanged."""

    model: str
    temperature: float
    top_p: float
    max_tokens: int
    stop: str | list[str]
    seed: int
    tool_choice: ToolMode | Literal["auto", "required", "none"]
    allow_multiple_tool_calls: bool
    response_format: type[T] | None
    metadata: dict[str, Any]
    user: str
    store: bool
    frequency_penalty: float
    presence_penalty: float
    reasoning: dict[str, str]
    verbosity: Literal["low", "medium", "high"]


OpenAIChatOptions = OpenAIChatCompletionOptions = OpenAIResponsesOptions = ChatOptions


@runtime_checkable
class SupportsAgentRun(Protocol):
    """Any object that runs like an agent: an `Agent`, a `WorkflowAgent`."""

    id: str
    name: str | None
    description: str | None

    def run(self, messages: Any = None, *, stream: bool = False, **more: Any) -> Any:
        """Ask it."""
