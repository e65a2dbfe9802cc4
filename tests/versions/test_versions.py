"""`make versions` finds the right interpreters, and names a package that has no wheel for one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.versions.__main__ import find_missing_wheel, find_pythons

RUNNING_VERSION = sys.version_info[:3]


def add_python(folder: Path, name: str, description: str) -> None:
    """Put a command into a folder that describes itself as this Python."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho {description}\n")
    (folder / name).chmod(0o755)


def test_real_interpreters_on_path_are_found(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / f"bin/python3.{RUNNING_VERSION[1]}").symlink_to(sys.executable)
    (found,) = find_pythons(f"{tmp_path / 'absent'}{os.pathsep}{tmp_path / 'bin'}", tmp_path)
    assert found.numbers == RUNNING_VERSION


def test_the_newest_supported_cpythons_are_chosen(tmp_path: Path) -> None:
    add_python(tmp_path / "bin", "python3.10", "3.10.9 3 10 9 cpython")
    add_python(tmp_path / "bin", "python3.12", "3.12.1 3 12 1 cpython")
    add_python(tmp_path / "bin", "python3.13", "pyenv: python3.13: command not found")
    add_python(tmp_path / "bin", "python3.12-config", "3.12.9 3 12 9 cpython")
    add_python(tmp_path / ".pyenv/versions/3.12.2/bin", "python", "3.12.2 3 12 2 cpython")
    add_python(tmp_path / ".pyenv/versions/3.14.0/bin", "python", "3.14.0rc1 3 14 0 cpython")
    add_python(tmp_path / ".pyenv/versions/pypy3.11/bin", "python", "3.11.9 3 11 9 pypy")
    assert [python.version for python in find_pythons(str(tmp_path / "bin"), tmp_path)] == ["3.12.2", "3.14.0rc1"]


@pytest.mark.parametrize(
    ("error", "package"),
    [
        ("Because rs-bpe==0.1.0 has no wheels with a matching Python ABI tag (e.g., `cp314`) and you require", "rs-bpe==0.1.0"),
        ("  cause: Because rs-bpe==0.1.0 has no usable wheels and you require rs-bpe==0.1.0, we can", "rs-bpe==0.1.0"),
        ("error: Failed to fetch: `rs-bpe`", None),
    ],
)
def test_a_missing_wheel_is_named(error: str, package: str | None) -> None:
    assert find_missing_wheel(error) == package
