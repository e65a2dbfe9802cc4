"""Engine servers for the tests of this folder: each is started once, and each test has a queue of its own.

Not every machine can install the servers. So these tests run only when they are named (`make engines`), and not with `make test`.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from legato.engines import Engine, open_engine
from legato.stores.contract import Store
from legato.stores.store_urls import open_store
from tests.databases import convert_dsn_to_url
from tests.engines.servers import Process, RestateServer, Server, TemporalServer, start_worker

HERE = Path(__file__).parent


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Ignore this folder unless the command line names it, or a file in it."""
    named = [Path(arg.partition("::")[0]).resolve() for arg in config.args]
    return None if any(path == HERE or HERE in path.parents for path in named) else True


SERVERS = {"temporal": TemporalServer, "restate": RestateServer}


@pytest.fixture(scope="session", params=list(SERVERS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that no test kills."""
    server: Server = SERVERS[request.param](tmp_path_factory.mktemp(request.param))
    server.start()
    yield server
    server.kill()


class EngineSetup:
    """The setup of one test: an engine's queue, a store, a folder, and workers."""

    def __init__(self, server: Server, folder: Path, store: str) -> None:
        self.server = server
        self.folder = folder
        self.store_url = store
        self.engine_url = server.engine_url(f"q{uuid.uuid4().hex[:12]}")
        self.engine: Engine = open_engine(self.engine_url)
        self.store: Store = open_store(store)
        self._workers: list[Process] = []

    def start_worker(self, *more: str, **environment: str) -> Process:
        """Start a worker."""
        options = ["--sweep", "1", "--retry-failed", "0.3,0.3,0.3", "--retry-raised", "0.1,0.1", *more]
        worker = start_worker(self.folder, self.engine_url, self.store_url, *options, **environment)
        self._workers.append(worker)
        return worker

    async def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        await self.engine.close()
        await self.store.close()


@pytest.fixture
async def setup(server: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EngineSetup]:
    """A setup on the shared server, with a Postgres database of its own."""
    monkeypatch.setenv("LEGATO_TEST_FOLDER", str(tmp_path))
    setup = EngineSetup(server, tmp_path, convert_dsn_to_url(database))
    yield setup
    await setup.close()
