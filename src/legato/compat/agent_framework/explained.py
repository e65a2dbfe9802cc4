"""What is accepted and has no effect, and what is not here at all. May know: nothing. Decides: how either is told."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NoReturn, TypeVar

from legato.compat import MeansNothingHere
from legato.errors import BadInput

C = TypeVar("C", bound=type)


@cache  # told once for each name; if the warning is made an error, it is told again
def explain(name: str, why: str) -> None:
    """Say that `name` means nothing here, and why."""
    warnings.warn(f"{name} means nothing here: {why}", MeansNothingHere, stacklevel=4)


def explain_all(given: dict[str, object], why: dict[str, str]) -> None:
    """Say so for each of the arguments that were given."""
    for name, value in given.items():
        if value:
            explain(name, why[name])


class Absent:
    """A name of theirs that is not here. Reading it, of the class or of an object, is an `AttributeError` that says what to write."""

    def __init__(self, name: str, instead: str) -> None:
        self.name = name
        self.instead = instead

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{self.name} is not here: {self.instead}")


def without(names: Mapping[str, str]) -> Callable[[C], C]:
    """Decorates a class that stands for one of theirs with the names that it does not have, each with what to write instead.

    >>> @without({"executors": "workflow.native.agents names who takes part"})
    ... class Workflow: ...
    >>> Workflow().executors
    Traceback (most recent call last):
    ...
    AttributeError: Workflow.executors is not here: workflow.native.agents names who takes part
    """

    def decorate(cls: C) -> C:
        for name, instead in names.items():
            setattr(cls, name, Absent(f"{cls.__name__}.{name}", instead))
        return cls

    return decorate


def refuse(where: str, given: Iterable[str], instead: Mapping[str, str]) -> None:
    """Refuse an argument that is not taken here, with what to write instead."""
    for name in given:
        raise BadInput(f"{where} takes no {name!r} here", do=instead.get(name, ""))
