"""A person at a terminal: a real one, as the operating system has it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

PATIENCE = 60.0
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x1b[=>]")
CTRL_C, CTRL_D = b"\x03", b"\x04"


class Terminal:
    """Types, and reads what is shown. Colours are left out of `shown`, and are in `raw`."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._bytes = b""
        self._read = 0
        self._main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.process = subprocess.Popen(
            [*command], cwd=folder, env=dict(environment), stdin=other, stdout=other, stderr=other, start_new_session=True, preexec_fn=_own
        )
        os.close(other)

    @property
    def raw(self) -> str:
        return self._bytes.decode(errors="ignore")  # the last letter may have come in part

    @property
    def shown(self) -> str:
        return CODES.sub("", self.raw)

    def until(self, words: str) -> str:
        """Read on until these words are shown, after those that were waited for before; what came with them."""
        since, deadline = self._read, time.monotonic() + PATIENCE
        while words not in self.shown[since:]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._main], [], [], left)[0] or not self._more():
                pytest.fail(f"{words!r} was never shown:\n{self.shown}")
        self._read = self.shown.index(words, since) + len(words)
        return self.shown[since : self._read]

    def type(self, line: str) -> None:
        os.write(self._main, line.encode() + b"\r")

    def press(self, key: bytes) -> None:
        if key == CTRL_D:  # before a line is edited, a terminal takes it for the end of an empty one, and it is lost
            eventually(lambda: not termios.tcgetattr(self._main)[3] & termios.ICANON)
        os.write(self._main, key)

    def interrupt_prompt(self) -> int:
        """Press Ctrl-C at a prompt until the program ends: the exit code. A prompt that was just shown may lose a signal: Python's
        `input` looks for signals before it waits for keys, and not in between."""
        for _ in range(6):
            self.press(CTRL_C)
            if self.is_over(5):
                break
        return self.end()

    def is_over(self, seconds: float) -> bool:
        """Whether the program ends within so many seconds."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._main)

    def close(self) -> None:
        """The terminal goes: whoever reads from it is told, and gets the signal."""
        os.close(self._main)
        self.process.send_signal(signal.SIGHUP)
        self.process.wait(PATIENCE)

    def end(self) -> int:
        """Wait for its end: the exit code."""
        while select.select([self._main], [], [], PATIENCE)[0] and self._more():
            pass
        code = self.process.wait(PATIENCE)
        os.close(self._main)
        assert "Traceback" not in self.shown
        return code

    def _more(self) -> bool:
        try:
            piece = os.read(self._main, 4096)
        except OSError:  # what Linux says at the end of a terminal
            return False
        self._bytes += piece
        return bool(piece)


def eventually(happened: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _own() -> None:
    """Make the terminal the process's own, so that Ctrl-C is a signal as everywhere."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
