"""Restarts of an engine's server: the ledger has what the server has lost, or has never got."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.engines.conftest import SERVERS, EngineSetup
from tests.engines.desk import desk
from tests.engines.waits import wait_for_deeds, wait_for_status


@pytest.fixture(params=list(SERVERS))
async def restartable_setup(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EngineSetup]:
    """A setup on a server of its own, which the test may kill."""
    monkeypatch.setenv("LEGATO_TEST_FOLDER", str(tmp_path))
    server = SERVERS[request.param](tmp_path, is_persistent=True)
    server.start()
    setup = EngineSetup(server, tmp_path, str(tmp_path / "desk.sqlite"))
    yield setup
    await setup.close()
    server.kill()


async def test_restarted_server_loses_no_conversation(restartable_setup: EngineSetup) -> None:
    """The tool runs on while the server is down, and is not started again when it is back."""
    workers = [restartable_setup.start_worker(), restartable_setup.start_worker()]
    begun = restartable_setup.engine.session(desk, "begun", restartable_setup.store)
    await begun.say("slow please")
    await wait_for_deeds(restartable_setup.folder, "slow-begun")
    restartable_setup.server.kill()
    (restartable_setup.folder / "go").touch()
    await wait_for_deeds(restartable_setup.folder, "slow-begun", "slow")
    while_gone = restartable_setup.engine.session(desk, "while it was gone", restartable_setup.store)
    await asyncio.wait_for(while_gone.say("hello"), 15)  # recorded, and the engine could not be woken
    restartable_setup.server.start()
    await wait_for_status(begun, "waiting", seconds=40)
    await wait_for_status(while_gone, "waiting", seconds=40)
    after = restartable_setup.engine.session(desk, "after", restartable_setup.store)
    await after.say("hello")
    await wait_for_status(after, "waiting", seconds=40)
    await wait_for_deeds(restartable_setup.folder, "slow-begun", "slow")
    assert [worker.exit_code for worker in workers] == [None, None]


async def test_server_without_data_loses_no_conversation(restartable_setup: EngineSetup) -> None:
    """Only timers and parked sessions are lost. Workers find input without an answer in the ledger."""
    first = restartable_setup.start_worker()
    session = restartable_setup.engine.session(desk, "s", restartable_setup.store)
    assert (await asyncio.wait_for(session.run("refund it"), 20)).status == "pending"
    restartable_setup.server.kill()
    for request in session.pending:
        await (session.answer(request, "shipped") if request.kind == "result" else session.approve(request))
    restartable_setup.server.delete_data()
    restartable_setup.server.start()
    if restartable_setup.server.name == "restate":
        first.stop()  # a worker registers when it starts
        restartable_setup.start_worker()
    await wait_for_status(session, "waiting", seconds=40)
    await wait_for_deeds(restartable_setup.folder, "look_up", "refund")
