"""Headers, requests, messages and blocks for the test cases of the Anthropic rules."""

from __future__ import annotations

from typing import Any

VERSION_HEADER = {"anthropic-version": "2023-06-01"}
BINDING_HEADER = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
NEWEST_VERSION_HEADER = {"anthropic-version": "2026-10-21"}

HELLO = {"role": "user", "content": "Where is my order?"}


def make_request(*messages: Any, model: str = "claude-sonnet-5", **parameters: Any) -> dict[str, Any]:
    """Return a request; without arguments a legal one."""
    return {"model": model, "max_tokens": 4096, "messages": list(messages) or [HELLO], **parameters}


def make_user_message(*blocks: Any) -> dict[str, Any]:
    """Return a user message with these blocks."""
    return {"role": "user", "content": list(blocks)}


def make_assistant_message(*blocks: Any) -> dict[str, Any]:
    """Return an assistant message with these blocks."""
    return {"role": "assistant", "content": list(blocks)}


def make_text_block(words: str, **members: Any) -> dict[str, Any]:
    """Return a text block."""
    return {"type": "text", "text": words, **members}


def make_tool_use(id: str = "toolu_1", **members: Any) -> dict[str, Any]:
    """Return a tool use."""
    return {"type": "tool_use", "id": id, "name": "find_order", "input": {}, **members}


def make_tool_result(id: str = "toolu_1", **members: Any) -> dict[str, Any]:
    """Return a tool result."""
    return {"type": "tool_result", "tool_use_id": id, "content": "shipped", **members}


def make_tool(name: str = "find_order", **members: Any) -> dict[str, Any]:
    """Return a tool."""
    return {"name": name, "input_schema": {"type": "object", "properties": {}}, **members}
