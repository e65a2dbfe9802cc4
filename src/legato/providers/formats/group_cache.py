"""What wires have made of groups, kept for as long as each group lives: a cache, and never a source.

The groups of a conversation belong to its state. A cache that is owned here is dropped with them, because it refers to them weakly. What
is kept for a group may refer to groups that come later in the conversation, and to none before: so no group keeps itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from legato.core.groups import Group

_caches: WeakKeyDictionary[Group, dict[str, Any]] = WeakKeyDictionary()


def cache_of(group: Group) -> dict[str, Any]:
    """Return what was made of a group, by what it was made for."""
    found = _caches.get(group)
    return found if found is not None else _caches.setdefault(group, {})


def clear_cache(groups: Iterable[Group]) -> None:
    """Drop what was made of these groups."""
    for group in groups:
        _caches.pop(group, None)
