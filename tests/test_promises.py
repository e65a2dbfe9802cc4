"""Every promise in docs/PROMISES.md names the tests that prove it, and those tests exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROMISED = {"C1", "C2", "C3", "C4", "C5", "C6", "C7", "D1", "D2", "D3", "D4", "D5", "D6", "S1", "S2", "S3", "S4", "S5"}


def promises(text: str) -> dict[str, list[str]]:
    """The tests named under each promise."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if heading := re.match(r"### ([A-Z]\d+) ", line):
            assert heading[1] not in found, f"{heading[1]} is promised twice"
            named = found.setdefault(heading[1], [])
        elif line.startswith("#"):
            named = []
        elif (test := re.fullmatch(r"- `(tests/.+)`", line)) and found:
            named.append(test[1])
    return found


def exists(name: str, collected: Collection[str]) -> bool:
    """Whether a name is a test: a file, a test, or, in brackets, one of its cases (alone or among other parameters)."""
    test, bracket, case = name.partition("[")
    if not bracket:
        return any(each == name or each.startswith((f"{name}::", f"{name}[")) for each in collected)
    case = case.removesuffix("]")
    pattern = re.compile(rf"{re.escape(test)}\[(.+-)?{re.escape(case)}(-.+)?\]")
    return any(pattern.fullmatch(each) for each in collected)


def problems(text: str, collected: Collection[str]) -> list[str]:
    """What is wrong with a page of promises."""
    found = promises(text)
    told = [f"{promise} is not on the page" for promise in sorted(PROMISED - found.keys())]
    told += [f"{promise} is on the page and not promised" for promise in sorted(found.keys() - PROMISED)]
    for promise, tests in found.items():
        told += [f"{promise} has no test"] if not tests else []
        told += [f"{promise} names a test that does not exist: {test}" for test in tests if not exists(test, collected)]
    return told


def functions_of(file: Path) -> Iterator[str]:
    """Yield the names of a file's tests, without the cases of parametrized ones."""
    name = file.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{name}::{node.name}"


def collected_cases(files: Collection[str]) -> set[str]:
    """Return the names of these files' tests, with every case of parametrized ones. Pytest takes 10 seconds for all files."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False).stdout
    names = {line for line in output.splitlines() if line.startswith("tests/") and "::" in line}
    assert names, f"nothing was collected:\n{output}"
    return names


def test_every_promise_has_tests_that_exist() -> None:
    text = (ROOT / "docs" / "PROMISES.md").read_text(encoding="utf-8")
    names = {name for file in (ROOT / "tests").rglob("test_*.py") for name in functions_of(file)}
    names |= collected_cases(sorted({name.partition("::")[0] for tests in promises(text).values() for name in tests if "[" in name}))
    told = problems(text, names)
    assert not told, "\n".join(told)


COLLECTED = {"tests/a.py::test_one", "tests/a.py::test_story[memory-whole-a tale]", "tests/a.py::test_case[odd-one]"}


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("tests/a.py", True),
        ("tests/a.py::test_one", True),
        ("tests/a.py::test_story", True),
        ("tests/a.py::test_story[a tale]", True),
        ("tests/a.py::test_case[odd-one]", True),
        ("tests/b.py", False),
        ("tests/a.py::test_on", False),
        ("tests/a.py::test_story[a tal]", False),
        ("tests/a.py::test_one[a tale]", False),
    ],
)
def test_a_name_is_found_if_and_only_if_it_is_a_test(name: str, there: bool) -> None:
    assert exists(name, COLLECTED) is there


def test_a_promise_without_a_test_and_a_test_that_is_gone_are_noticed() -> None:
    page = "### C1 Once\n\nWords.\n\n- `tests/a.py::test_one`\n\n### C2 Whole\n\n## Safety\n\n### S1 Safe\n\n- `tests/a.py::test_gone`\n"
    told = problems(page, COLLECTED)
    assert "C2 has no test" in told
    assert "S1 names a test that does not exist: tests/a.py::test_gone" in told
    assert "D1 is not on the page" in told
    assert not [each for each in told if each.startswith("C1 ")]
