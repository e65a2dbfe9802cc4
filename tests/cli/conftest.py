"""The `shell` fixture: a folder with a program, in which the `legato` command runs."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.command_server import TIMEOUT_S, CommandServer, select_python_variables
from tests.cli.terminal import Terminal

LEGATO = [sys.executable, "-W", "error", "-m", "legato.cli"]
CANARY = "canary-4711"
REFUND = "I want a refund"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT")
UNSET_VARIABLES = (*KEYS, "LEGATO_STORE", "LEGATO_DEBUG", "NO_COLOR")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in UNSET_VARIABLES}
ENVIRONMENT["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")


HIDE_PACKAGES = """
import sys

class HidingFinder:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *where):
        return None if name.partition(".")[0] in HIDDEN else self.finder.find_spec(name, *where)

    def find_distributions(self, *context):
        return [each for each in getattr(self.finder, "find_distributions", lambda *_: ())(*context) if each.name not in HIDDEN]

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(HidingFinder, sys.meta_path)
"""


@cache
def get_command_server() -> CommandServer:
    """Return the command server of this process. It starts with the first command and ends with the process."""
    server = CommandServer(ENVIRONMENT)
    atexit.register(server.close)
    return server


class CommandResult(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """A folder in which commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "desk.py").write_text((Path(__file__).parent / "desk.py").read_text())
        self.environment = {**ENVIRONMENT, "XDG_DATA_HOME": str(folder / "data"), "HOME": str(folder), "COLUMNS": "200"}

    def __call__(
        self, *arguments: str | Path, stdin: str = "", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> CommandResult:
        typed, folder, environment = [*map(str, arguments)], cwd or self.folder, {**self.environment, **(env or {})}
        if select_python_variables(environment) == select_python_variables(ENVIRONMENT):
            code, out, err = get_command_server().run(typed, stdin.encode(), folder, environment)
            return CommandResult(code, out.decode(), err.decode())
        done = subprocess.run(
            [*LEGATO, *typed], input=stdin, text=True, capture_output=True, cwd=folder, env=environment, timeout=TIMEOUT_S
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def hide_packages(self, *packages: str) -> None:
        """Make these packages look as if they were not installed."""
        (self.folder / "without").mkdir()
        (self.folder / "without" / "sitecustomize.py").write_text(f"HIDDEN = {packages!r}\n{HIDE_PACKAGES}")
        self.environment["PYTHONPATH"] = f"{self.folder / 'without'}:{self.environment['PYTHONPATH']}"

    def open_terminal(self, *arguments: str | Path, **env: str) -> Terminal:
        """Start a command at a terminal."""
        return Terminal([*LEGATO, *map(str, arguments)], self.folder, {**self.environment, "TERM": "xterm-256color", **env})


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)
