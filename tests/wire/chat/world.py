"""The models that the cases speak of, and requests to start from."""

from __future__ import annotations

from typing import Any

from legato.wire.chat.held import ModelInfo

MODELS = {
    "gpt-4o": ModelInfo("gpt-4o", False, 128_000),
    "gpt-5": ModelInfo("gpt-5", True, 400_000),
    "gpt-5.6-sol": ModelInfo("gpt-5.6-sol", True, 400_000, tools_with_effort=False),
    "o1-mini": ModelInfo("o1-mini", True, 128_000, developer=False),
}

HELLO = {"role": "user", "content": "Where is my order?"}


def models(name: str) -> ModelInfo | None:
    return MODELS.get(name)


def ask(*messages: Any, model: str = "gpt-4o", **parameters: Any) -> dict[str, Any]:
    """A request."""
    return {"model": model, "messages": list(messages) or [HELLO], **parameters}


def tool(name: str = "find_order", **members: Any) -> dict[str, Any]:
    """A function tool."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}, **members}}


def call(id: str = "call_1", name: str = "find_order") -> dict[str, Any]:
    """A call of a function."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def calls(*ids: str, **members: Any) -> dict[str, Any]:
    """An assistant's message with calls."""
    return {"role": "assistant", "content": None, "tool_calls": [call(id) for id in ids], **members}


def result(id: str = "call_1", **members: Any) -> dict[str, Any]:
    """A tool's message."""
    return {"role": "tool", "tool_call_id": id, "content": "shipped", **members}
