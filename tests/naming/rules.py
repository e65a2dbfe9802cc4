"""The naming rules, as checks on the syntax trees of the package and its tests."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FACADES = ("compat",)
"""Packages that mirror other frameworks' names."""

NOUNS_IN_ING = {"naming", "testing"}
"""Names of modules and packages that end in "ing" and are nouns of the field."""

PARTICIPLES = {
    *("told", "asked", "given", "held", "shown", "used", "said", "heard", "rested", "seen", "known", "meant", "kept", "found"),
    *("left", "sent", "made", "brought", "spoken", "written", "taken", "done", "owed", "gone", "listed", "counted", "checked"),
}
"""Participles that are no names of functions, parameters, classes or attributes: they do not say what they are."""

FOREIGN_WORDS = re.compile(r"\b(whoever|whomever|somebody|nobody|manieth|heed|hush|law books?|clauses?|complaints?|May know|Decides)\b")
"""Words of an earlier dialect, in docstrings and comments."""

RIDDLES = re.compile(r"(What|Where|Who|Whom|Whose|How|Which|Whether|For whom|Of one|Of what|Those who|One that)\b")
"""Openings of docstrings that leave the reader without a subject."""

BARE_CONSTANTS = re.compile(
    r"_?(MOST|LONGEST|LARGEST|SHORTEST|LEAST|OFTEN|SELDOM|PATIENCE|SILENCE|LONG_AGO|ENOUGH|TOO_\w+|TOLD|SAID|ASKED)(_\w+)?"
)
"""Names of constants that do not say what they limit."""

TEST_NAME_WORDS = range(4, 9)


@dataclass(frozen=True)
class Offender:
    """One place that breaks one rule."""

    path: Path
    rule: str
    name: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT).as_posix() if self.path.is_relative_to(ROOT) else self.path}: {self.rule}: {self.name}"

    def is_in(self, path: Path) -> bool:
        """Return True if the place is this file, or in this folder."""
        return self.path == path or self.path.is_relative_to(path)


def find_offenders(root: Path) -> Iterator[Offender]:
    """Yield every place below `src/legato` and `tests` that breaks a rule."""
    sources = sorted((root / "src" / "legato").rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources}
    for path, tree in trees.items():
        if not _is_facade(path, root):
            yield from check_module_name(path)
            yield from check_names(path, tree)
        yield from check_docstrings(path, tree)
        yield from check_comments(path)
    yield from check_unique_classes({path: tree for path, tree in trees.items() if not _is_facade(path, root)})
    for path in sorted((root / "tests").rglob("test_*.py")):
        yield from check_test_names(path, ast.parse(path.read_text(encoding="utf-8")))


def _is_facade(path: Path, root: Path) -> bool:
    return path.relative_to(root / "src" / "legato").parts[0] in FACADES


def check_module_name(path: Path) -> Iterator[Offender]:
    """Modules and packages are nouns."""
    name = path.parent.name if path.name == "__init__.py" else path.stem
    if name.endswith("ing") and name not in NOUNS_IN_ING:
        yield Offender(path, "module named by a gerund", name)
    if name in PARTICIPLES:
        yield Offender(path, "module named by a participle", name)


def check_names(path: Path, tree: ast.Module) -> Iterator[Offender]:
    """Functions, parameters and classes are no bare participles, and constants say what they limit."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            variadic = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
            names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *variadic)]
            for name in (node.name, *names):
                if name.strip("_") in PARTICIPLES:
                    yield Offender(path, "bare participle", f"{node.name}({name})" if name != node.name else name)
        elif isinstance(node, ast.ClassDef) and node.name.strip("_").lower() in PARTICIPLES:
            yield Offender(path, "bare participle", node.name)
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name) and BARE_CONSTANTS.fullmatch(target.id):
                    yield Offender(path, "constant that does not say what it limits", target.id)


def check_docstrings(path: Path, tree: ast.Module) -> Iterator[Offender]:
    """A docstring opens with a plain sentence about the thing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            name = "module" if isinstance(node, ast.Module) else node.name
            if RIDDLES.match(text):
                yield Offender(path, "docstring opening", f"{name}: {text.split()[0]}")
            for word in sorted({match[0] for match in FOREIGN_WORDS.finditer(text)}):
                yield Offender(path, "word in docstring", f"{name}: {word}")


def check_comments(path: Path) -> Iterator[Offender]:
    """Comments use the words of the field."""
    for line in path.read_text(encoding="utf-8").splitlines():
        before, mark, comment = line.partition("  # ") if not line.lstrip().startswith("#") else ("", "#", line)
        if mark and (match := FOREIGN_WORDS.search(comment)):
            yield Offender(path, "word in comment", f"{match[0]}: {(before + comment).strip()[:60]}")


def check_unique_classes(trees: dict[Path, ast.Module]) -> Iterator[Offender]:
    """A class name occurs once."""
    places: dict[str, list[Path]] = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    for name, paths in places.items():
        if len(paths) > 1:
            for path in paths:
                yield Offender(path, "class name that occurs more than once", name)


def check_test_names(path: Path, tree: ast.Module) -> Iterator[Offender]:
    """A test's name has 4 to 8 words; the sentence, where one is needed, is its docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            words = len(node.name.split("_")) - 1
            if words not in TEST_NAME_WORDS:
                yield Offender(path, f"test name of {words} words", node.name)
