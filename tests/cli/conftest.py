"""A folder with a program in it, and the command as a shell runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.terminal import Terminal

LEGATO = [sys.executable, "-W", "error", "-m", "legato.cli"]
CANARY = "canary-4711"
REFUND = "I want a refund"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT")


WITHOUT = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *where):
        return None if name.partition(".")[0] in GONE else self.finder.find_spec(name, *where)

    def find_distributions(self, *asked):
        return [each for each in getattr(self.finder, "find_distributions", lambda *_: ())(*asked) if each.name not in GONE]

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Without, sys.meta_path)
"""


class Ended(NamedTuple):
    """How a command ended."""

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
    """A folder in which the command is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "desk.py").write_text((Path(__file__).parent / "desk.py").read_text())
        source = str(Path(__file__).parents[2] / "src")
        self.environment = {name: value for name, value in os.environ.items() if name not in KEYS}
        self.environment |= {"PYTHONPATH": source, "XDG_DATA_HOME": str(folder / "data"), "HOME": str(folder), "COLUMNS": "200"}
        for name in ("LEGATO_STORE", "LEGATO_DEBUG", "NO_COLOR"):
            self.environment.pop(name, None)

    def __call__(self, *arguments: str | Path, stdin: str = "", env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Ended:
        done = subprocess.run(
            [*LEGATO, *map(str, arguments)],
            input=stdin,
            text=True,
            capture_output=True,
            cwd=cwd or self.folder,
            env={**self.environment, **(env or {})},
            timeout=60,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def without(self, *packages: str) -> None:
        """From now on as if these were not installed."""
        (self.folder / "without").mkdir()
        (self.folder / "without" / "sitecustomize.py").write_text(f"GONE = {packages!r}\n{WITHOUT}")
        self.environment["PYTHONPATH"] = f"{self.folder / 'without'}:{self.environment['PYTHONPATH']}"

    def several(self, commands: Sequence[Sequence[str]]) -> list[Ended]:
        """Many commands in one process, one after another: for what would take too long otherwise."""
        program = (
            "import contextlib, io, json, sys\n"
            "from legato.cli import main, telling\n"
            "for typed in json.load(sys.stdin):\n"
            "    sys.argv, out, err, code = ['legato', *typed], io.StringIO(), io.StringIO(), 0\n"
            "    telling.screen.cache_clear()\n"
            "    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):\n"
            "        try:\n"
            "            main()\n"
            "        except SystemExit as ended:\n"
            "            code = ended.code or 0\n"
            "    print(json.dumps([code, out.getvalue(), err.getvalue()]))\n"
        )
        given, environment = json.dumps([list(each) for each in commands]), self.environment
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], input=given, text=True, capture_output=True, cwd=self.folder, env=environment
        )
        assert done.returncode == 0, done.stderr
        return [Ended(*json.loads(line)) for line in done.stdout.splitlines()]

    def terminal(self, *arguments: str | Path, **env: str) -> Terminal:
        """The command at a terminal."""
        return Terminal([*LEGATO, *map(str, arguments)], self.folder, {**self.environment, "TERM": "xterm-256color", **env})


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)
