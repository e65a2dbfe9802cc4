"""Exposure of a server: the addresses that only this machine can reach, and the rule for all others."""

from __future__ import annotations

import ipaddress

from legato.errors import BadInput

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The names of a server that listens on loopback, as a `Host` header has them."""


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


def check_exposure(host: str, token: str, option: str, variable: str) -> None:
    """Raise `BadInput` if other machines could connect and the user chose no token. `option` and `variable` say how to choose one."""
    if not is_loopback(host) and not token:
        raise BadInput(
            f"other machines can connect to {host}: choose a token yourself",
            expected=f"{option}, or {variable}",
            do="or listen on 127.0.0.1. A token that was printed on a terminal should not be given to other machines",
        )
