"""Which names of a program stand for what. May know: Python's grammar and scopes. Decides: when something is certain.

A name stands for what is bound to it in its scope; if one of the things that are bound to it is unknown, so is the name.
Nothing is followed into functions of the program. So what is found is true, and much is not found.
"""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import TypeAlias

from legato.compat.migration.facades import FACADES
from legato.compat.migration.things import Instance, Kind, Module, Thing, awaited, each, many, member, result, thing

Binding: TypeAlias = Callable[[], Thing | None]
Scope: TypeAlias = ast.AST
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, *_COMPREHENSIONS)
_TESTS = ("isinstance", "issubclass", "hasattr", "type", "cast")


class Flows:
    """A program's names. `ours`: which modules that it imports are a facade's, by the name it imports them by."""

    def __init__(self, tree: ast.Module, ours: Mapping[str, str]) -> None:
        self.own: set[str] = set()
        """Attributes that the program itself gives to something: they may well be there."""
        self.scope_of: dict[ast.AST, Scope] = {}
        self._ours = ours
        self._parents: dict[Scope, Scope | None] = {tree: None}
        self._bindings: dict[tuple[Scope, str], list[Binding]] = defaultdict(list)
        self._tested: set[tuple[Scope, str]] = set()
        self._shared: set[str] = set()
        self._known: dict[tuple[Scope, str], Thing | None] = {}
        self._walk(tree, tree)

    # -- who binds what --------------------------------------------------------------------------------------------------

    def _walk(self, node: ast.AST, scope: Scope) -> None:
        waiting = [(child, scope) for child in [*ast.iter_child_nodes(node)][::-1]]
        while waiting:  # a stack, not recursion: a program may be as deep as its parser allows
            child, scope = waiting.pop()
            self.scope_of[child] = scope
            self._bind(child, scope)
            inner = scope
            if isinstance(child, _SCOPES):
                self._parents[child] = scope
                inner = child
            waiting += [(below, inner) for below in [*ast.iter_child_nodes(child)][::-1]]

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.Import():
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    self._add(scope, alias.asname or first, partial(self._whole, alias.name if alias.asname else first))
            case ast.ImportFrom():
                for alias in node.names:
                    self._add(scope, alias.asname or alias.name, self._imported(node, alias.name))
            case ast.Assign():
                for target in node.targets:
                    self._target(target, node.value, scope)
            case ast.AnnAssign(target=ast.Name(id=name)):
                self._add(scope, name, lambda: self.annotated(node.annotation, scope))
            case ast.AugAssign(target=ast.Name(id=name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self._add(scope, name, _unknown)
            case ast.NamedExpr(target=ast.Name(id=name)):
                self._add(scope, name, lambda: self.infer(node.value, scope))
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._target(node.target, None, scope, lambda: each(self.infer(node.iter, scope)))
            case ast.withitem(optional_vars=ast.expr() as target):
                self._target(target, None, scope)
            case ast.ExceptHandler(name=str(name), type=kind):
                self._add(scope, name, (lambda: _instance(self.infer(kind, scope))) if kind is not None else _unknown)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._add(scope, node.name, _unknown)
                self._parameters(node)
            case ast.ClassDef():
                self._add(scope, node.name, _unknown)
                self._class(node)
            case ast.Lambda():
                self._parameters(node)
            case ast.Global() | ast.Nonlocal():
                self._shared.update(node.names)
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                self.own.add(node.attr)
            case ast.Call(func=ast.Name(id=name), args=[about, *rest]) if name in _TESTS:
                self._tested.add((scope, ast.dump(rest[0] if name == "cast" and rest else about)))
            case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=str(name)), *_]):
                self.own.add(name)
            case ast.Match():
                self._tested.add((scope, ast.dump(node.subject)))
            case ast.Delete():
                for target in node.targets:
                    self._target(target, None, scope)

    def _add(self, scope: Scope, name: str, binding: Binding) -> None:
        self._bindings[scope, name].append(binding)

    def _target(self, target: ast.expr, value: ast.expr | None, scope: Scope, binding: Binding | None = None) -> None:
        match target:
            case ast.Name(id=name) if isinstance(value, ast.Constant) and value.value is None and binding is None:
                self._bindings[scope, name]  # `workflow = None`, before it is made
            case ast.Name(id=name):
                self._add(scope, name, binding or ((lambda: self.infer(value, scope)) if value is not None else _unknown))
            case ast.Tuple() | ast.List():
                parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else []
                straight = parts and not any(isinstance(part, ast.Starred) for part in (*parts, *target.elts))
                for number, part in enumerate(target.elts):
                    self._target(part, parts[number] if straight else None, scope)
            case ast.Starred():
                self._target(target.value, None, scope)

    def _parameters(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        given = function.args
        for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
            kind = argument.annotation
            self._add(function, argument.arg, partial(self.annotated, kind, self.scope_of[function]) if kind is not None else _unknown)
        for several in (given.vararg, given.kwarg):
            if several is not None:
                self._add(function, several.arg, _unknown)

    def _class(self, node: ast.ClassDef) -> None:
        """What a class of the program adds may be found on what it is a kind of."""
        for part in ast.walk(node):
            match part:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.own.add(part.name)
                case ast.Assign():
                    self.own.update(target.id for target in part.targets if isinstance(target, ast.Name))
                case ast.AnnAssign(target=ast.Name(id=name)):
                    self.own.add(name)

    def _whole(self, name: str) -> Thing | None:
        return Module(module) if (module := self._module(name)) is not None else None

    def _module(self, name: str) -> ModuleType | None:
        try:
            return importlib.import_module(self._ours[name]) if name in self._ours else None
        except ModuleNotFoundError:
            return None

    def _imported(self, node: ast.ImportFrom, name: str) -> Binding:
        framework = (node.module or "").partition(".")[0]
        places = (node.module or "", framework) if framework in FACADES else (node.module or "",)
        if node.level or not any(place in self._ours for place in places):
            return _unknown

        def find() -> Thing | None:
            for place in places:
                module = self._module(place)
                value = vars(module).get(name) if module is not None else None
                if value is not None:
                    return thing(value, name)
            return None

        return find

    # -- what something is -----------------------------------------------------------------------------------------------

    def infer(self, node: ast.expr, scope: Scope | None = None) -> Thing | None:
        """What an expression is; None if that is not certain."""
        scope = scope if scope is not None else self.scope_of[node]
        if isinstance(node, (ast.Name, ast.Attribute)) and self._is_tested(node, scope):
            return None
        match node:
            case ast.Name(id=name):
                return self._look_up(name, scope)
            case ast.Attribute():
                return None if node.attr in self.own else member(self.infer(node.value, scope), node.attr)
            case ast.Call():
                return result(self.infer(node.func, scope))
            case ast.Await():
                return awaited(self.infer(node.value, scope))
            case ast.NamedExpr():
                return self.infer(node.value, scope)
            case ast.Subscript():
                of = self.infer(node.value, scope)
                return of if isinstance(of, Kind) else None if isinstance(node.slice, ast.Slice) else each(of)
            case ast.IfExp():
                return _same([self.infer(node.body, scope), self.infer(node.orelse, scope)])
            case ast.List(elts=[_, *_]) | ast.Tuple(elts=[_, *_]):
                one = _same([self.infer(part, scope) for part in node.elts])
                return many(one) if one is not None else None
            case ast.ListComp() | ast.GeneratorExp():
                one = self.infer(node.elt, node)
                return many(one) if one is not None else None
        return None

    def annotated(self, node: ast.expr, scope: Scope) -> Thing | None:
        """What an annotation of the program says."""
        match node:
            case ast.Constant(value=str(text)):
                try:
                    return self.annotated(ast.parse(text, mode="eval").body, scope)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    return None
            case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)) | ast.Subscript(
                value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=left
            ):
                return self.annotated(left, scope)
            case ast.Subscript(value=ast.Name(id="list" | "List" | "Sequence" | "Iterable"), slice=of):
                one = self.annotated(of, scope)
                return many(one) if one is not None else None
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return _instance(self.infer(node, scope))
        return None

    def _look_up(self, name: str, scope: Scope) -> Thing | None:
        if name in self._shared:
            return None
        where: Scope | None = scope
        while where is not None:
            if (where, name) in self._bindings and (where is scope or not isinstance(where, ast.ClassDef)):
                if (where, name) not in self._known:
                    self._known[where, name] = None  # if it is made from itself, it is not certain
                    self._known[where, name] = _same([bound() for bound in self._bindings[where, name]])
                return self._known[where, name]
            where = self._parents[where]
        return None

    def _is_tested(self, node: ast.expr, scope: Scope) -> bool:
        """Whether the program itself asks what this is: then it may be something else than it seems."""
        if not self._tested:
            return False
        told = ast.dump(node)
        where: Scope | None = scope
        while where is not None:
            if (where, told) in self._tested:
                return True
            where = self._parents[where]
        return False


def _unknown() -> None:
    return None


def _same(found: list[Thing | None]) -> Thing | None:
    """What all of these are; objects of several classes are of any of them."""
    several = [one for one in found if isinstance(one, Instance)]
    if several and len(several) == len(found):
        return Instance(tuple(dict.fromkeys(cls for one in several for cls in one.classes)))
    return found[0] if found and all(one == found[0] for one in found) else None


def _instance(of: Thing | None) -> Thing | None:
    return Instance((of.cls,)) if isinstance(of, Kind) else None
