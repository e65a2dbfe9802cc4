"""Real processes for the tests of stores."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from legato.core.facts import AnyFact, MessageReceived
from legato.stores import Lease, SQLiteStore, Store

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
            bufsize=0,  # a line that is heard takes nothing of what follows it along
        )

    def hear(self) -> str:
        """The next line that it says."""
        assert self.process.stdout is not None
        line: str = self.process.stdout.readline().decode()
        if not line.endswith("\n"):  # the half line of a process that was killed says nothing
            raise AssertionError(f"the child process ended: {self.end()[1]}")
        return line.removesuffix("\n")

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    def end(self) -> tuple[str, str]:
        """What it said until its end, and what it complained about."""
        said, complaints = self.process.communicate(timeout=60)
        return said.decode(), complaints.decode()

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


async def until(true: Callable[[], Any]) -> None:
    """Wait for what another thread or process does and tells nobody of. The time only ends a test that hangs."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


def wait_for_idle_writer(store: SQLiteStore) -> None:
    """Wait until the writer's thread has done everything after its last job too: then the next small job is run at once."""
    with store._writer._service.lock:
        pass


async def until_writer_is_busy(store: SQLiteStore) -> None:
    """Wait until the writer's thread, which was idle, has begun its next job."""

    def busy() -> bool:
        lock = store._writer._service.lock
        if lock.acquire(blocking=False):
            lock.release()
            return False
        return True

    await until(busy)


async def leased(store: Store, ledger: str) -> Lease:
    """The lease, once whoever holds it has given it back or is dead."""
    async with asyncio.timeout(60):
        while (lease := await store.lease(ledger)) is None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
    return lease


async def until_renewed(dsn: str, ledger: str) -> None:
    """Wait until the holder of a lease in Postgres has renewed it."""

    def end() -> object:
        with psycopg.connect(dsn) as connection:
            return connection.execute("SELECT until FROM legato.ledgers WHERE name = %s", (ledger,)).fetchone()

    before = end()
    await until(lambda: end() != before)


def said(*numbers: int, size: int = 0) -> list[AnyFact]:
    return [MessageReceived(at=1000 + number, content=f"fact {number} {'x' * size}") for number in numbers]
