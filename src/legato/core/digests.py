"""Digests that identify arguments, turn contexts and attachments by their content.

A digest is 128 bits of BLAKE2b in hex. Arguments that differ only in spacing or in the order of keys have the same digest, because a
tool runs with their value. Text that is not JSON is its own canonical form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import msgspec

_canonical = msgspec.json.Encoder(order="deterministic")


@cache
def _import_blake2b() -> Callable[..., Any]:
    """Import `blake2b` when it is first needed: it loads OpenSSL, a tenth of what importing Legato costs beyond asyncio."""
    from hashlib import blake2b

    return blake2b


def digest_bytes(data: bytes) -> str:
    """Return the digest of bytes."""
    digest: str = _import_blake2b()(data, digest_size=16).hexdigest()
    return digest


def keyed_digest(data: bytes, key: bytes) -> str:
    """Return a keyed digest of bytes. Without the key, a guess at the bytes cannot be checked against it."""
    from hashlib import blake2b

    return blake2b(data, digest_size=16, key=key).hexdigest()


def encode_canonical_json(text: str) -> bytes:
    """Return the canonical form of a JSON text; other text is returned with a mark that no JSON has."""
    try:
        return _canonical.encode(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return b"\x00" + text.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=16)  # the arguments of one call are digested several times in a row: checked, decided, started
def digest_arguments(arguments: str) -> str:
    """Return the digest of a call's arguments; it is equal for equal values.

    >>> digest_arguments('{"a": 1, "b": 2}') == digest_arguments('{"b":2,"a":1}')
    True
    """
    return digest_bytes(encode_canonical_json(arguments))
