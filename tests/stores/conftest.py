"""Fixtures and helpers of the store tests: other processes, waits, facts."""

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

SCRIPT = Path(__file__).with_name("store_process.py")
SOURCES = Path(__file__).parents[2] / "src"


class StoreProcess:
    """Another process, which runs a function of `store_process.py`."""

    def __init__(self, what: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(SCRIPT), what, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # reading a line must not buffer the next one
        )

    def read_line(self) -> str:
        """Return the next line of the process."""
        assert self.process.stdout is not None
        line: str = self.process.stdout.readline().decode()
        if not line.endswith("\n"):  # a killed process may leave half a line
            raise AssertionError(f"the process ended: {self.wait_for_output()[1]}")
        return line.removesuffix("\n")

    def write_line(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    def wait_for_output(self) -> tuple[str, str]:
        """Wait for the end of the process. Return the rest of its output and its errors."""
        output, errors = self.process.communicate(timeout=60)
        return output.decode(), errors.decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start_process() -> Iterator[Callable[..., StoreProcess]]:
    started: list[StoreProcess] = []

    def start(what: str, *arguments: object) -> StoreProcess:
        started.append(StoreProcess(what, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.kill()


async def wait_until(is_true: Callable[[], Any]) -> None:
    """Poll until a condition is true. The timeout only ends a test that hangs."""
    async with asyncio.timeout(60):
        while not is_true():  # noqa: ASYNC110 - another thread or process makes it true, without an event
            await asyncio.sleep(0.005)


def wait_for_idle_writer(store: SQLiteStore) -> None:
    """Wait until the writer's thread has finished the work after its last job too: then the next small job runs inline."""
    with store._writer._service.lock:
        pass


async def wait_until_writer_is_busy(store: SQLiteStore) -> None:
    """Wait until the writer's thread, which was idle, has begun its next job."""

    def busy() -> bool:
        lock = store._writer._service.lock
        if lock.acquire(blocking=False):
            lock.release()
            return False
        return True

    await wait_until(busy)


async def acquire_lease(store: Store, ledger: str) -> Lease:
    """Return a lease, once its present holder has released it or is dead."""
    async with asyncio.timeout(60):
        while (lease := await store.lease(ledger)) is None:  # noqa: ASYNC110 - leases have no event
            await asyncio.sleep(0.05)
    return lease


async def wait_until_renewed(dsn: str, ledger: str) -> None:
    """Wait until the holder of a lease in Postgres has renewed it."""

    def read_expiry() -> object:
        with psycopg.connect(dsn) as connection:
            return connection.execute("SELECT until FROM legato.ledgers WHERE name = %s", (ledger,)).fetchone()

    before = read_expiry()
    await wait_until(lambda: read_expiry() != before)


def make_facts(*numbers: int, size: int = 0) -> list[AnyFact]:
    return [MessageReceived(at=1000 + number, content=f"fact {number} {'x' * size}") for number in numbers]
