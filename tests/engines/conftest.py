"""Servers for the tests of this folder: each is started once, and each test has a queue of its own on it.

Not every machine can install them. So these tests run when they are named (`make engines`), and are not part of `make test`.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from legato.engines import Engine, engine_at
from legato.stores.contract import Store
from legato.stores.opening import open_store
from tests.databases import as_url
from tests.engines.servers import Process, RestateServer, Server, TemporalServer, start_worker

HERE = Path(__file__).parent


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Look in here only if somebody named this folder, or something in it."""
    named = [Path(arg.partition("::")[0]).resolve() for arg in config.args]
    return None if any(path == HERE or HERE in path.parents for path in named) else True


SERVERS = {"temporal": TemporalServer, "restate": RestateServer}


@pytest.fixture(scope="session", params=list(SERVERS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that nobody kills."""
    server: Server = SERVERS[request.param](tmp_path_factory.mktemp(request.param))
    server.start()
    yield server
    server.kill()


class Place:
    """What one test has: an engine's queue, a store, a folder, and workers."""

    def __init__(self, server: Server, folder: Path, store: str) -> None:
        self.server = server
        self.folder = folder
        self.store_address = store
        self.address = server.address_of(f"q{uuid.uuid4().hex[:12]}")
        self.engine: Engine = engine_at(self.address)
        self.store: Store = open_store(store)
        self._workers: list[Process] = []

    def worker(self, *more: str, **environment: str) -> Process:
        """Start a worker."""
        options = ["--sweep", "1", "--retry-failed", "0.3,0.3,0.3", "--retry-raised", "0.1,0.1", *more]
        worker = start_worker(self.folder, self.address, self.store_address, *options, **environment)
        self._workers.append(worker)
        return worker

    async def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        await self.engine.close()
        await self.store.close()


@pytest.fixture
async def place(server: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """A place on the server that nobody kills, with a Postgres database of its own."""
    monkeypatch.setenv("LEGATO_TEST_FOLDER", str(tmp_path))
    place = Place(server, tmp_path, as_url(database))
    yield place
    await place.close()
