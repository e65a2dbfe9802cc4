"""Errors and warnings for parts of a framework that its facade does not support.

One mechanism for all facades, and for names, attributes and arguments: an unsupported part is one error that names the replacement;
a part without effect is accepted and explained once. A name that the framework does not have either stays Python's own error.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar

import legato
from legato.compat import MeansNothingHere

T = TypeVar("T", bound=type)

_LEGATO = os.path.dirname(legato.__file__)


@functools.cache  # told once for each name; if the warning is made an error, it is told again
def explain(name: str, why: str) -> None:
    """Say that `name` is accepted and has no effect, and why."""
    warnings.warn(f"{name} means nothing here: {why}", MeansNothingHere, stacklevel=find_stack_level())


def find_stack_level() -> int:
    """Return the stack level of the program's own line: a warning that points into Legato does not help."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_filename.startswith(_LEGATO) or frame.f_code.co_filename == "<string>"):
        level, frame = level + 1, frame.f_back
    return level


class Absent:
    """Holds the place of an attribute that is not here: reading it, of the class or of an object, is an error that says what to write."""

    def __init__(self, error: type[Exception], told: str) -> None:
        self.error = error
        self.told = told

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise self.error(self.told)


class Gaps:
    """The unsupported parts of one facade.

    `instead` and `nothing` are by `Class.name`, `Class.method.argument` or `function.argument`, `names` by a name of a module. `as_here`
    is what some arguments may ask for, because it happens anyway. `part`, `name` and `argument` are the facade's errors.

    >>> instead = {"Workflow.executors": "workflow.native.agents names who takes part"}
    >>> gaps = Gaps(instead, {}, {}, {}, AttributeError, ImportError, ValueError)
    >>> @gaps.mirrors("Workflow")
    ... class Workflow: ...
    >>> Workflow().executors
    Traceback (most recent call last):
    ...
    AttributeError: Workflow.executors is not here: workflow.native.agents names who takes part
    """

    def __init__(
        self,
        instead: Mapping[str, str],
        nothing: Mapping[str, str],
        names: Mapping[str, str],
        as_here: Mapping[str, object],
        part: type[Exception],
        name: type[Exception],
        argument: type[Exception],
    ) -> None:
        self._instead = instead
        self._nothing = nothing
        self._names = names
        self._as_here = as_here
        self._part, self._name, self._argument = part, name, argument

    def mirrors(self, owner: str) -> Callable[[T], T]:
        """Decorate a class that stands for the framework's of this name: the tables explain its other arguments and attributes."""

        gaps = self

        def marked(cls: T) -> T:
            made = cls.__init__  # type: ignore[misc]  # of the class itself, which is what is wrapped
            taken = inspect.signature(made).parameters

            @functools.wraps(made)
            def init(self: Any, *given: Any, **named: Any) -> None:
                if others := [name for name in named if name not in taken and gaps._key(_owners(type(self)), name)]:
                    gaps.check_arguments(tuple(_owners(type(self))), {name: named.pop(name) for name in others})
                made(self, *given, **named)

            cls.__init__ = init  # type: ignore[misc]
            cls.__mirrors__ = owner  # type: ignore[attr-defined]
            for key, words in {**self._nothing, **self._instead}.items():
                of, _, name = key.rpartition(".")
                if of == owner and not _has(cls, name):
                    setattr(cls, name, Absent(self._part, f"{key} is not here: {words}"))
            return cls

        return marked

    def check_arguments(self, owners: str | tuple[str, ...], given: Mapping[str, Any]) -> None:
        """Refuse or explain arguments that the framework takes and the facade does not. What is unset, or what happens anyway, passes."""
        owners = (owners,) if isinstance(owners, str) else owners
        for name, value in given.items():
            if not (key := self._key(owners, name)):
                raise TypeError(f"{owners[0]}() got an unexpected keyword argument {name!r}")
            if value is None or value is False or value in ((), [], {}) or value == self._as_here.get(key):
                continue
            if key in self._instead:
                raise self._argument(f"{owners[0]}({name}=...) is not here: {self._instead[key]}")
            explain(f"{owners[0]}({name}=...)", self._nothing[key])

    def _key(self, owners: Iterator[str] | tuple[str, ...], name: str) -> str:
        return next((key for key in (f"{owner}.{name}" for owner in owners) if key in self._instead or key in self._nothing), "")

    def of_module(self, module: str, instead: str = "") -> Callable[[str], Any]:
        """`__getattr__` of a module that stands for one of the framework's; with `instead`, of one that is not here at all."""

        def raise_unsupported(name: str) -> NoReturn:
            words = self._names.get(name) or ("" if name.startswith("__") else instead)
            if words:  # no AttributeError: `from ... import` would keep its words to itself
                raise self._name(f"{name if name in self._names else f'{module}.{name}'} is not here: {words}")
            raise AttributeError(f"module {module!r} has no attribute {name!r}")

        return raise_unsupported


def raise_absent(instance: Any, name: str) -> NoReturn:
    """Raise the error of an unsupported attribute, for a class with a `__getattr__` of its own: Python calls that again."""
    if isinstance(place := inspect.getattr_static(type(instance), name, None), Absent):
        place.__get__(instance, type(instance))
    raise AttributeError(f"{type(instance).__name__!r} object has no attribute {name!r}")


def _owners(cls: type) -> Iterator[str]:
    for each in cls.__mro__:
        if "__mirrors__" in vars(each):
            yield vars(each)["__mirrors__"]


def _has(cls: type, name: str) -> bool:
    return any(name in vars(each) or name in vars(each).get("__annotations__", ()) for each in cls.__mro__)
