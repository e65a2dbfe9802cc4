"""The call ids of a request.

The calls of a group keep the provider's ids if every provider format accepts them, none looks like an id made by Legato, and no earlier
call of the request has the same id (`incremental_encoder.py`). Otherwise Legato makes ids from the calls' positions in the ledger.
Providers do repeat ids, and a request in which two calls share one cannot be answered. Ids made by Legato are never parsed: they only
have to be distinct.
"""

from __future__ import annotations

from legato.core.facts import Call
from legato.core.groups import Group
from legato.providers.formats.group_cache import get_group_cache
from legato.providers.rules.identifiers import is_usable_call_id, make_call_id

_KEY = "call ids"
_UNUSABLE = ("",)


def find_usable_call_ids(group: Group) -> tuple[str, ...] | None:
    """Return the provider's ids of a group's calls; None if they cannot be sent."""
    cache = get_group_cache(group)
    found: tuple[str, ...] | None = cache.get(_KEY)
    if found is None:
        ids = tuple(call.call.call_id for call in group.calls)
        found = cache[_KEY] = ids if all(map(is_usable_call_id, ids)) and len(set(ids)) == len(ids) else _UNUSABLE
    return None if found is _UNUSABLE else found


def choose_call_id(call: Call, position: int, index: int, use_own_id: bool) -> str:
    """Return the id that a call has in a request: one made by Legato, or the provider's."""
    return make_call_id(position, index) if use_own_id else call.call_id
