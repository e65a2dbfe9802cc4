"""Who can reach a server. May know: how hosts are written. Decides: what is this machine alone, and what may be a token."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable

from legato.errors import BadInput

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The names by which this machine's own programs reach a server that listens on loopback, as a `Host` header has them."""

SHORTEST = 16
"""Letters of a token: fewer could be guessed."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def bracketed(host: str) -> str:
    """A host as addresses and `Host` headers have it.

    >>> bracketed("::1"), bracketed("127.0.0.1")
    ('[::1]', '127.0.0.1')
    """
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def check_token(token: str) -> None:
    """`BadInput` if somebody could guess it, or could not send it."""
    if not isinstance(token, str) or len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput("this cannot be the token", expected=f"{SHORTEST} or more printable ASCII characters without spaces")


def check_reach(host: str, token: str, option: str, variable: str) -> None:
    """`BadInput` if others than this machine could connect, and nobody chose a token."""
    if not is_loopback(host) and not token:
        raise BadInput(
            f"others than this machine can connect to {host}: choose a token yourself",
            expected=f"{option}, or {variable}",
            do="or listen on 127.0.0.1. A token that is shown on a terminal is not one to give to other machines",
        )


def bearer_token(authorization: str) -> str:
    """The token in the value of an `Authorization` header; empty if it has none. `Bearer` may be written in any case (RFC 9110, 11.1).

    >>> bearer_token("Bearer abc"), bearer_token("bearer  abc"), bearer_token("Basic abc"), bearer_token("abc")
    ('abc', 'abc', '', '')
    """
    scheme, _, token = authorization.partition(" ")
    return token.strip(" ") if scheme.lower() == "bearer" else ""


def bears(headers: Iterable[tuple[bytes, bytes]], token: str) -> bool:
    """Whether a request has the token: once, and as `Authorization: Bearer TOKEN`."""
    given = [value for name, value in headers if name == b"authorization"]
    return len(given) == 1 and is_same_token(bearer_token(given[0].decode("latin-1")), token)


def is_same_token(given: str, token: str) -> bool:
    """Compare what was sent with a token, in a time that tells nothing of it."""
    return hmac.compare_digest(given.encode(), token.encode())


def brings_one(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request brings any token at all: then what is wrong with it is another thing than that there is none."""
    return any(name == b"authorization" and value.strip() for name, value in headers)
