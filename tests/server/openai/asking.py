"""The `openai` SDK as a client of a server."""

from __future__ import annotations

from typing import Any

from openai import OpenAI

from legato.server import Server

OPEN: list[OpenAI] = []
"""Clients that are to be closed."""


def client_of(server: Server, **options: Any) -> OpenAI:
    """A client whose key is the server's token. It repeats nothing by itself unless told to."""
    OPEN.append(OpenAI(base_url=f"{server.url}/v1", api_key=server.token, **{"max_retries": 0, "timeout": 20, **options}))
    return OPEN[-1]


def approved(request: Any, approve: bool = True, reason: str | None = None) -> dict[str, Any]:
    """The answer to a request, as an item of input."""
    return {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve, "reason": reason}


def plain(response: Any, *without: str) -> dict[str, Any]:
    """A response as data, without what only whoever asked for it can know."""
    told: dict[str, Any] = response.to_dict()
    return {name: value for name, value in told.items() if name not in ("previous_response_id", "background", *without)}
