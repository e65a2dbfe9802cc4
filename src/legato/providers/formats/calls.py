"""The ids of calls. May know: groups. Decides: which ids that providers gave can be sent at all.

A group's calls keep their ids if every wire takes them, none looks like one of ours, and no call before them in the request has the
same (`course.py`); else they get ids made of their places in the ledger. Providers do repeat ids, and a request in which two calls
share one cannot be answered. Ids of ours are never parsed back: they only have to be told apart.
"""

from __future__ import annotations

from legato.core.facts import Call
from legato.core.groups import Group
from legato.providers.formats.group_cache import cache_of
from legato.providers.rules.names import is_wire_id, own_call_id

_KEY = "call ids"
_UNUSABLE = ("",)


def usable_ids(group: Group) -> tuple[str, ...] | None:
    """The ids of a group's calls; None if they cannot be used."""
    cache = cache_of(group)
    found: tuple[str, ...] | None = cache.get(_KEY)
    if found is None:
        ids = tuple(call.call.call_id for call in group.calls)
        found = cache[_KEY] = ids if all(map(is_wire_id, ids)) and len(set(ids)) == len(ids) else _UNUSABLE
    return None if found is _UNUSABLE else found


def call_id(call: Call, position: int, index: int, own: bool) -> str:
    """The id of a call in a request."""
    return own_call_id(position, index) if own else call.call_id
