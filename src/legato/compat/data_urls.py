"""Bytes of pictures and files that stand in their addresses."""

from __future__ import annotations

from base64 import b64decode


def read_data_url(address: str) -> tuple[str, bytes] | None:
    """Read the media type and the bytes of a `data:` address; None for another one. `ValueError` if it has no bytes in base64."""
    head, comma, body = address.partition(",")
    if not head.startswith("data:"):
        return None
    if not comma:
        raise ValueError("a data: address has its bytes behind a comma")
    return head.removeprefix("data:").partition(";")[0], b64decode("".join(body.split()), validate=True)
