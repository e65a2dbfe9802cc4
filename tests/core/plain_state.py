"""States as plain values that can be compared."""

from collections import deque
from typing import Any

from legato.core.counters import UsageTotals
from legato.core.groups import Group
from legato.core.state import State


def to_plain_values(state: State) -> Any:
    """Return everything in a state except caches."""
    _ = state.open_calls.by_phase  # reading the index updates it
    return _plain(state)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, (list, tuple, set, deque)):
        return [_plain(each) for each in (sorted(value, key=str) if isinstance(value, set) else value)]
    names = getattr(value, "__struct_fields__", ()) or getattr(value, "__slots__", ())
    if not names or (hasattr(value, "__struct_config__") and value.__struct_config__.frozen):
        return repr(value)
    cached = [name for name in names if name.startswith("_")] if isinstance(value, (Group, UsageTotals)) else ["index_key"]
    return {name: _plain(getattr(value, name)) for name in names if name not in cached}
