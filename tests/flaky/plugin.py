"""A pytest plugin for `make flaky`: shuffle the tests, and record which of them use processes, sockets or clocks.

Environment variables switch it, because pytest-xdist's workers inherit them: `FLAKY_SEED` is the seed of the order, `FLAKY_RECORD` a folder
for the names of the tests that use the outside world.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

OUTSIDE_EVENTS = {
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn", "signal.pthread_kill",
    "socket.bind", "socket.connect", "subprocess.Popen",
}  # fmt: skip
"""Audit events of Python that mean that a test depends on another process, a socket or a clock."""


class OutsideRecorder:
    """Record the tests during which an audit event of `OUTSIDE_EVENTS` was raised, or something slept."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.txt"
        self._uses_outside = False
        sys.addaudithook(self._audit)
        thread_sleep, task_sleep = time.sleep, asyncio.sleep  # `time.sleep` has an audit event from Python 3.13 on only

        def record_thread_sleep(seconds: float) -> None:
            self._uses_outside = True
            thread_sleep(seconds)

        async def record_task_sleep(delay: float, result: Any = None) -> Any:
            self._uses_outside |= delay > 0
            return await task_sleep(delay, result)

        time.sleep, asyncio.sleep = record_thread_sleep, record_task_sleep  # type: ignore[assignment]  # until this process ends

    def _audit(self, event: str, _: tuple[Any, ...]) -> None:
        if event in OUTSIDE_EVENTS:
            self._uses_outside = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        # libpq opens its sockets without Python: its audit hooks do not see them
        self._uses_outside = "postgres_server" in getattr(item, "fixturenames", ())
        result = yield
        if self._uses_outside:
            with self._file.open("a") as file:
                file.write(f"{item.path}{item.nodeid[item.nodeid.index('::') :]}\n")
        return result


def pytest_configure(config: pytest.Config) -> None:
    if folder := os.environ.get("FLAKY_RECORD"):
        config.pluginmanager.register(OutsideRecorder(Path(folder)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle the files, and the tests of each file: a server that a file's tests share is still started once."""
    if seed := os.environ.get("FLAKY_SEED"):
        dice = random.Random(seed)
        files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
        dice.shuffle(files)
        for tests in files:
            dice.shuffle(tests)
        items[:] = [test for tests in files for test in tests]
