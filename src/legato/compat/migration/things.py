"""What an expression of a program can be, as far as our facades tell. May know: the facades. Decides: nothing that is not certain."""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, Union, get_args, get_origin

from legato.compat.migration.facades import FACADES, framework_of, hints


@dataclass(frozen=True)
class Instance:
    """An object of one of these classes."""

    classes: tuple[type, ...]


@dataclass(frozen=True)
class Kind:
    """A class itself."""

    cls: type


@dataclass(frozen=True)
class Function:
    """A function or method of a facade, under its name there."""

    call: Callable[..., Any]
    name: str
    bound: bool = False


@dataclass(frozen=True)
class Module:
    """A module of a facade."""

    module: types.ModuleType


@dataclass(frozen=True)
class Coming:
    """What can be awaited, or iterated over, or both."""

    awaited: Thing | None = None
    each: Thing | None = None


Thing: TypeAlias = Instance | Kind | Function | Module | Coming

_MANY = (list, tuple, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Iterator)
_MANY_COMING = (collections.abc.AsyncIterable, collections.abc.AsyncIterator, collections.abc.AsyncGenerator)
_AWAITED = (collections.abc.Awaitable, collections.abc.Coroutine)

# Where a signature says no more than Any: one call is awaited or iterated over, as the program likes.
_EITHER = {
    "agent_framework": {
        **dict.fromkeys(("Workflow.run", "Workflow.send_responses"), ("WorkflowRunResult", "WorkflowEvent")),
        **dict.fromkeys(("Workflow.run_stream", "Workflow.send_responses_streaming"), (None, "WorkflowEvent")),
        **dict.fromkeys(("Agent.run", "WorkflowAgent.run"), ("AgentResponse", "AgentResponseUpdate")),
        "Agent.run_stream": (None, "AgentResponseUpdate"),
    }
}


def thing(value: Any, name: str = "") -> Thing | None:
    """A value that a facade has under a name."""
    if isinstance(value, types.ModuleType):
        return Module(value)
    if not framework_of(value):
        return None
    if isinstance(value, type):
        return Kind(value)
    return Function(value, name or value.__name__) if inspect.isfunction(value) else None


def of_type(hint: Any) -> Thing | None:
    """What an annotation of ours says."""
    origin, parts = get_origin(hint), get_args(hint)
    cls = hint if origin is None else origin
    if isinstance(cls, type) and framework_of(cls):
        return Instance((cls,))
    if not parts:
        return None
    if origin in (Union, types.UnionType):
        return _one_of([of_type(part) for part in parts if part is not type(None)])
    if origin is type:
        return Kind(parts[0]) if isinstance(parts[0], type) and framework_of(parts[0]) else None
    if origin in _MANY or origin in _MANY_COMING:
        return Coming(each=of_type(parts[0]))
    return Coming(awaited=of_type(parts[-1])) if origin in _AWAITED else None


def _one_of(several: list[Thing | None]) -> Thing | None:
    """An object of one of these classes; of things that are no objects, the only one."""
    classes = [each.classes for each in several if isinstance(each, Instance)]
    if len(classes) == len(several):
        return Instance(sum(classes, ()))
    return several[0] if len(several) == 1 else None


def member(of: Thing | None, name: str) -> Thing | None:
    """What `of.name` is."""
    if isinstance(of, Module):
        return thing(getattr(of.module, name, None), name)
    if isinstance(of, Kind):
        return _of_class(of.cls, name, through_instance=False)
    if isinstance(of, Instance):
        found = [_of_class(cls, name, through_instance=True) for cls in of.classes if hasattr(cls, name) or name in hints(cls)]
        same = {each.call if isinstance(each, Function) else each for each in found}
        return found[0] if len(same) == 1 else None
    return None


def _of_class(cls: type, name: str, through_instance: bool) -> Thing | None:
    found = inspect.getattr_static(cls, name, None)
    label = f"{cls.__name__}.{name}"
    match found:
        case property() if through_instance and found.fget is not None:
            return of_type(hints(found.fget).get("return"))
        case classmethod():
            return Function(found.__func__, label, bound=True)
        case staticmethod():
            return Function(found.__func__, label)
        case types.FunctionType() if framework_of(found):
            return Function(found, label, bound=through_instance)
    return of_type(hints(cls).get(name)) if through_instance else None


def result(of: Thing | None) -> Thing | None:
    """What a call gives."""
    if isinstance(of, Kind):
        return Instance((of.cls,))
    if not isinstance(of, Function):
        return None
    framework = framework_of(of.call)
    if of.name in (either := _EITHER.get(framework, {})):
        facade = importlib.import_module(FACADES[framework])
        awaited, each = (Instance((getattr(facade, name),)) if name and hasattr(facade, name) else None for name in either[of.name])
        return Coming(awaited, each)
    given = of_type(hints(inspect.unwrap(of.call)).get("return"))
    if hasattr(of.call, "__wrapped__"):  # a decorator may have made something else of it
        return None
    return Coming(awaited=given) if inspect.iscoroutinefunction(of.call) else given


def awaited(of: Thing | None) -> Thing | None:
    return of.awaited if isinstance(of, Coming) else None


def each(of: Thing | None) -> Thing | None:
    """What iterating over it gives."""
    if isinstance(of, Coming):
        return of.each
    if isinstance(of, Instance) and len(of.classes) == 1:  # class WorkflowRunResult(list[WorkflowEvent])
        bases = getattr(of.classes[0], "__orig_bases__", ())
        return next((found for base in bases if get_origin(base) in _MANY and (found := each(of_type(base)))), None)
    return None


def many(one: Thing | None) -> Thing | None:
    """A list of such things."""
    return Coming(each=one) if one is not None else None
