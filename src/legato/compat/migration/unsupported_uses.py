"""The unsupported attributes and arguments that a program uses.

Only certain findings are reported: an attribute or an argument that our class does not have, or that it accepts and does nothing with.
Where the class of an object is not known, nothing is reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from legato.compat.migration.advice_texts import INSTEAD, MEANS_NOTHING, NO_COUNTERPART, PRIVATE
from legato.compat.migration.facades import (
    AcceptedArguments,
    ArgumentAnswer,
    explain_missing_attribute,
    find_listed_answer,
    framework_of,
    read_accepted_arguments,
    try_argument,
)
from legato.compat.migration.inferred_types import ClassItself, Function, Instance
from legato.compat.migration.type_inference import TypeInference


class Use(Struct, frozen=True):
    """An attribute or argument of a covered class that is not there, or (`accepted`) means nothing here."""

    use: str
    framework: str
    line: int
    accepted: bool
    instead: str


def find_unsupported_uses(tree: ast.Module, ours: Mapping[str, str]) -> list[Use]:
    """Return the uses that are not covered, in order. `ours`: see `TypeInference`."""
    if not ours:
        return []
    flows = TypeInference(tree, ours)
    excused = {id(inner) for node in ast.walk(tree) if _expects_failure(node) for inner in ast.walk(node)}
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Call)) and id(node) not in excused]
    found = {use for node in nodes for use in _ProgramPlace(flows, node).uses()}
    return sorted(found, key=lambda use: (use.line, use.use))


def _expects_failure(node: ast.AST) -> bool:
    """A `try` that looks whether something is there."""
    caught = [each for handler in node.handlers if handler.type for each in ast.walk(handler.type)] if isinstance(node, ast.Try) else []
    return any(isinstance(each, ast.Name) and each.id in ("AttributeError", "TypeError") for each in caught)


class _ProgramPlace:
    """One place of a program."""

    def __init__(self, flows: TypeInference, node: ast.Attribute | ast.Call) -> None:
        self._flows = flows
        self._node = node

    def uses(self) -> list[Use]:
        try:
            return list(self._attribute(self._node) if isinstance(self._node, ast.Attribute) else self._call(self._node))
        except RecursionError:
            return []  # a chain too long to be written by hand

    def _use(self, use: str, of: Any, instead: str, accepted: bool = False, line: int = 0) -> Use:
        return Use(use, framework_of(of), line or _line(self._node), accepted, instead)

    # -- attributes ------------------------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> Iterator[Use]:
        name = node.attr
        if name in self._flows.own or (name.startswith("__") and name.endswith("__")):
            return
        of = self._flows.infer(node.value)
        classes = of.classes if isinstance(of, Instance) else (of.cls,) if isinstance(of, ClassItself) else ()
        if not classes:
            return
        label = f"{classes[0].__name__}.{name}"
        if name.startswith("_"):
            yield self._use(label, classes[0], PRIVATE)
            return
        said = [explain_missing_attribute(cls, name) for cls in classes]
        if None not in said and not hasattr(type, name):
            instead = next(filter(None, said), "") or _words(name, classes) or NO_COUNTERPART[framework_of(classes[0])]
            yield self._use(label, classes[0], instead)

    # -- arguments -------------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Iterator[Use]:
        of = self._flows.infer(node.func)
        called = Function(of.cls, of.cls.__name__) if isinstance(of, ClassItself) else of
        if not isinstance(called, Function) or (taken := read_accepted_arguments(called.call, called.bound)) is None:
            return
        target, name = called.call, called.name
        named = {keyword.arg: keyword for keyword in node.keywords if keyword.arg is not None}
        given = {argument: keyword for argument, keyword in named.items() if not _is(keyword.value, None)}
        for argument, keyword in given.items():
            yield from self._argument(target, name, taken, argument, keyword)
        unset = {argument for argument in named.keys() - given.keys() if find_listed_answer(target, name, argument)}
        if given.keys() <= taken.keywords and (words := _does_not_fit(node, taken, unset)):
            instead = _words_for(name, target) or f"here it takes other arguments: {words}"
            yield self._use(f"{name}(...)", target, instead, line=_line(node.func))

    def _argument(self, target: Any, name: str, taken: AcceptedArguments, argument: str, given: ast.keyword) -> Iterator[Use]:
        key, label = f"{name}({argument})", f"{name}({argument}=...)"
        parameter = taken.signature.parameters.get(argument)
        if parameter is not None and parameter.default is not parameter.empty and _is(given.value, parameter.default):
            return  # what it is without it, too
        answers = [find_listed_answer(target, name, argument)]
        if answers == [None] and argument in taken.keywords:
            answers = [ArgumentAnswer(True, MEANS_NOTHING[key]) if key in MEANS_NOTHING else None]
        elif answers == [None]:
            answers = [try_argument(other, argument) for other in taken.rest] or [ArgumentAnswer(False, "")]
        for answer in filter(None, answers):
            instead = answer.words or INSTEAD.get(key, NO_COUNTERPART[framework_of(target)])
            yield self._use(label, target, instead, answer.accepted, given.lineno)


def _line(node: ast.expr) -> int:
    """Of a chain over many lines, the line where the name stands."""
    return node.end_lineno or node.lineno


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is type(value) and node.value == value


def _words(name: str, classes: tuple[type, ...]) -> str:
    """Return the replacement of an attribute, listed for the class or one of its base classes."""
    return next((INSTEAD[key] for cls in classes for each in cls.__mro__ if (key := f"{each.__name__}.{name}") in INSTEAD), "")


def _words_for(name: str, target: Any) -> str:
    """The same, of a method by its name."""
    return INSTEAD.get(name) or INSTEAD.get(getattr(target, "__qualname__", ""), "")


def _does_not_fit(node: ast.Call, taken: AcceptedArguments, unset: set[str]) -> str:
    """Why a call cannot be made; empty if it can, or if it is not written out. `unset`: known arguments that ask for nothing."""
    if any(isinstance(given, ast.Starred) for given in node.args) or any(keyword.arg is None for keyword in node.keywords):
        return ""
    named = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg and keyword.arg not in unset}
    try:
        taken.signature.bind(*node.args, **named)
    except TypeError as error:
        return str(error)
    return ""
