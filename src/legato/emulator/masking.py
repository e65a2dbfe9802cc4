"""What of a request is nobody's business. May know: JSON. Decides: which members are secrets.

Keys travel in headers, which are never kept. But some travel in bodies: what a remote tool is to be called with.
"""

from __future__ import annotations

from typing import Any

MASK = "***"
_SECRETS = ("authorization", "authorization_token")
_OF_VALUES = ("headers",)  # every value in here may be a secret
_PLACES = ("tools", "mcp_servers")
LONGEST = 20_000
"""Letters of one text that are kept for people to look at. What is longer is a picture or a file."""


def masked(body: dict[str, Any]) -> dict[str, Any]:
    """A request or an answer as it may be kept: without the secrets of its tools.

    >>> masked({"tools": [{"type": "mcp", "authorization": "token", "headers": {"x-key": "k"}}]})
    {'tools': [{'type': 'mcp', 'authorization': '***', 'headers': {'x-key': '***'}}]}
    """
    if not any(body.get(place) for place in _PLACES):
        return body
    return {name: masked_tools(value) if name in _PLACES else value for name, value in body.items()}


def masked_tools(tools: Any) -> Any:
    """The same of the tools alone."""
    return [_tool(tool) if isinstance(tool, dict) else tool for tool in tools] if isinstance(tools, list) else tools


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(name, value) for name, value in tool.items()}


def _value(name: str, value: Any) -> Any:
    if name in _SECRETS and value is not None:
        return MASK
    if name in _OF_VALUES and isinstance(value, dict):
        return dict.fromkeys(value, MASK)
    return value


def shortened(body: dict[str, Any], longest: int = LONGEST) -> dict[str, Any]:
    """The same without texts that are too long to be looked at."""
    return {name: _short(value, longest) for name, value in body.items()}


def _short(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:200]}... ({len(value)} letters)"
    if isinstance(value, list):
        return [_short(each, longest) for each in value]
    if isinstance(value, dict):
        return {name: _short(each, longest) for name, each in value.items()}
    return value
