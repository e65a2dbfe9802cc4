"""Type inference for the names of a program.

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
from typing import Any, TypeAlias

from legato.compat.migration.facades import FACADES
from legato.compat.migration.inferred_types import (
    ClassItself,
    InferredType,
    Instance,
    Module,
    infer_awaited,
    infer_call_result,
    infer_item,
    infer_member,
    infer_value,
    list_of,
)

Binding: TypeAlias = Callable[[], InferredType | None]
Scope: TypeAlias = ast.AST
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, *_COMPREHENSIONS)
_TESTS = ("isinstance", "issubclass", "hasattr", "type", "cast")


class TypeInference:
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
        self._known: dict[tuple[Scope, str], InferredType | None] = {}
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
        if (bind := _BINDERS.get(type(node))) is not None:
            bind(self, node, scope)

    def _bind_import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            first = alias.name.partition(".")[0]
            self._add(scope, alias.asname or first, partial(self._whole, alias.name if alias.asname else first))

    def _bind_import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            self._add(scope, alias.asname or alias.name, self._imported(node, alias.name))

    def _bind_assignment(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            self._target(target, node.value, scope)

    def _bind_annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        if isinstance(node.target, ast.Name):
            self._add(scope, node.target.id, lambda: self.annotated(node.annotation, scope))

    def _bind_augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        if isinstance(node.target, ast.Name):
            self._add(scope, node.target.id, _unknown)

    def _bind_named_expression(self, node: ast.NamedExpr, scope: Scope) -> None:
        self._add(scope, node.target.id, lambda: self.infer(node.value, scope))

    def _bind_loop(self, node: ast.For | ast.AsyncFor | ast.comprehension, scope: Scope) -> None:
        self._target(node.target, None, scope, lambda: infer_item(self.infer(node.iter, scope)))

    def _bind_with(self, node: ast.withitem, scope: Scope) -> None:
        if node.optional_vars is not None:
            self._target(node.optional_vars, None, scope)

    def _bind_exception(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name is not None:
            kind = node.type
            self._add(scope, node.name, (lambda: _instance(self.infer(kind, scope))) if kind is not None else _unknown)

    def _bind_pattern(self, node: ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name is not None:
            self._add(scope, node.name, _unknown)

    def _bind_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        self._add(scope, node.name, _unknown)
        self._bind_parameters(node, scope)

    def _bind_class(self, node: ast.ClassDef, scope: Scope) -> None:
        self._add(scope, node.name, _unknown)
        self._class(node)

    def _bind_deletion(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            self._target(target, None, scope)

    def _share(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        self._shared.update(node.names)

    def _note_attribute(self, node: ast.Attribute, scope: Scope) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.own.add(node.attr)

    def _note_match(self, node: ast.Match, scope: Scope) -> None:
        self._tested.add((scope, ast.dump(node.subject)))

    def _note_call(self, node: ast.Call, scope: Scope) -> None:
        match node:
            case ast.Call(func=ast.Name(id=name), args=[about, *rest]) if name in _TESTS:
                self._tested.add((scope, ast.dump(rest[0] if name == "cast" and rest else about)))
            case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=str(name)), *_]):
                self.own.add(name)

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

    def _bind_parameters(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope) -> None:
        given = function.args
        for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
            kind = argument.annotation
            self._add(function, argument.arg, partial(self.annotated, kind, scope) if kind is not None else _unknown)
        for several in (given.vararg, given.kwarg):
            if several is not None:
                self._add(function, several.arg, _unknown)

    def _class(self, node: ast.ClassDef) -> None:
        """Note that attributes of a program's class may be found on its base classes."""
        for part in ast.walk(node):
            match part:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.own.add(part.name)
                case ast.Assign():
                    self.own.update(target.id for target in part.targets if isinstance(target, ast.Name))
                case ast.AnnAssign(target=ast.Name(id=name)):
                    self.own.add(name)

    def _whole(self, name: str) -> InferredType | None:
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

        def find() -> InferredType | None:
            for place in places:
                module = self._module(place)
                value = vars(module).get(name) if module is not None else None
                if value is not None:
                    return infer_value(value, name)
            return None

        return find

    # -- what something is -----------------------------------------------------------------------------------------------

    def infer(self, node: ast.expr, scope: Scope | None = None) -> InferredType | None:
        """Return the type of an expression; None if that is not certain."""
        scope = scope if scope is not None else self.scope_of[node]
        if isinstance(node, (ast.Name, ast.Attribute)) and self._is_tested(node, scope):
            return None
        match node:
            case ast.Name(id=name):
                return self._look_up(name, scope)
            case ast.Attribute() if node.attr not in self.own:
                return infer_member(self.infer(node.value, scope), node.attr)
            case ast.Call():
                return infer_call_result(self.infer(node.func, scope))
            case ast.Await():
                return infer_awaited(self.infer(node.value, scope))
            case ast.NamedExpr():
                return self.infer(node.value, scope)
            case ast.Subscript():
                return _item(self.infer(node.value, scope), node.slice)
            case ast.IfExp():
                return self._infer_same([node.body, node.orelse], scope)
            case ast.List(elts=[_, *_]) | ast.Tuple(elts=[_, *_]):
                return list_of(self._infer_same(node.elts, scope))
            case ast.ListComp() | ast.GeneratorExp():
                return list_of(self.infer(node.elt, node))
        return None

    def _infer_same(self, nodes: list[ast.expr], scope: Scope) -> InferredType | None:
        return _same([self.infer(node, scope) for node in nodes])

    def annotated(self, node: ast.expr, scope: Scope) -> InferredType | None:
        """Return the type that an annotation of the program names."""
        match node:
            case ast.Constant(value=str(text)):
                try:
                    return self.annotated(ast.parse(text, mode="eval").body, scope)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    return None
            case (
                ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None))
                | ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=left)
            ):
                return self.annotated(left, scope)
            case ast.Subscript(value=ast.Name(id="list" | "List" | "Sequence" | "Iterable"), slice=of):
                return list_of(self.annotated(of, scope))
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return _instance(self.infer(node, scope))
        return None

    def _look_up(self, name: str, scope: Scope) -> InferredType | None:
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
        """Return True if the program itself tests the type of this: then it may be another one than it seems."""
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


def _same(found: list[InferredType | None]) -> InferredType | None:
    """Return the common type of all of these; objects of several classes are of any of them."""
    several = [one for one in found if isinstance(one, Instance)]
    if several and len(several) == len(found):
        return Instance(tuple(dict.fromkeys(cls for one in several for cls in one.classes)))
    return found[0] if found and all(one == found[0] for one in found) else None


def _item(of: InferredType | None, index: ast.expr) -> InferredType | None:
    """Return the type of `of[index]`. An index of a class names the class's parameter."""
    if isinstance(of, ClassItself):
        return of
    return None if isinstance(index, ast.Slice) else infer_item(of)


def _instance(of: InferredType | None) -> InferredType | None:
    return Instance((of.cls,)) if isinstance(of, ClassItself) else None


_BINDERS: dict[type[ast.AST], Callable[[TypeInference, Any, Scope], None]] = {
    ast.Import: TypeInference._bind_import,
    ast.ImportFrom: TypeInference._bind_import_from,
    ast.Assign: TypeInference._bind_assignment,
    ast.AnnAssign: TypeInference._bind_annotated,
    ast.AugAssign: TypeInference._bind_augmented,
    ast.NamedExpr: TypeInference._bind_named_expression,
    ast.For: TypeInference._bind_loop,
    ast.AsyncFor: TypeInference._bind_loop,
    ast.comprehension: TypeInference._bind_loop,
    ast.withitem: TypeInference._bind_with,
    ast.ExceptHandler: TypeInference._bind_exception,
    ast.MatchAs: TypeInference._bind_pattern,
    ast.MatchStar: TypeInference._bind_pattern,
    ast.FunctionDef: TypeInference._bind_function,
    ast.AsyncFunctionDef: TypeInference._bind_function,
    ast.Lambda: TypeInference._bind_parameters,
    ast.ClassDef: TypeInference._bind_class,
    ast.Delete: TypeInference._bind_deletion,
    ast.Global: TypeInference._share,
    ast.Nonlocal: TypeInference._share,
    ast.Attribute: TypeInference._note_attribute,
    ast.Call: TypeInference._note_call,
    ast.Match: TypeInference._note_match,
}
"""What a node of each kind binds, or says of names."""
