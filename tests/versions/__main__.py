"""Run tests with other versions, each in an environment of its own that is made anew.

    python -m tests.versions pythons ...    `make versions`: every Python that is found, with the locked versions of everything else
    python -m tests.versions newest ...     `make newest`: the newest versions that `pyproject.toml` allows
    python -m tests.versions lowest ...     `make lowest`: the lowest versions that `pyproject.toml` allows of what it names

The other arguments are pytest's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.versions.lock import PROJECT
from tests.versions.uv import ROOT, find_uv

OLDEST_PYTHON = tuple(map(int, PROJECT["project"]["requires-python"].removeprefix(">=").split(".")))

DESCRIBE_PYTHON = "import platform, sys; print(platform.python_version(), *sys.version_info[:3], sys.implementation.name)"


class Python(NamedTuple):
    """An interpreter of this machine."""

    version: str
    numbers: tuple[int, ...]
    path: Path


class SetupError(Exception):
    """An environment could not be set up."""


def find_pythons(search_path: str, home: Path) -> list[Python]:
    """Return the newest CPython of each supported minor version, on this PATH or installed by pyenv in this home."""
    found: dict[tuple[int, ...], Python] = {}
    for path in _list_candidates(search_path, home):
        description = subprocess.run([str(path), "-c", DESCRIBE_PYTHON], capture_output=True, text=True).stdout.split()
        if len(description) != 5 or description[-1] != "cpython":
            continue  # pyenv has commands for versions that are not enabled, and they only print that
        python = Python(description[0], tuple(map(int, description[1:4])), path)
        minor = python.numbers[:2]
        if minor >= OLDEST_PYTHON and (minor not in found or found[minor].numbers < python.numbers):
            found[minor] = python
    return [found[minor] for minor in sorted(found)]


def _list_candidates(search_path: str, home: Path) -> Iterator[Path]:
    for folder in search_path.split(os.pathsep):
        yield from (each for each in sorted(Path(folder).glob("python3.*")) if re.fullmatch(r"python3\.\d+", each.name))
    yield from sorted(home.glob(".pyenv/versions/*/bin/python"))


class Environment:
    """A virtual environment at the root of the project, made anew."""

    def __init__(self, name: str, python: Path) -> None:
        self._uv = find_uv()
        self.python = ROOT / name / "bin" / "python"
        print(f"setting up {name} ...", flush=True)
        self._run("venv", "--clear", "--no-project", "--python", str(python), str(ROOT / name))

    def install(self, *arguments: str) -> None:
        """Install dependencies, then this project. Nothing but the project is built: what has no wheel is refused."""
        self._run("pip", "install", "--python", str(self.python), "--only-binary", ":all:", *arguments)
        self._run("pip", "install", "--python", str(self.python), "--no-deps", "--no-build-isolation", "--editable", ".")

    def _run(self, *arguments: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        done = subprocess.run([self._uv, *arguments, "--quiet"], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise SetupError(done.stderr.strip())

    def run_tests(self, arguments: Sequence[str]) -> tuple[bool, str]:
        """Run pytest; return True if it passed, and its summary line."""
        running = subprocess.Popen([str(self.python), "-m", "pytest", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert running.stdout is not None
        last = ""
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
        return running.wait() == 0, last.strip("= ")


def find_missing_wheel(error: str) -> str | None:
    """Return the package that has no wheel for this Python, if uv's error names one."""
    found = re.search(r"\b(\S+==\S+) has no (?:usable )?wheels", error)
    return found and found[1]


def run_on_every_python(arguments: Sequence[str]) -> int:
    """Run the tests on every Python that is found, and list the results."""
    results, failed = [], False
    for python in find_pythons(os.environ.get("PATH", ""), Path.home()):
        passed, summary = run_on_python(python, arguments)
        failed |= not passed
        results.append(f"  {python.version:<10} {summary}")
    print("\nTested with these versions of Python:", *results, sep="\n")
    return int(failed)


def run_on_python(python: Python, arguments: Sequence[str]) -> tuple[bool, str]:
    """Run the tests on one Python; return False if they failed, and a summary."""
    try:
        environment = Environment(f".venv-py{python.numbers[0]}.{python.numbers[1]}", python.path)
        environment.install("--require-hashes", "--requirements", "requirements/dev.txt")
    except SetupError as error:
        if package := find_missing_wheel(str(error)):
            return True, f"LEFT OUT: {package} has no wheel for it"
        print(error)
        return False, "FAILED: its environment could not be set up (see above)"
    passed, counts = environment.run_tests(arguments)
    return passed, counts if passed else f"FAILED: {counts}"


def run_with_resolution(name: str, arguments: Sequence[str]) -> int:
    """Run the tests with the newest or the lowest versions."""
    resolution = {"newest": "highest", "lowest": "lowest-direct"}[name]
    environment = Environment(f".venv-{name}", Path(sys.executable))
    environment.install("--resolution", resolution, "--requirements", "pyproject.toml", "--extra", "dev")
    # Old releases use functions that newer releases of other packages deprecate. These warnings are expected.
    quiet = ["-W", "default"] if name == "lowest" else []
    passed, _ = environment.run_tests([*arguments, *quiet])
    return int(not passed)


def main() -> int:
    match sys.argv[1:]:
        case ["pythons", *arguments]:
            return run_on_every_python(arguments)
        case ["newest" | "lowest" as name, *arguments]:
            try:
                return run_with_resolution(name, arguments)
            except SetupError as error:
                sys.exit(str(error))
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
