"""A user at a real terminal of the operating system."""

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

TIMEOUT_S = 60.0
ESCAPE_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x1b[=>]")
CTRL_C, CTRL_D = b"\x03", b"\x04"


class Terminal:
    """Types keys and reads the screen. `screen_text` has no escape codes, `raw_text` has them."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._bytes = b""
        self._read_chars = 0
        self._main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.process = subprocess.Popen(
            [*command],
            cwd=folder,
            env=dict(environment),
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            preexec_fn=_take_controlling_terminal,
        )
        os.close(other)

    @property
    def raw_text(self) -> str:
        return self._bytes.decode(errors="ignore")  # the last character may be incomplete

    @property
    def screen_text(self) -> str:
        return ESCAPE_CODES.sub("", self.raw_text)

    def wait_for(self, words: str) -> str:
        """Read until this text appears after the one waited for before. Return the text up to there."""
        since, deadline = self._read_chars, time.monotonic() + TIMEOUT_S
        while words not in self.screen_text[since:]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._main], [], [], left)[0] or not self._read_more():
                pytest.fail(f"{words!r} was never shown:\n{self.screen_text}")
        self._read_chars = self.screen_text.index(words, since) + len(words)
        return self.screen_text[since : self._read_chars]

    def type(self, line: str) -> None:
        os.write(self._main, line.encode() + b"\r")

    def press(self, key: bytes) -> None:
        if key == CTRL_D:  # before line editing begins, it would mean the end of an empty line
            wait_until(lambda: not termios.tcgetattr(self._main)[3] & termios.ICANON)
        os.write(self._main, key)

    def interrupt_prompt(self) -> int:
        """Press Ctrl-C at a prompt until the program ends, and return the exit code. A new prompt may lose a signal: Python's `input`
        checks for signals before it waits for keys, and not in between."""
        for _ in range(6):
            self.press(CTRL_C)
            if self.has_ended(5):
                break
        return self.wait_for_end()

    def has_ended(self, seconds: float) -> bool:
        """Return True if the program ends within so many seconds."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Kill the program, as with `kill -9`."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)
        os.close(self._main)

    def close(self) -> None:
        """Close the terminal and send the program SIGHUP."""
        os.close(self._main)
        self.process.send_signal(signal.SIGHUP)
        self.process.wait(TIMEOUT_S)

    def wait_for_end(self) -> int:
        """Wait for the end of the program and return its exit code."""
        while select.select([self._main], [], [], TIMEOUT_S)[0] and self._read_more():
            pass
        code = self.process.wait(TIMEOUT_S)
        os.close(self._main)
        assert "Traceback" not in self.screen_text
        return code

    def _read_more(self) -> bool:
        try:
            piece = os.read(self._main, 4096)
        except OSError:  # the end of a terminal on Linux
            return False
        self._bytes += piece
        return bool(piece)


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + TIMEOUT_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _take_controlling_terminal() -> None:
    """Make the terminal the controlling one of the process, so that Ctrl-C sends a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
