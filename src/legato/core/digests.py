"""Names for contents. May know: bytes and JSON. Decides: what 'the same' means for arguments, frames and attachments.

A digest is 128 bits of BLAKE2b in hex. Arguments that differ only in spacing or in the order of keys have the same digest,
because what runs is their value; text that is not JSON is its own canonical form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import msgspec

_canonical = msgspec.json.Encoder(order="deterministic")


@cache
def _blake2b() -> Callable[..., Any]:
    """Imported when first needed: OpenSSL's hashes come with it, a tenth of what importing Legato costs beyond asyncio."""
    from hashlib import blake2b

    return blake2b


def digest_bytes(data: bytes) -> str:
    """The digest of bytes as they are."""
    name: str = _blake2b()(data, digest_size=16).hexdigest()
    return name


def keyed_digest(data: bytes, key: bytes) -> str:
    """The digest of bytes for those who have the key: whoever has not cannot even try what the bytes may have been."""
    from hashlib import blake2b

    return blake2b(data, digest_size=16, key=key).hexdigest()


def canonical_json(text: str) -> bytes:
    """The canonical form of a JSON text; other text is returned as it is, marked so that it equals no JSON."""
    try:
        return _canonical.encode(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return b"\x00" + text.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=16)  # of one call it is asked several times in a row: gated, decided, started
def digest_arguments(arguments: str) -> str:
    """The digest of a call's arguments: equal for equal values.

    >>> digest_arguments('{"a": 1, "b": 2}') == digest_arguments('{"b":2,"a":1}')
    True
    """
    return digest_bytes(canonical_json(arguments))
