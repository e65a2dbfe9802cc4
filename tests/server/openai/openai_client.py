"""The `openai` SDK as a client of a server."""

from __future__ import annotations

from typing import Any

from openai import OpenAI

from legato.server import Server

OPEN_CLIENTS: list[OpenAI] = []
"""The open clients, which are closed after the test."""


def make_client(server: Server, **options: Any) -> OpenAI:
    """Return a client whose key is the server's token, without retries by default."""
    OPEN_CLIENTS.append(OpenAI(base_url=f"{server.url}/v1", api_key=server.token, **{"max_retries": 0, "timeout": 20, **options}))
    return OPEN_CLIENTS[-1]


def make_approval(request: Any, approve: bool = True, reason: str | None = None) -> dict[str, Any]:
    """Return an answer to an approval request, as an input item."""
    return {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve, "reason": reason}


def to_comparable(response: Any, *without: str) -> dict[str, Any]:
    """Return a response as a dict, without the fields that come from its request."""
    fields: dict[str, Any] = response.to_dict()
    return {name: value for name, value in fields.items() if name not in ("previous_response_id", "background", *without)}
