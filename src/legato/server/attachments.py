"""Images and files that clients send within JSON."""

from __future__ import annotations

import base64

from legato.errors import BadInput


def decode_attachment(text: str) -> bytes:
    """Decode base64; raises `BadInput` if the text is invalid."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise BadInput("an image or file must be valid base64", do="encode its bytes with padding, and without line breaks") from None
