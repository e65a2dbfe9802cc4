"""The activity log of workers: a file beside the ledger, with a line before and after each activity, which survives a `kill -9`.

A tool logs the start and end of its body, with its call's idempotency key; a model logs its request, and the id of its reply. So the ledger
can be compared with an independent record.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple


class Activity(NamedTuple):
    """A tool run or model request of a worker; `ended_at` is 0 if its end is unknown."""

    kind: str
    worker: int
    session: str
    name: str
    started_at: float
    ended_at: float
    details: dict[str, Any]


def write_line(**line: Any) -> None:
    """Append a line to the activity log, in one piece."""
    global _file
    if _file < 0:
        _file = os.open(os.environ["LEGATO_CHAOS_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(_file, json.dumps({**line, "worker": os.getpid(), "time": time.time()}).encode() + b"\n")


_file = -1


class ActivityLog:
    """A reader of the activity log, as it grows."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._path = path
        self._offset = 0
        self._open: dict[str, dict[str, Any]] = {}
        self._ended: list[Activity] = []
        self.started_count = 0
        """The number of started activities."""
        self.started_tools: dict[str, list[dict[str, Any]]] = defaultdict(list)
        """The started tool bodies, by idempotency key."""
        self.tool_outputs: dict[str, str] = {}
        """The outputs of tools, by idempotency key."""

    def read(self) -> None:
        """Read the new lines."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            lines = file.read().rpartition(b"\n")[0].splitlines(keepends=True)
        self._offset += sum(map(len, lines)) + bool(lines)
        for line in map(json.loads, lines):
            if line["what"] == "begin":
                self.started_count += 1
                self._open[line["id"]] = line
                if line["kind"] == "tool":
                    self.started_tools[line["key"]].append(line)
            elif (began := self._open.pop(line["id"], None)) is not None:
                self._ended.append(_make_activity(began, line["time"]))
                if line.get("key"):
                    self.tool_outputs[line["key"]] = line["output"]

    @property
    def activities(self) -> list[Activity]:
        """All started activities."""
        return [*self._ended, *(_make_activity(line, 0.0) for line in self._open.values())]

    def is_in_tool(self, worker: int, names: frozenset[str]) -> bool:
        """Return True if one of these tools is running in a worker."""
        return any(line["worker"] == worker and line["name"] in names for line in self._open.values())


def _make_activity(line: dict[str, Any], ended: float) -> Activity:
    return Activity(line["kind"], line["worker"], line["session"], line["name"], line["time"], ended, line)
