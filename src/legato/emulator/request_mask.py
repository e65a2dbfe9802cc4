"""Masks the secrets in request bodies before they are recorded.

API keys travel in headers, which are never recorded. But bodies may have the credentials of remote tools.
"""

from __future__ import annotations

from typing import Any

MASK = "***"
_SECRET_MEMBERS = ("authorization", "authorization_token")
_SECRET_OBJECTS = ("headers",)  # objects whose every value may be a secret
_TOOL_LISTS = ("tools", "mcp_servers")
MAX_TEXT_CHARS = 20_000
"""The characters of one text that are recorded. A longer text is a picture or a file."""


def mask_secrets(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body without the secrets of its tools.

    >>> mask_secrets({"tools": [{"type": "mcp", "authorization": "token", "headers": {"x-key": "k"}}]})
    {'tools': [{'type': 'mcp', 'authorization': '***', 'headers': {'x-key': '***'}}]}
    """
    if not any(body.get(place) for place in _TOOL_LISTS):
        return body
    return {name: mask_tool_secrets(value) if name in _TOOL_LISTS else value for name, value in body.items()}


def mask_tool_secrets(tools: Any) -> Any:
    """Return a list of tools without their secrets."""
    return [_mask_tool(tool) if isinstance(tool, dict) else tool for tool in tools] if isinstance(tools, list) else tools


def _mask_tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {name: _mask_value(name, value) for name, value in tool.items()}


def _mask_value(name: str, value: Any) -> Any:
    if name in _SECRET_MEMBERS and value is not None:
        return MASK
    if name in _SECRET_OBJECTS and isinstance(value, dict):
        return dict.fromkeys(value, MASK)
    return value


def shorten_texts(body: dict[str, Any], max_chars: int = MAX_TEXT_CHARS) -> dict[str, Any]:
    """Return a body with its long texts cut to 200 characters."""
    return {name: _shorten(value, max_chars) for name, value in body.items()}


def _shorten(value: Any, max_chars: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= max_chars else f"{value[:200]}... ({len(value)} characters)"
    if isinstance(value, list):
        return [_shorten(each, max_chars) for each in value]
    if isinstance(value, dict):
        return {name: _shorten(each, max_chars) for name, each in value.items()}
    return value
