"""A terminal screen as tmux renders it."""

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

TIMEOUT_S = 30.0


class TmuxScreen:
    """A terminal in a tmux server of its own, apart from the user's sessions."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str], columns: int = 100, rows: int = 30) -> None:
        self._server = f"legato-{uuid4().hex[:8]}"
        given = [f"{name}={value}" for name, value in environment.items() if name != "TERM"]
        line = f'env -i {shlex.join(given)} TERM=tmux-256color {shlex.join(command)}; echo "ended with $?"; sleep 60'
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "one", "-x", str(columns), "-y", str(rows), "-c", str(folder), line)

    def _tmux(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-L", self._server, *arguments], check=True, capture_output=True, text=True, timeout=TIMEOUT_S
        ).stdout

    def read(self, colours: bool = False) -> str:
        """Return the text on the screen, with the scrollback."""
        return self._tmux("capture-pane", "-p", "-S", "-1000", "-J", *(["-e"] if colours else []), "-t", "one")

    def wait_for(self, words: str, times: int = 1) -> str:
        """Wait until the text is on the screen, as often as `times`."""
        deadline = time.monotonic() + TIMEOUT_S
        while (shown := self.read()).count(words) < times:
            if time.monotonic() > deadline:
                pytest.fail(f"{words!r} was never shown:\n{shown}")
            time.sleep(0.05)
        return shown

    def type(self, line: str) -> None:
        """Type a line and press Enter."""
        self.write(line)
        self.press("Enter")

    def write(self, letters: str) -> None:
        self._tmux("send-keys", "-t", "one", "-l", "--", letters)

    def press(self, key: str) -> None:
        self._tmux("send-keys", "-t", "one", key)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-t", "one", "-x", str(columns), "-y", str(rows))

    def __enter__(self) -> TmuxScreen:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        subprocess.run(["tmux", "-L", self._server, "kill-server"], capture_output=True, timeout=TIMEOUT_S)


def run_on_screen(shell: Shell, *arguments: str, folder: Path | None = None, columns: int = 100, rows: int = 30) -> TmuxScreen:
    """Run a `legato` command in a terminal."""
    return TmuxScreen([*LEGATO, *arguments], folder or shell.folder, make_environment(shell), columns, rows)


def make_environment(shell: Shell) -> dict[str, str]:
    """Return the environment of a terminal, whose width tmux determines."""
    return {**shell.environment, "COLUMNS": "", "LANG": "C.UTF-8"}
