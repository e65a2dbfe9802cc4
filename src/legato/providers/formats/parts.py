"""Pictures and files. May know: bytes. Decides: how they are written where a wire takes them as text."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from legato.core.facts import File, Image
from legato.errors import IllegalRequest

STAND_IN = "(No message of the user stands here. Go on.)"
"""Stands where an API wants the user to speak and the view has nothing of theirs."""


def base64_of(part: Image | File, contents: Mapping[str, bytes]) -> str:
    """The bytes of a part that has no address."""
    data = contents.get(part.digest)
    if data is None:
        raise IllegalRequest(
            f"the bytes of {part.digest!r} were not brought along", do="this is a bug in Legato: please report it with session.to_string()"
        )
    return b64encode(data).decode()


def address_of(part: Image | File, contents: Mapping[str, bytes]) -> str:
    """The address of a part, or the part itself as one."""
    return part.url or f"data:{part.media_type};base64,{base64_of(part, contents)}"
