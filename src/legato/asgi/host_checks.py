"""Checks of hosts and tokens: which addresses only this machine can reach, and what may be a token."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable

from legato.errors import BadInput

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The names of a server that listens on loopback, as a `Host` header has them."""

MIN_TOKEN_CHARS = 16
"""The least characters of a token: a shorter one could be guessed."""


def is_loopback(host: str) -> bool:
    """Return True if only this machine can connect to a host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def bracket_ipv6_host(host: str) -> str:
    """Return a host as URLs and `Host` headers have it.

    >>> bracket_ipv6_host("::1"), bracket_ipv6_host("127.0.0.1")
    ('[::1]', '127.0.0.1')
    """
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def check_token(token: str) -> None:
    """Raise `BadInput` for a token that could be guessed, or that a header cannot carry."""
    if not isinstance(token, str) or len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput("this cannot be the token", expected=f"{MIN_TOKEN_CHARS} or more printable ASCII characters without spaces")


def check_exposure(host: str, token: str, option: str, variable: str) -> None:
    """Raise `BadInput` if other machines could connect and the user chose no token. `option` and `variable` say how to choose one."""
    if not is_loopback(host) and not token:
        raise BadInput(
            f"other machines can connect to {host}: choose a token yourself",
            expected=f"{option}, or {variable}",
            do="or listen on 127.0.0.1. A token that was printed on a terminal should not be given to other machines",
        )


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
