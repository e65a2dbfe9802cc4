"""Addresses of engines that were typed wrong: what workers and clients say of them, and that a worker which cannot begin can be stopped."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from legato.engines import RestateEngine, engine_at
from legato.errors import EngineUnavailable
from legato.stores import MemoryStore
from tests.engines.conftest import Place
from tests.engines.desk import desk
from tests.engines.servers import Process, RestateServer, Server, TemporalServer, free_port, until


@pytest.fixture
def beginning(tmp_path: Path) -> Iterator[list[Process]]:
    """Workers that have not begun yet, by the address of their engine."""
    begun: list[Process] = []
    yield begun
    for worker in begun:
        worker.kill()


def begin(engine: str, folder: Path, begun: list[Process]) -> Process:
    """Start a worker, and do not wait for it."""
    command = [sys.executable, "-m", "legato.cli", "worker", "tests.engines.desk:desk", "--engine", engine, "--store", f"{folder}/s.sqlite"]
    begun.append(Process(command, folder / f"{len(begun)}.log", {"LEGATO_TEST_FOLDER": str(folder)}))
    return begun[-1]


def said(worker: Process, words: str) -> None:
    """Wait until it has said so."""
    until(lambda: words in worker.said, what=words)


def nowhere(server: Server) -> dict[str, str]:
    """Addresses at which a worker cannot begin, and what it says of each."""
    if isinstance(server, TemporalServer):
        return {f"temporal://127.0.0.1:{free_port()}/default": "no Temporal server serves 127.0.0.1:"}
    assert isinstance(server, RestateServer)
    listen = f"listen=127.0.0.1:{free_port()}"
    here, there = f"http://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    return {
        f"restate://127.0.0.1:{server.ingress}?admin={here}&{listen}": f"no Restate server answers at {here}",
        f"restate://127.0.0.1:{server.ingress}?admin=http://127.0.0.1:{server.admin}&{listen}&reached={here}": "refuses",
        f"restate://{there}?admin=http://127.0.0.1:{server.admin}&{listen}": f"no Restate server answers at http://{there}",
        f"restate://127.0.0.1:{server.admin}?admin=http://127.0.0.1:{server.admin}&{listen}": "refuses",
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_cannot_begin_says_why_and_stops_when_it_is_told_to(
    server: Server, tmp_path: Path, beginning: list[Process], number: signal.Signals
) -> None:
    """What it needs is not its grace: nothing runs."""
    expected = nowhere(server)
    for address in expected:
        begin(address, tmp_path, beginning)
    for worker, words in zip(beginning, expected.values(), strict=True):
        said(worker, words)
        worker.signal(number)
    for worker in beginning:
        assert worker.wait(10) == 0, worker.said
        assert ("serves desk" in worker.said, "stopped" in worker.said) == (False, True)


@pytest.mark.parametrize("server", ["restate"], indirect=True)
def test_a_worker_notices_the_ingress_of_another_server_than_the_one_at_which_it_registered(
    server: RestateServer, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, beginning: list[Process]
) -> None:
    other = RestateServer(tmp_path_factory.mktemp("other"))
    other.start()
    try:
        address = f"restate://127.0.0.1:{other.ingress}?admin=http://127.0.0.1:{server.admin}&listen=127.0.0.1:{free_port()}&service=lost"
        worker = begin(address, tmp_path, beginning)
        said(worker, "does not know of workers that registered at")
        assert "services: none; not 'lost'" in worker.said
    finally:
        other.kill()


@pytest.mark.parametrize("server", ["restate"], indirect=True)
async def test_a_client_with_a_wrong_address_says_which_and_what_it_was_given_is_recorded(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "legato.worker")
    nobody = free_port()
    store = MemoryStore()
    async with engine_at(f"restate://127.0.0.1:{nobody}") as engine:
        await engine.session(desk, "s", store).say("hello")
        assert f"the engine was not told (no Restate server answers at http://127.0.0.1:{nobody})" in caplog.text
        with pytest.raises(EngineUnavailable, match="admin="):
            await engine.dead()
    assert isinstance(place.engine, RestateEngine)
    async with engine_at(place.address.replace(place.engine.service, "unheard-of")) as engine:  # nobody has registered so
        with pytest.raises(EngineUnavailable, match="a worker has registered there"):
            await engine.wake("s")
    assert len(await store.read("s")) == 2
