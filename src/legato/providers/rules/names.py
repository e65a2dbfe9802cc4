"""Names and ids as wires allow them. May know: nothing. Decides: what stands for a name that no provider would take.

What a name becomes depends on the name alone, so it is the same in every request; what came back is looked up among the names that
were sent, never parsed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OURS = re.compile(r"call_[0-9]+_[0-9]+")
_OTHER = re.compile(r"[^a-zA-Z0-9_-]+")


def wire_name(name: str) -> str:
    """A tool's name as every wire takes it.

    >>> wire_name("refund")
    'refund'
    >>> wire_name("Größe der Wand")
    'Gr_e_der_Wand_fcb71830'
    """
    if _LEGAL.fullmatch(name):
        return name
    stem = _OTHER.sub("_", name).strip("_")[:55]
    return f"{stem or 'tool'}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def by_wire_name(names: Iterable[str]) -> dict[str, str]:
    """The tools' own names by those that were sent."""
    return {wire_name(name): name for name in names}


def is_wire_id(id: str) -> bool:
    """Whether every wire takes this as the id of a call, and it cannot be taken for one that we made.

    >>> is_wire_id("call_8fK2"), is_wire_id("functions.refund:0"), is_wire_id("call_3_0")
    (True, False, False)
    """
    return bool(_LEGAL.fullmatch(id)) and not _OURS.fullmatch(id)


def own_call_id(position: int, index: int) -> str:
    """The id of a call whose provider gave it none that can be used: from its place in the ledger."""
    return f"call_{position}_{index}"
