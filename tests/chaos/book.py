"""What workers really did, in a file beside the ledger: each line is written before, or after, something is done, and outlives a `kill -9`.

A tool writes when its body begins and ends, under its call's idempotency key; a model what it was sent, and under which id it replied. So
the ledger can be compared with something that it did not write.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple


class Act(NamedTuple):
    """Something that began in a worker, and when it ended: 0 if that is not known."""

    kind: str
    worker: int
    session: str
    name: str
    began: float
    ended: float
    more: dict[str, Any]


def write(**line: Any) -> None:
    """Add a line to the book of this process's run, in one piece."""
    global _book
    if _book < 0:
        _book = os.open(os.environ["LEGATO_CHAOS_BOOK"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(_book, json.dumps({**line, "worker": os.getpid(), "time": time.time()}).encode() + b"\n")


_book = -1


class Book:
    """The book, read as it grows."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._path = path
        self._at = 0
        self._open: dict[str, dict[str, Any]] = {}
        self._over: list[Act] = []
        self.many = 0
        """How many things have begun."""
        self.begun: dict[str, list[dict[str, Any]]] = defaultdict(list)
        """Bodies of tools that began, by their calls' keys."""
        self.done: dict[str, str] = {}
        """What tools gave back, by their calls' keys."""

    def read(self) -> None:
        """Read on to where the book ends now."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            lines = file.read().rpartition(b"\n")[0].splitlines(keepends=True)
        self._at += sum(map(len, lines)) + bool(lines)
        for line in map(json.loads, lines):
            if line["what"] == "begin":
                self.many += 1
                self._open[line["id"]] = line
                if line["kind"] == "tool":
                    self.begun[line["key"]].append(line)
            elif (began := self._open.pop(line["id"], None)) is not None:
                self._over.append(_act(began, line["time"]))
                if line.get("key"):
                    self.done[line["key"]] = line["gave"]

    @property
    def acts(self) -> list[Act]:
        """All that began."""
        return [*self._over, *(_act(line, 0.0) for line in self._open.values())]

    def in_tool(self, worker: int, names: frozenset[str]) -> bool:
        """Whether one of these tools is running in a worker."""
        return any(line["worker"] == worker and line["name"] in names for line in self._open.values())


def _act(line: dict[str, Any], ended: float) -> Act:
    return Act(line["kind"], line["worker"], line["session"], line["name"], line["time"], ended, line)
