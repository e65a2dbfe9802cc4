"""Tokens: their form, and the comparison with the token of a request."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from legato.errors import BadInput

MIN_TOKEN_CHARS = 16
"""The least characters of a token: a shorter one could be guessed."""


def check_token(token: str) -> None:
    """Raise `BadInput` for a token that could be guessed, or that a header cannot carry."""
    if not isinstance(token, str) or len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput("this cannot be the token", expected=f"{MIN_TOKEN_CHARS} or more printable ASCII characters without spaces")


def parse_bearer_token(authorization: str) -> str:
    """Return the token of an `Authorization` header's value; empty if it has none. `Bearer` may be in any case (RFC 9110, 11.1).

    >>> [parse_bearer_token(value) for value in ("Bearer abc", "bearer  abc", "Basic abc", "abc")]
    ['abc', 'abc', '', '']
    """
    scheme, _, token = authorization.partition(" ")
    return token.strip(" ") if scheme.lower() == "bearer" else ""


def has_token(headers: Iterable[tuple[bytes, bytes]], token: str) -> bool:
    """Return True if a request has the token, once and as `Authorization: Bearer TOKEN`."""
    values = [value for name, value in headers if name == b"authorization"]
    return len(values) == 1 and is_same_token(parse_bearer_token(values[0].decode("latin-1")), token)


def is_same_token(candidate: str, token: str) -> bool:
    """Compare a candidate with a token in constant time."""
    return hmac.compare_digest(candidate.encode(), token.encode())


def has_any_token(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return True if a request has any `Authorization` value: a wrong token is another error than a missing one."""
    return any(name == b"authorization" and value.strip() for name, value in headers)
