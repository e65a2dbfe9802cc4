"""Every promise in docs/PROMISES.md names the tests that check it, and those tests exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROMISE_IDS = {"C1", "C2", "C3", "C4", "C5", "C6", "C7", "D1", "D2", "D3", "D4", "D5", "D6", "S1", "S2", "S3", "S4", "S5"}


def read_promised_tests(text: str) -> dict[str, list[str]]:
    """Return the tests named under each promise of a page."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if heading := re.match(r"### ([A-Z]\d+) ", line):
            assert heading[1] not in found, f"{heading[1]} is promised twice"
            tests = found.setdefault(heading[1], [])
        elif line.startswith("#"):
            tests = []
        elif (test := re.fullmatch(r"- `(tests/.+)`", line)) and found:
            tests.append(test[1])
    return found


def is_collected_test(name: str, collected: Collection[str]) -> bool:
    """Return True if a name is a file with tests, a test, or, in brackets, one of its cases (alone or among other parameters)."""
    test, bracket, case = name.partition("[")
    if not bracket:
        return any(each == name or each.startswith((f"{name}::", f"{name}[")) for each in collected)
    case = case.removesuffix("]")
    pattern = re.compile(rf"{re.escape(test)}\[(.+-)?{re.escape(case)}(-.+)?\]")
    return any(pattern.fullmatch(each) for each in collected)


def find_problems(text: str, collected: Collection[str]) -> list[str]:
    """Return the problems of a page of promises."""
    found = read_promised_tests(text)
    problems = [f"{promise} is not on the page" for promise in sorted(PROMISE_IDS - found.keys())]
    problems += [f"{promise} is on the page and not promised" for promise in sorted(found.keys() - PROMISE_IDS)]
    for promise, tests in found.items():
        problems += [f"{promise} has no test"] if not tests else []
        problems += [f"{promise} names a test that does not exist: {test}" for test in tests if not is_collected_test(test, collected)]
    return problems


def list_test_functions(file: Path) -> Iterator[str]:
    """Yield the names of a file's tests, without the cases of parametrized ones."""
    name = file.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{name}::{node.name}"


def collect_test_cases(files: Collection[str]) -> set[str]:
    """Return the names of these files' tests, with every case of parametrized ones. Pytest takes 10 seconds for all files."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False).stdout
    names = {line for line in output.splitlines() if line.startswith("tests/") and "::" in line}
    assert names, f"nothing was collected:\n{output}"
    return names


def test_every_promise_has_tests_that_exist() -> None:
    text = (ROOT / "docs" / "PROMISES.md").read_text(encoding="utf-8")
    names = {name for file in (ROOT / "tests").rglob("test_*.py") for name in list_test_functions(file)}
    names |= collect_test_cases(
        sorted({name.partition("::")[0] for tests in read_promised_tests(text).values() for name in tests if "[" in name})
    )
    problems = find_problems(text, names)
    assert not problems, "\n".join(problems)


COLLECTED_NAMES = {"tests/a.py::test_one", "tests/a.py::test_story[memory-whole-a tale]", "tests/a.py::test_case[odd-one]"}


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
def test_only_collected_names_count_as_tests(name: str, there: bool) -> None:
    assert is_collected_test(name, COLLECTED_NAMES) is there


def test_missing_promises_and_tests_are_found() -> None:
    page = "### C1 Once\n\nWords.\n\n- `tests/a.py::test_one`\n\n### C2 Whole\n\n## Safety\n\n### S1 Safe\n\n- `tests/a.py::test_gone`\n"
    problems = find_problems(page, COLLECTED_NAMES)
    assert "C2 has no test" in problems
    assert "S1 names a test that does not exist: tests/a.py::test_gone" in problems
    assert "D1 is not on the page" in problems
    assert not [each for each in problems if each.startswith("C1 ")]
