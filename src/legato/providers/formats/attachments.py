"""Pictures and files as text: base64 and `data:` URLs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from legato.core.facts import File, Image
from legato.errors import IllegalRequest


def encode_base64(part: Image | File, contents: Mapping[str, bytes]) -> str:
    """Return the bytes of a part that has no URL, in base64."""
    data = contents.get(part.digest)
    if data is None:
        raise IllegalRequest(
            f"the request has no bytes for the attachment {part.digest!r}",
            do="this is a bug in Legato: please report it with session.to_string()",
        )
    return b64encode(data).decode()


def make_attachment_url(part: Image | File, contents: Mapping[str, bytes]) -> str:
    """Return the URL of a part; a `data:` URL with its bytes if it has none."""
    return part.url or f"data:{part.media_type};base64,{encode_base64(part, contents)}"
