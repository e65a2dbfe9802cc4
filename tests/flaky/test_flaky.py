"""The harness finds a test that passes only sometimes, and knows which tests use the outside world."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flaky.__main__ import main

TESTS = """
import time
from pathlib import Path

def test_pure():
    assert True

def test_sleeps():
    time.sleep(0.001)
"""

FAILS_EVERY_SECOND_TIME = """
from pathlib import Path

def test_sometimes():
    marker = Path(__file__).with_name("marker")
    if marker.exists():
        marker.unlink()
        raise AssertionError
    marker.touch()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    return tmp_path


def run_flaky(folder: Path, full: int, outside: int) -> int:
    options = {"full": full, "outside": outside, "load": 0, "workers": 0, "seed": 1}
    return main([str(folder), *(word for name, value in options.items() for word in (f"--{name}", str(value)))])


def test_only_outside_tests_run_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_flaky(folder, 1, 1) == 0
    printed = capsys.readouterr().out
    assert "full run 1, seed 1: 2 tests, 0 failed" in printed
    assert "outside run 2, seed 2: 1 tests, 0 failed" in printed


def test_a_flaky_test_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "test_other.py").write_text(FAILS_EVERY_SECOND_TIME)
    assert run_flaky(folder, 2, 0) == 1
    printed = capsys.readouterr().out
    assert "failed 1 times:" in printed
    assert "test_other.py::test_sometimes" in printed
    assert "1 runs of 2 failed" in printed
