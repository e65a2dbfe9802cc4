"""The inferred types of a program's expressions, as far as the facades tell. Only what is certain is inferred."""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, Union, get_args, get_origin

from legato.compat.migration.facades import FACADES, framework_of, resolve_annotations


@dataclass(frozen=True)
class Instance:
    """An object of one of these classes."""

    classes: tuple[type, ...]


@dataclass(frozen=True)
class ClassItself:
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
class AsyncOrIterable:
    """A value that can be awaited, or iterated over, or both."""

    awaited: InferredType | None = None
    each: InferredType | None = None


InferredType: TypeAlias = Instance | ClassItself | Function | Module | AsyncOrIterable

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


def infer_value(value: Any, name: str = "") -> InferredType | None:
    """Return the type of a value that a facade has under a name."""
    if isinstance(value, types.ModuleType):
        return Module(value)
    if not framework_of(value):
        return None
    if isinstance(value, type):
        return ClassItself(value)
    return Function(value, name or value.__name__) if inspect.isfunction(value) else None


def infer_annotation(hint: Any) -> InferredType | None:
    """Return the type that a facade's annotation names."""
    origin, parts = get_origin(hint), get_args(hint)
    cls = hint if origin is None else origin
    if isinstance(cls, type) and framework_of(cls):
        return Instance((cls,))
    if not parts:
        return None
    if origin in (Union, types.UnionType):
        return _one_of([infer_annotation(part) for part in parts if part is not type(None)])
    if origin is type:
        return ClassItself(parts[0]) if isinstance(parts[0], type) and framework_of(parts[0]) else None
    if origin in _MANY or origin in _MANY_COMING:
        return AsyncOrIterable(each=infer_annotation(parts[0]))
    return AsyncOrIterable(awaited=infer_annotation(parts[-1])) if origin in _AWAITED else None


def _one_of(several: list[InferredType | None]) -> InferredType | None:
    """An object of one of these classes; of things that are no objects, the only one."""
    classes = [each.classes for each in several if isinstance(each, Instance)]
    if len(classes) == len(several):
        return Instance(sum(classes, ()))
    return several[0] if len(several) == 1 else None


def infer_member(of: InferredType | None, name: str) -> InferredType | None:
    """Return the type of `of.name`."""
    if isinstance(of, Module):
        return infer_value(getattr(of.module, name, None), name)
    if isinstance(of, ClassItself):
        return _of_class(of.cls, name, through_instance=False)
    if isinstance(of, Instance):
        found = [
            _of_class(cls, name, through_instance=True) for cls in of.classes if hasattr(cls, name) or name in resolve_annotations(cls)
        ]
        same = {each.call if isinstance(each, Function) else each for each in found}
        return found[0] if len(same) == 1 else None
    return None


def _of_class(cls: type, name: str, through_instance: bool) -> InferredType | None:
    found = inspect.getattr_static(cls, name, None)
    label = f"{cls.__name__}.{name}"
    match found:
        case property() if through_instance and found.fget is not None:
            return infer_annotation(resolve_annotations(found.fget).get("return"))
        case classmethod():
            return Function(found.__func__, label, bound=True)
        case staticmethod():
            return Function(found.__func__, label)
        case types.FunctionType() if framework_of(found):
            return Function(found, label, bound=through_instance)
    return infer_annotation(resolve_annotations(cls).get(name)) if through_instance else None


def infer_call_result(of: InferredType | None) -> InferredType | None:
    """Return the type of a call's result."""
    if isinstance(of, ClassItself):
        return Instance((of.cls,))
    if not isinstance(of, Function):
        return None
    framework = framework_of(of.call)
    if of.name in (either := _EITHER.get(framework, {})):
        facade = importlib.import_module(FACADES[framework])
        awaited, each = (Instance((getattr(facade, name),)) if name and hasattr(facade, name) else None for name in either[of.name])
        return AsyncOrIterable(awaited, each)
    given = infer_annotation(resolve_annotations(inspect.unwrap(of.call)).get("return"))
    if hasattr(of.call, "__wrapped__"):  # a decorator may have made something else of it
        return None
    return AsyncOrIterable(awaited=given) if inspect.iscoroutinefunction(of.call) else given


def infer_awaited(of: InferredType | None) -> InferredType | None:
    return of.awaited if isinstance(of, AsyncOrIterable) else None


def infer_item(of: InferredType | None) -> InferredType | None:
    """Return the type of the items that iteration yields."""
    if isinstance(of, AsyncOrIterable):
        return of.each
    if isinstance(of, Instance) and len(of.classes) == 1:  # class WorkflowRunResult(list[WorkflowEvent])
        bases = getattr(of.classes[0], "__orig_bases__", ())
        return next((found for base in bases if get_origin(base) in _MANY and (found := infer_item(infer_annotation(base)))), None)
    return None


def list_of(one: InferredType | None) -> InferredType | None:
    """Return the type of a list of such values."""
    return AsyncOrIterable(each=one) if one is not None else None
