"""The API key of a request: its header in each API, and its masked form."""

from __future__ import annotations

from collections.abc import Mapping

from legato.asgi.tokens import parse_bearer_token


def find_api_key(headers: Mapping[str, str], api: str) -> str:
    """Return the API key of a request: in Anthropic's header or as a bearer token, else as a bearer token or in Azure's header."""
    bearer = parse_bearer_token(headers.get("authorization", ""))
    if api == "anthropic":
        return headers.get("x-api-key") or bearer
    return bearer or headers.get("api-key", "")


def mask_key(key: str) -> str:
    """Return a key as the provider prints an invalid one: its ends. A short key is masked completely.

    >>> mask_key("sk-not-a-good-key"), mask_key("sk-short")
    ('sk-not-a*****-key', '********')
    """
    hidden = len(key) - 12
    return key[:8] + "*" * hidden + key[-4:] if hidden >= 5 else "*" * len(key)
