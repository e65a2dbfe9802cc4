"""Real processes for the tests of stores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from legato.core.facts import AnyFact, Said

SCRIPT = Path(__file__).with_name("child.py")
SOURCES = Path(__file__).parents[2] / "src"


class Child:
    """Another process, which runs a function of `child.py`."""

    def __init__(self, what: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(SCRIPT), what, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> tuple[str, str]:
        """What it said until its end, and what it complained about."""
        return self.process.communicate(timeout=60)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    started: list[Child] = []

    def start(what: str, *arguments: object) -> Child:
        started.append(Child(what, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def said(*numbers: int, size: int = 0) -> list[AnyFact]:
    return [Said(at=1000 + number, content=f"fact {number} {'x' * size}") for number in numbers]
