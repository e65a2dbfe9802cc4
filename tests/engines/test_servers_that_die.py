"""The engine's server is killed and comes back; what it forgot, or could not be told, the ledger knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.engines.conftest import SERVERS, Place
from tests.engines.desk import desk
from tests.engines.waiting import done, rests


@pytest.fixture(params=list(SERVERS))
async def mortal(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """A place on a server of its own."""
    monkeypatch.setenv("LEGATO_TEST_FOLDER", str(tmp_path))
    server = SERVERS[request.param](tmp_path, lasting=True)
    server.start()
    place = Place(server, tmp_path, str(tmp_path / "desk.sqlite"))
    yield place
    await place.close()
    server.kill()


async def test_a_server_killed_in_the_middle_of_a_tool_and_started_again_has_every_conversation_end(mortal: Place) -> None:
    """The tool runs on while the server is gone, and is not started a second time when it is back."""
    workers = [mortal.worker(), mortal.worker()]
    begun = mortal.engine.session(desk, "begun", mortal.store)
    await begun.say("slow please")
    await done(mortal.folder, "slow-begun")
    mortal.server.kill()
    (mortal.folder / "go").touch()
    await done(mortal.folder, "slow-begun", "slow")
    while_gone = mortal.engine.session(desk, "while it was gone", mortal.store)
    await asyncio.wait_for(while_gone.say("hello"), 15)  # recorded; nobody could be told
    mortal.server.start()
    await rests(begun, "waiting", seconds=40)
    await rests(while_gone, "waiting", seconds=40)
    after = mortal.engine.session(desk, "after", mortal.store)
    await after.say("hello")
    await rests(after, "waiting", seconds=40)
    await done(mortal.folder, "slow-begun", "slow")
    assert [worker.code for worker in workers] == [None, None]


async def test_a_server_that_lost_all_its_data_costs_no_conversation(mortal: Place) -> None:
    """In the engine alone are timers, and what was set aside. What was given and not advanced, workers find in the ledger."""
    first = mortal.worker()
    session = mortal.engine.session(desk, "s", mortal.store)
    assert (await asyncio.wait_for(session.run("refund it"), 20)).status == "pending"
    mortal.server.kill()
    for request in session.pending:
        await (session.answer(request, "shipped") if request.kind == "result" else session.approve(request))
    mortal.server.forget()
    mortal.server.start()
    if mortal.server.name == "restate":
        first.stop()  # a worker registers when it starts
        mortal.worker()
    await rests(session, "waiting", seconds=40)
    await done(mortal.folder, "look_up", "refund")
