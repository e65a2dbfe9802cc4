"""What a state says, as plain values that can be compared."""

from collections import deque
from typing import Any

from legato.core.counters import Spent
from legato.core.groups import Group
from legato.core.state import State


def meaning(state: State) -> Any:
    """Everything that a state says, without what is only kept to be quick."""
    _ = state.open.by_phase  # calls are filed when somebody looks
    return _plain(state)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, (list, tuple, set, deque)):
        return [_plain(each) for each in (sorted(value, key=str) if isinstance(value, set) else value)]
    names = getattr(value, "__struct_fields__", ()) or getattr(value, "__slots__", ())
    if not names or (hasattr(value, "__struct_config__") and value.__struct_config__.frozen):
        return repr(value)
    cached = [name for name in names if name.startswith("_")] if isinstance(value, (Group, Spent)) else ["filed"]
    return {name: _plain(getattr(value, name)) for name in names if name not in cached}
