"""A terminal with a screen, as tmux draws it: what a person sees, and not the bytes that made it."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from uuid import uuid4

import pytest

from tests.cli.conftest import LEGATO, Shell

PATIENCE = 30.0


class Screen:
    """A terminal of its own server, so that nobody else's is touched."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str], columns: int = 100, rows: int = 30) -> None:
        self._server = f"legato-{uuid4().hex[:8]}"
        given = [f"{name}={value}" for name, value in environment.items() if name != "TERM"]
        line = f'env -i {shlex.join(given)} TERM=tmux-256color {shlex.join(command)}; echo "ended with $?"; sleep 60'
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "one", "-x", str(columns), "-y", str(rows), "-c", str(folder), line)

    def _tmux(self, *arguments: str) -> str:
        return subprocess.run(["tmux", "-L", self._server, *arguments], check=True, capture_output=True, text=True, timeout=PATIENCE).stdout

    def shown(self, colours: bool = False) -> str:
        """What stands on the screen now, and what has left it at the top."""
        return self._tmux("capture-pane", "-p", "-S", "-1000", "-J", *(["-e"] if colours else []), "-t", "one")

    def until(self, words: str, times: int = 1) -> str:
        """Wait until these words stand on the screen."""
        deadline = time.monotonic() + PATIENCE
        while (shown := self.shown()).count(words) < times:
            if time.monotonic() > deadline:
                pytest.fail(f"{words!r} was never shown:\n{shown}")
            time.sleep(0.05)
        return shown

    def type(self, line: str) -> None:
        """Type a line, and the key that ends it."""
        self.write(line)
        self.press("Enter")

    def write(self, letters: str) -> None:
        self._tmux("send-keys", "-t", "one", "-l", "--", letters)

    def press(self, key: str) -> None:
        self._tmux("send-keys", "-t", "one", key)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-t", "one", "-x", str(columns), "-y", str(rows))

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        subprocess.run(["tmux", "-L", self._server, "kill-server"], capture_output=True, timeout=PATIENCE)


def on_screen(shell: Shell, *arguments: str, folder: Path | None = None, columns: int = 100, rows: int = 30) -> Screen:
    """A verb of the command, on a screen."""
    return Screen([*LEGATO, *arguments], folder or shell.folder, environment(shell), columns, rows)


def environment(shell: Shell) -> dict[str, str]:
    """The variables of a person's terminal, which knows by itself how wide it is."""
    return {**shell.environment, "COLUMNS": "", "LANG": "C.UTF-8"}
