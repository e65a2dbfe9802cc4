"""Programs of other frameworks, with their imports changed.

A program is parsed and never run or imported. Only the text of its import statements changes: everything else, comments and blank
lines too, stays as it is, byte for byte. Which names there are is asked of the facades themselves, so the answer cannot age.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from legato.compat.migration.advice_texts import DIFFERS, INSTEAD, NO_COUNTERPART, PRIVATE, STAR, SUBMODULE
from legato.compat.migration.facades import FACADES, explain_missing_name
from legato.compat.migration.unsupported_uses import Use, find_unsupported_uses
from legato.errors import BadInput


class Name(Struct, frozen=True):
    """One name that a program takes from a framework."""

    name: str
    module: str
    line: int
    covered: bool
    instead: str = ""


class Migration(Struct, frozen=True):
    """The result of migrating a program."""

    program: str
    names: tuple[Name, ...] = ()
    notes: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()
    """What it uses of covered classes that they do not have here, or that means nothing."""

    @property
    def missing(self) -> list[Name]:
        """Names that are not covered."""
        return [name for name in self.names if not name.covered]

    @property
    def is_covered(self) -> bool:
        """True if nothing is left to do."""
        return not self.missing and all(use.accepted for use in self.uses)


def migrate_program(source: str, covered: Mapping[str, Collection[str]], own_modules: Collection[str] = ()) -> Migration:
    """The program with its imports changed. `covered`: as `covered_names()`. `own_modules`: the program's own that have a framework's name.

    >>> migrate_program("from agents import Agent  # mine", {"agents": {"Agent"}}).program
    'from legato.compat.agents import Agent  # mine'
    """
    tree = parse_program(source)
    editor = _Editor(source, tree, {name: names for name, names in covered.items() if name.partition(".")[0] not in own_modules})
    editor.take_imports()
    names = sorted(editor.names, key=lambda name: (name.line, name.name))
    own = [f"{name} is a module of your own here, and was left alone" for name in sorted(own_modules) if re.search(rf"\b{name}\b", source)]
    differs = [DIFFERS[name] for name in sorted({each.name for each in names if each.covered} & DIFFERS.keys())]
    return Migration(editor.edited(), tuple(names), (*own, *differs), tuple(find_unsupported_uses(tree, _our_modules(editor.covered))))


def _our_modules(covered: Iterable[str]) -> dict[str, str]:
    """The facade's module for each module of a framework, and for itself: a program that was moved is looked at, too."""
    theirs = {name: FACADES[framework] + name.removeprefix(framework) for name in covered for framework in [name.partition(".")[0]]}
    return theirs | {facade: facade for facade in theirs.values()}


def parse_program(source: str) -> ast.Module:
    """The program's tree; `BadInput` if it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the parser thinks of the program's strings is not ours to say
            return ast.parse(source)
    except SyntaxError as error:
        raise BadInput(f"this is no Python: {error.msg}", found=f"line {error.lineno}: {(error.text or '').strip()[:80]}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadInput("this is no Python that can be read", found=str(error)[:80] or type(error).__name__) from None


class _Editor:
    """Collects names, and replacements of stretches of the text."""

    def __init__(self, source: str, tree: ast.Module, covered: Mapping[str, Collection[str]]) -> None:
        self.names: list[Name] = []
        self._source = source
        self._tree = tree
        self.covered = covered
        self._changes: list[tuple[int, int, str]] = []
        lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", source)
        self._lines = lines
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))

    def take_imports(self) -> None:
        """Take the names of all imports."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                self.takes_from(node, node.module)
            elif isinstance(node, ast.Import):
                self.takes(node)

    def edited(self) -> str:
        """The program with all replacements made."""
        text = self._source
        for start, end, new in sorted(self._changes, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def _at(self, line: int, column: int) -> int:
        """Return the text position of a place in the tree: its columns count bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.stmt | ast.alias) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno or node.lineno, node.end_col_offset or 0)

    # -- from x import y -------------------------------------------------------------------------------------------------

    def takes_from(self, node: ast.ImportFrom, module: str) -> None:
        """`from agents import Agent, Runner as R`"""
        if module.partition(".")[0] not in self.covered:
            return
        moves: dict[str, list[ast.alias]] = {}
        stays: list[ast.alias] = []
        for alias in node.names:
            facade, instead = self._facade(alias.name, module)
            self.names.append(Name(alias.name, module, node.lineno, bool(facade), instead))
            moves.setdefault(facade, []).append(alias) if facade else stays.append(alias)
        start, end = self._span(node)
        if len(moves) == 1 and not stays:
            written = re.compile(r"from[\s\\]*" + r"[\s\\]*\.[\s\\]*".join(map(re.escape, module.split("."))))
            match = written.match(self._source, start, end)
            assert match is not None  # so the grammar has it
            self._changes.append((start, match.end(), f"from {next(iter(moves))}"))
        elif moves:
            # Several statements out of one. What was remarked within it is kept before them.
            before = self._source[self._starts[node.lineno - 1] : start]
            ending = "\r\n" if self._lines[node.lineno - 1].endswith("\r\n") else "\n"
            between = f"{ending}{before}" if not before.strip() else "; "
            remarks = "".join(f"{comment}{between}" for comment in _comments(self._source[start:end]) if not before.strip())
            statements = [
                f"from {new} import {', '.join(map(_written, names))}" for new, names in (*moves.items(), (module, stays)) if names
            ]
            self._changes.append((start, end, remarks + between.join(statements)))

    def _facade(self, name: str, module: str) -> tuple[str, str]:
        """Return the facade's module for a name; else nothing, and what to write instead."""
        framework, _, rest = module.partition(".")
        if name == "*":
            return "", STAR.format(module=module, names=", ".join(self._taken_by_star(module)) or "A, B")
        if name.startswith("_") or any(part.startswith("_") for part in rest.split(".")):
            return "", PRIVATE
        for place in (module, framework):
            if name in self.covered.get(place, ()):
                return FACADES[framework] + place.removeprefix(framework), ""
        return "", explain_missing_name(FACADES[framework], name) or INSTEAD.get(name, NO_COUNTERPART[framework])

    def _taken_by_star(self, module: str) -> list[str]:
        """Return the names that a program uses and the module has, and that nothing else in the program binds visibly."""
        named = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name)]
        stored = {node.id for node in named if not isinstance(node.ctx, ast.Load)}
        return sorted({node.id for node in named} & set(self.covered.get(module, ())) - stored)

    # -- import x --------------------------------------------------------------------------------------------------------

    def takes(self, node: ast.Import) -> None:
        """`import agents`, `import agents as sdk`"""
        for alias in node.names:
            framework, _, rest = alias.name.partition(".")
            if framework not in self.covered:
                continue
            if rest:
                instead = PRIVATE if any(part.startswith("_") for part in rest.split(".")) else SUBMODULE.format(module=alias.name)
                self.names.append(Name(alias.name, alias.name, node.lineno, False, instead))
                continue
            used = [(name, line, *self._facade(name, framework)) for name, line in self._attributes(alias.asname or alias.name)]
            self.names += [Name(name, framework, line, bool(facade), instead) for name, line, facade, instead in used]
            if used and all(facade for _, _, facade, _ in used):
                self._changes.append((*self._span(alias), f"{FACADES[framework]} as {alias.asname or alias.name}"))
            elif not used:
                unseen = f"nothing is seen to be used of it; {SUBMODULE.format(module=framework)}"
                self.names.append(Name(alias.name, alias.name, node.lineno, False, unseen))

    def _attributes(self, bound: str) -> Iterator[tuple[str, int]]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == bound:
                yield node.attr, node.lineno


def _written(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]
