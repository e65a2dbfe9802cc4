"""The names, attributes and arguments of the facades, read from the facades themselves: the answer cannot age."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any, get_type_hints

from msgspec import Struct

from legato.compat import MeansNothingHere
from legato.errors import BadInput, install_hint

HERE = "legato.compat."
FACADES = {"agent_framework": f"{HERE}agent_framework", "agents": f"{HERE}agents"}
TITLES = {"agent_framework": "Microsoft Agent Framework", "agents": "OpenAI Agents SDK"}


def covered_names() -> dict[str, frozenset[str]]:
    """Return the facades' names, by the module that a program imports from: `agents`, `agents.extensions.handoff_filters`."""
    names: dict[str, frozenset[str]] = {}
    for framework, facade in FACADES.items():
        try:
            package = importlib.import_module(facade)
        except ModuleNotFoundError as missing:
            if missing.name != facade:
                what = f"what is covered is asked of {facade}, which needs the package {missing.name!r}"
                raise BadInput(what, do=install_hint("openai")) from None
            names[framework] = frozenset()
            continue
        inside = pkgutil.walk_packages(getattr(package, "__path__", ()), f"{facade}.")
        for module in (package, *(importlib.import_module(found.name) for found in inside)):
            names[framework + module.__name__.removeprefix(facade)] = frozenset(getattr(module, "__all__", None) or _public(module))
    for name in list(names):
        package_name, _, leaf = name.rpartition(".")
        if "." in package_name and package_name in names and names[name]:  # `from agents.extensions import handoff_filters`
            names[package_name] |= {leaf}
    return names


def _public(module: ModuleType) -> Iterator[str]:
    """Yield the public names of a module without `__all__`."""
    for name, value in vars(module).items():
        own = getattr(value, "__module__", "") == module.__name__ or (name.isupper() and name != "TYPE_CHECKING")
        if own and not name.startswith("_"):
            yield name


def framework_of(thing: Any) -> str:
    """Return the framework whose facade defines a class or function; empty if none does."""
    module = getattr(thing, "__module__", "") or ""
    return next((name for name, facade in FACADES.items() if module == facade or module.startswith(f"{facade}.")), "")


# -- attributes --------------------------------------------------------------------------------------------------------------


def explain_missing_attribute(cls: type, name: str) -> str | None:
    """Return None if an object of this class may have such an attribute; else the class's explanation, which may be empty.

    An object that a program takes for one of `cls` may be of a class below it.
    """
    said = [_explain_missing(each, name) for each in (cls, *_below(cls))]
    return None if None in said else next((words for words in said if words), "")


def explain_missing_name(module: str, name: str) -> str:
    """Return a facade module's explanation for a name that it does not have."""
    try:
        getattr(importlib.import_module(module), name)
    except (AttributeError, ImportError) as error:
        return "" if str(error).startswith(("module ", "No module", "cannot import")) else _words(error)
    return ""


def _explain_missing(cls: type, name: str) -> str | None:
    if hasattr(cls, name) or any(name in _set_on_self(each) for each in cls.__mro__ if framework_of(each)):
        return None
    try:
        if (found := inspect.getattr_static(cls, name, None)) is not None:
            if type(found).__module__.startswith(HERE):
                found.__get__(None, cls)  # it holds the place of something, to say that it is not there
        elif any(name in getattr(each, "__annotations__", {}) for each in cls.__mro__):
            return None
        elif (ask := getattr(cls, "__getattr__", None)) is not None:
            ask(object.__new__(cls), name)
        else:
            return ""
    except Exception as error:
        known = isinstance(error, AttributeError) or framework_of(type(error)) or type(error).__module__ == "legato.errors"
        return _words(error) if known else None
    return None


def _words(error: Exception) -> str:
    """Return the last part of an error's message, if it is more than Python's own message."""
    told = str(error)
    words = getattr(error, "do", "") or told.partition(" is not here: ")[2] or told
    return words if " " in words and "has no attribute" not in words else ""


def _below(cls: type) -> list[type]:
    subclasses: list[type] = type.__subclasses__(cls)
    found = [each for each in subclasses if framework_of(each)]
    return [*found, *(further for each in found for further in _below(each))]


@cache
def _set_on_self(cls: Any) -> frozenset[str]:
    tree = _source(cls)
    stores = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)] if tree else []
    return frozenset(node.attr for node in stores if isinstance(node.value, ast.Name) and node.value.id == "self")


@cache
def _source(thing: Any) -> ast.Module | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):
        return None


# -- arguments ---------------------------------------------------------------------------------------------------------------


class AcceptedArguments(Struct, frozen=True):
    """The arguments that a call accepts."""

    signature: inspect.Signature
    keywords: frozenset[str]
    """By name, its own and those that it passes on."""
    rest: tuple[Callable[..., Any], ...] = ()
    """Who takes others and says itself which. Without one, there are no others."""


@cache
def read_accepted_arguments(call: Callable[..., Any], bound: bool = False) -> AcceptedArguments | None:
    """Return the arguments of a facade's class or function; None if unknown. `bound`: the first parameter is given already."""
    try:
        signature = inspect.signature(call)
    except (ValueError, TypeError):
        return None
    parameters = list(signature.parameters.values())[int(bound) :]
    names = {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    rest: tuple[Callable[..., Any], ...] = ()
    if more := next((each.name for each in parameters if each.kind is each.VAR_KEYWORD), ""):
        onwards = _passes_on(call, more)
        for other, other_is_bound in onwards:
            if (there := read_accepted_arguments(other, other_is_bound)) is None:
                return None
            names |= there.keywords
            rest += there.rest
        if not onwards:
            rest = (call,)
    return AcceptedArguments(signature.replace(parameters=parameters), frozenset(names), rest)


def _passes_on(call: Callable[..., Any], more: str) -> list[tuple[Callable[..., Any], bool]]:
    """To whom a function hands its `**more`, if it does nothing else with it: `return self.run(message, stream=True, **more)`."""
    tree = _source(call) if inspect.isfunction(call) else None
    if tree is None:
        return []
    loads = [node for node in ast.walk(tree) if _is_name(node, more)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    handed = [node.func for node in calls for keyword in node.keywords if keyword.arg is None and _is_name(keyword.value, more)]
    found = [callee for target in handed if (callee := _callee(call, target)) is not None]
    return found if len(found) == len(loads) else []


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _callee(call: Any, target: ast.expr) -> tuple[Callable[..., Any], bool] | None:
    """Return the facade's function that is called by this name, and whether its first parameter is given already; else None."""
    match target:
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            owner = _owner(call)
            if owner is None or not callable(getattr(owner, name, None)):
                return None
            method = inspect.getattr_static(owner, name)
            return (method.__func__ if isinstance(method, classmethod) else method), True
        case ast.Name(id=name) if framework_of(other := call.__globals__.get(name) or _exported(call, name)):
            return other, False
    return None


def _owner(call: Callable[..., Any]) -> type | None:
    name, dot, _ = call.__qualname__.rpartition(".")
    owner = getattr(sys.modules[call.__module__], name, None) if dot else None
    return owner if isinstance(owner, type) else None


def _exported(thing: Any, name: str) -> Any:
    """Return the facade's value of a name that the module of `thing` does not import until it runs."""
    return getattr(importlib.import_module(FACADES[framework_of(thing)]), name, None) if framework_of(thing) else None


class ArgumentAnswer(Struct, frozen=True):
    """A class's answer to an argument."""

    accepted: bool
    words: str


def find_listed_answer(call: Any, name: str, argument: str) -> ArgumentAnswer | None:
    """Return the entry about an argument in the facade's tables `INSTEAD` and `NOTHING`."""
    tables = importlib.import_module(f"{FACADES[framework_of(call)]}.unsupported")
    owners = [vars(each).get("__mirrors__", each.__name__) for each in call.__mro__] if isinstance(call, type) else [name]
    owners.append(name.rpartition("_")[0])  # run_sync and run_streamed take what run takes
    for key in (f"{owner}.{argument}" for owner in owners):
        for accepted, table in ((False, "INSTEAD"), (True, "NOTHING")):
            if words := getattr(tables, table, {}).get(key):
                return ArgumentAnswer(accepted, words)
    return None


@cache
def try_argument(call: Callable[..., Any], name: str) -> ArgumentAnswer | None:
    """Return a class's own answer to an argument outside its signature: an object is made, and thrown away.

    None if it takes the argument, or objects to something else.
    """
    if not isinstance(call, type) or any(each.default is each.empty for each in _named(call)):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error", MeansNothingHere)
        try:
            call(**{name: object()})
        except MeansNothingHere as said:
            told = str(said)
            return ArgumentAnswer(True, told.partition("means nothing here: ")[2]) if f"({name}=...)" in told else None
        except Exception as error:
            about = f"takes no {name!r}" in str(error) or f"({name}=...)" in str(error)
            return ArgumentAnswer(False, getattr(error, "do", "")) if about else None
    return None


def _named(call: Callable[..., Any]) -> list[inspect.Parameter]:
    return [each for each in inspect.signature(call).parameters.values() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]


# -- types -------------------------------------------------------------------------------------------------------------------


@cache
def resolve_annotations(thing: Any) -> dict[str, Any]:
    """The annotations of a class or function, as far as they can be resolved."""
    module = sys.modules.get(getattr(thing, "__module__", ""))
    facade = importlib.import_module(FACADES[framework_of(thing)]) if framework_of(thing) else None
    try:
        # A module imports some names for type checkers alone; the facade has them too. The module's own meaning of a name comes first.
        return get_type_hints(thing, {**(vars(facade) if facade else {}), **(vars(module) if module else {})})
    except (NameError, TypeError, AttributeError):
        return {}
