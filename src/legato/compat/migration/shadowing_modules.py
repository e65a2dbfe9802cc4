"""A program's own modules that shadow a framework's name.

`from agents import triage` beside a module `agents.py` may mean either. It means the program's own if that has one of the names that
are taken; it is read for that, and never run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from legato.compat.migration.facades import FACADES
from legato.compat.migration.programs import parse_program
from legato.errors import BadInput


def own_modules(path: Path, source: str) -> list[str]:
    """The frameworks' names that are modules of the program's own, for what it imports."""
    beside = path.resolve().parent
    # What an absolute import finds: what is beside a script, or beside the outermost package.
    root = next(folder for folder in (beside, *beside.parents) if not (folder / "__init__.py").exists())
    tree: ast.Module | None = None
    found = []
    for name in FACADES:
        candidates = [place for folder in dict.fromkeys((beside, root)) for place in (folder / f"{name}.py", folder / name)]
        if places := [place for place in candidates if _is_module(place)]:
            tree = tree or parse_program(source)
            wanted = set(_imported_names(tree, name))
            if any(wanted & has if (has := _defined_names(place)) is not None else wanted for place in places):
                found.append(name)
    return found


def _is_module(place: Path) -> bool:
    return place.is_file() or (place / "__init__.py").exists()


def _imported_names(tree: ast.Module, name: str) -> Iterator[str]:
    """Yield the names that a program imports from a module."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), level=0) if module.partition(".")[0] == name:
                yield from [module.split(".")[1]] if "." in module else [alias.name for alias in node.names]
            case ast.Import():
                yield from [alias.name.split(".")[1] for alias in node.names if alias.name.startswith(f"{name}.")]
            case ast.Attribute(value=ast.Name(id=id)) if id == name:
                yield node.attr


def _defined_names(place: Path) -> set[str] | None:
    """Return the names that a module defines, as far as its text tells; None if it may define any."""
    try:
        tree = parse_program((place / "__init__.py" if place.is_dir() else place).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, BadInput):
        return None
    bound = set(_bound_names(tree))
    if "*" in bound or "__getattr__" in bound:
        return None
    return bound | ({each.stem for each in place.iterdir() if each.suffix in (".py", "")} if place.is_dir() else set())


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module binds."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
