"""Bytes of pictures and files, as clients send them within JSON."""

from __future__ import annotations

import base64

from legato.errors import BadInput


def decode_attachment(text: str) -> bytes:
    """Decode base64; `BadInput` if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise BadInput("a picture or file is sent as base64", do="encode its bytes with padding, and without line breaks") from None
