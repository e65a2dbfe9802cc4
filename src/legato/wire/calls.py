"""The ids of calls in one request. May know: groups. Decides: which calls keep the id that their provider gave them.

A call keeps it if every wire takes it and no call before it in this request has the same; else it gets one made of its place in the
ledger. Providers do repeat ids, and a request in which two calls share one cannot be answered.
"""

from __future__ import annotations

from collections.abc import Iterable

from legato.core.facts import Call
from legato.core.groups import Group
from legato.wire.names import is_wire_id, own_call_id

_KEY = "call ids"


def groups_with_own_ids(groups: Iterable[Group]) -> set[int]:
    """The positions of the groups whose calls cannot keep their ids."""
    taken: set[str] = set()
    own: set[int] = set()
    for group in groups:
        ids = _ids(group)
        if not ids:
            continue
        if ids[0] is None or not taken.isdisjoint(ids):
            own.add(group.position)
        else:
            taken.update(ids)  # type: ignore[arg-type]
    return own


def _ids(group: Group) -> tuple[str | None, ...]:
    """The ids of a group's calls; a single None if they cannot be used."""
    found: tuple[str | None, ...] | None = group.wire.get(_KEY)
    if found is None:
        ids = [call.call.call_id for call in group.calls]
        usable = all(is_wire_id(id) for id in ids) and len(set(ids)) == len(ids)
        found = tuple(ids) if usable else (None,)
        group.wire[_KEY] = found
    return found


def call_id(call: Call, position: int, index: int, own: bool) -> str:
    """The id of a call in a request."""
    return own_call_id(position, index) if own else call.call_id
