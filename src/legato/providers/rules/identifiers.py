"""Tool names and call ids that every provider accepts.

A sanitized name depends on the tool's name alone, so it is the same in every request. A name in a reply is looked up among the names that
were sent; it is never parsed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OWN_CALL_ID = re.compile(r"call_[0-9]+_[0-9]+")
_ILLEGAL_CHARS = re.compile(r"[^a-zA-Z0-9_-]+")


def sanitize_tool_name(name: str) -> str:
    """Return a tool's name as every provider accepts it. Illegal characters go, and a hash keeps the name unique.

    >>> sanitize_tool_name("refund")
    'refund'
    >>> sanitize_tool_name("Größe der Wand")
    'Gr_e_der_Wand_fcb71830'
    """
    if _LEGAL_NAME.fullmatch(name):
        return name
    stem = _ILLEGAL_CHARS.sub("_", name).strip("_")[:55]
    return f"{stem or 'tool'}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def map_sanitized_names(names: Iterable[str]) -> dict[str, str]:
    """Return the tools' own names by their sanitized names."""
    return {sanitize_tool_name(name): name for name in names}


def is_usable_call_id(id: str) -> bool:
    """Return True if every provider accepts this call id, and `make_call_id` cannot have made it.

    >>> is_usable_call_id("call_8fK2"), is_usable_call_id("functions.refund:0"), is_usable_call_id("call_3_0")
    (True, False, False)
    """
    return bool(_LEGAL_NAME.fullmatch(id)) and not _OWN_CALL_ID.fullmatch(id)


def make_call_id(position: int, index: int) -> str:
    """Return an id for a call whose provider gave it no usable one: made from its place in the ledger."""
    return f"call_{position}_{index}"
