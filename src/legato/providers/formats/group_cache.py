"""A cache of encoded groups, with the lifetime of each group.

The groups of a conversation belong to its state. The cache refers to them weakly, so its entries are dropped with them. An entry may
refer to later groups of the conversation, never to its own or an earlier one: otherwise a group would keep itself alive.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from legato.core.groups import Group

_caches: WeakKeyDictionary[Group, dict[str, Any]] = WeakKeyDictionary()


def get_group_cache(group: Group) -> dict[str, Any]:
    """Return the cache of a group: encoded values by key."""
    found = _caches.get(group)
    return found if found is not None else _caches.setdefault(group, {})


def clear_group_caches(groups: Iterable[Group]) -> None:
    """Drop the caches of these groups."""
    for group in groups:
        _caches.pop(group, None)
