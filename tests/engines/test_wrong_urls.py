"""Wrong URLs of engines: the messages of workers and clients, and that a worker which cannot start can be stopped."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from legato.engines import RestateEngine, open_engine
from legato.errors import EngineUnavailable
from legato.stores import MemoryStore
from tests.engines.conftest import EngineSetup
from tests.engines.desk import desk
from tests.engines.servers import Process, RestateServer, Server, TemporalServer, find_free_port, wait_until


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[Process]]:
    """The workers that the test has started, without waiting for them."""
    workers: list[Process] = []
    yield workers
    for worker in workers:
        worker.kill()


def start_worker(engine: str, folder: Path, workers: list[Process]) -> Process:
    """Start a worker without waiting for it."""
    command = [sys.executable, "-m", "legato.cli", "worker", "tests.engines.desk:desk", "--engine", engine, "--store", f"{folder}/s.sqlite"]
    workers.append(Process(command, folder / f"{len(workers)}.log", {"LEGATO_TEST_FOLDER": str(folder)}))
    return workers[-1]


def wait_for_output(worker: Process, words: str) -> None:
    """Wait until a worker has written a text."""
    wait_until(lambda: words in worker.output, what=words)


def find_wrong_urls(server: Server) -> dict[str, str]:
    """Return URLs at which a worker cannot start, with its message for each."""
    if isinstance(server, TemporalServer):
        return {f"temporal://127.0.0.1:{find_free_port()}/default": "no Temporal server serves 127.0.0.1:"}
    assert isinstance(server, RestateServer)
    listen = f"listen=127.0.0.1:{find_free_port()}"
    here, there = f"http://127.0.0.1:{find_free_port()}", f"127.0.0.1:{find_free_port()}"
    return {
        f"restate://127.0.0.1:{server.ingress}?admin={here}&{listen}": f"no Restate server answers at {here}",
        f"restate://127.0.0.1:{server.ingress}?admin=http://127.0.0.1:{server.admin}&{listen}&reached={here}": "refuses",
        f"restate://{there}?admin=http://127.0.0.1:{server.admin}&{listen}": f"no Restate server answers at http://{there}",
        f"restate://127.0.0.1:{server.admin}?admin=http://127.0.0.1:{server.admin}&{listen}": "refuses",
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_worker_without_server_says_why_and_stops(server: Server, tmp_path: Path, workers: list[Process], number: signal.Signals) -> None:
    """The grace period does not delay the stop, because nothing runs."""
    expected = find_wrong_urls(server)
    for address in expected:
        start_worker(address, tmp_path, workers)
    for worker, words in zip(workers, expected.values(), strict=True):
        wait_for_output(worker, words)
        worker.signal(number)
    for worker in workers:
        assert worker.wait(10) == 0, worker.output
        assert ("serves desk" in worker.output, "stopped" in worker.output) == (False, True)


@pytest.mark.parametrize("server", ["restate"], indirect=True)
def test_worker_notices_ingress_of_another_server(
    server: RestateServer, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, workers: list[Process]
) -> None:
    other = RestateServer(tmp_path_factory.mktemp("other"))
    other.start()
    try:
        address = (
            f"restate://127.0.0.1:{other.ingress}?admin=http://127.0.0.1:{server.admin}&listen=127.0.0.1:{find_free_port()}&service=lost"
        )
        worker = start_worker(address, tmp_path, workers)
        wait_for_output(worker, "does not know of workers that registered at")
        assert "services: none; not 'lost'" in worker.output
    finally:
        other.kill()


@pytest.mark.parametrize("server", ["restate"], indirect=True)
async def test_client_with_wrong_url_records_input(setup: EngineSetup, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "legato.worker")
    port = find_free_port()
    store = MemoryStore()
    async with open_engine(f"restate://127.0.0.1:{port}") as engine:
        await engine.session(desk, "s", store).say("hello")
        assert f"the engine was not woken (no Restate server answers at http://127.0.0.1:{port})" in caplog.text
        with pytest.raises(EngineUnavailable, match="admin="):
            await engine.list_parked()
    assert isinstance(setup.engine, RestateEngine)
    async with open_engine(setup.engine_url.replace(setup.engine.service, "unheard-of")) as engine:  # a service without workers
        with pytest.raises(EngineUnavailable, match="a worker has registered there"):
            await engine.wake("s")
    assert len(await store.read("s")) == 2
