"""Which key a request brings. May know: headers. Decides: where each API looks for it, and what may be shown of it."""

from __future__ import annotations

from collections.abc import Mapping

from legato.asgi.hosts import bearer_token


def key_of(headers: Mapping[str, str], api: str) -> str:
    """The key, in the header that its API knows: Anthropic's own or a bearer token, else a bearer token or Azure's own."""
    bearer = bearer_token(headers.get("authorization", ""))
    if api == "anthropic":
        return headers.get("x-api-key") or bearer
    return bearer or headers.get("api-key", "")


def shown(key: str) -> str:
    """A key as the provider prints it when it refuses it: its ends. Of a short one that would be nearly all, so nothing is shown.

    >>> shown("sk-not-a-good-key"), shown("sk-short")
    ('sk-not-a*****-key', '********')
    """
    hidden = len(key) - 12
    return key[:8] + "*" * hidden + key[-4:] if hidden >= 5 else "*" * len(key)
