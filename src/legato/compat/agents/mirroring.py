"""What the SDK has and this facade has not. May know: the table of it. Decides: how it is told.

One mechanism for names, attributes and arguments: what cannot be had is one error that says what to write instead; what means nothing
here is accepted and explained once. What the SDK does not have either stays Python's own error.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from legato.compat.agents.exceptions import UserError, means_nothing
from legato.compat.agents.names_not_here import NAMES
from legato.compat.agents.not_here import AS_HERE, INSTEAD, NOTHING

T = TypeVar("T", bound=type)


class NotHere(UserError, AttributeError):
    """A part of one of the SDK's classes that cannot be had here. `hasattr` says so too."""


class NameNotHere(UserError, ImportError):
    """A name of the SDK's that cannot be had here. No `AttributeError`: `from ... import` would keep its words to itself."""


def weigh(owners: str | tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Refuse or explain arguments that the SDK takes and this facade does not. What is unset, or what happens anyway, passes."""
    owners = (owners,) if isinstance(owners, str) else owners
    for name, value in given.items():
        key = next((f"{owner}.{name}" for owner in owners if f"{owner}.{name}" in INSTEAD or f"{owner}.{name}" in NOTHING), "")
        if not key:
            raise TypeError(f"{owners[0]}() got an unexpected keyword argument {name!r}")
        if value is None or value is False or value in ((), [], {}) or value == AS_HERE.get(key):
            continue
        if key in INSTEAD:
            raise UserError(f"{owners[0]}({name}=...) cannot be had here: {INSTEAD[key]}")
        means_nothing(f"{owners[0]}({name}=...)", NOTHING[key])


def mirrors(owner: str) -> Callable[[T], T]:
    """A class that stands for the SDK's of this name: its other arguments and attributes are told of by the table."""

    def marked(cls: T) -> T:
        made = cls.__init__  # type: ignore[misc]  # of the class itself, which is what is wrapped
        taken = inspect.signature(made).parameters

        @functools.wraps(made)
        def init(self: Any, *given: Any, **named: Any) -> None:
            others = {name: named.pop(name) for name in list(named) if name not in taken}
            weigh(tuple(_owners(type(self))), others)
            made(self, *given, **named)

        cls.__init__ = init  # type: ignore[misc]
        cls.__mirrors__ = owner  # type: ignore[attr-defined]
        if "__getattr__" not in vars(cls):
            cls.__getattr__ = absent  # type: ignore[attr-defined]
        return cls

    return marked


def absent(self: Any, name: str) -> Any:
    """`__getattr__` of what mirrors a class of the SDK's."""
    for owner in _owners(type(self)):
        if told := INSTEAD.get(f"{owner}.{name}") or NOTHING.get(f"{owner}.{name}"):
            raise NotHere(f"{owner}.{name} cannot be had here: {told}")
    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def absent_name(name: str) -> Any:
    """`__getattr__` of a module that mirrors one of the SDK's."""
    if name in NAMES:
        raise NameNotHere(f"{name} cannot be had here: {NAMES[name]}")
    raise AttributeError(f"module 'legato.compat.agents' has no attribute {name!r}")


def absent_module(module: str, instead: str) -> Callable[[str], Any]:
    """`__getattr__` of a module of the SDK's that is not here at all."""

    def told(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NameNotHere(f"{module}.{name} cannot be had here: {instead}")

    return told


def _owners(cls: type) -> Iterator[str]:
    for each in cls.__mro__:
        if "__mirrors__" in vars(each):
            yield vars(each)["__mirrors__"]
