"""What only Temporal has: histories that must not grow without end, priorities, a list of what was set aside."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from legato.engines import TemporalEngine
from tests.engines.conftest import Place
from tests.engines.desk import desk
from tests.engines.servers import Server
from tests.engines.test_workers import done, rests


@pytest.fixture
def temporal(place: Place) -> TemporalEngine:
    """The engine of a place on Temporal."""
    assert isinstance(place.engine, TemporalEngine)
    return place.engine


pytestmark = pytest.mark.parametrize("server", ["temporal"], indirect=True)


async def test_a_run_that_is_woken_many_times_continues_as_a_new_one_before_its_history_is_too_long(
    place: Place, temporal: TemporalEngine
) -> None:
    place.worker()
    session = temporal.session(desk, "s", place.store)
    await session.say("slow please")
    await done(place.folder, "slow-begun")
    for _ in range(30):
        await session.wake()
        await asyncio.sleep(0.01)
    (place.folder / "go").touch()
    await rests(session, "waiting")
    client = await temporal.client()
    async with asyncio.timeout(10):
        while True:
            query = f"TaskQueue = '{temporal.queue}' AND ExecutionStatus = 'ContinuedAsNew'"
            if (await client.count_workflows(query)).count:
                break
            await asyncio.sleep(0.1)
    await done(place.folder, "slow-begun", "slow")


async def test_a_session_with_a_higher_priority_is_advanced_first(place: Place, temporal: TemporalEngine) -> None:
    worker = place.worker("--concurrency", "1")
    await temporal.session(desk, "first", place.store).say("slow please")
    await done(place.folder, "slow-begun")
    later = [temporal.session(desk, f"later-{number}", place.store, priority=5) for number in range(6)]
    for session in later:
        await session.say("hello")
    await asyncio.sleep(0.5)
    urgent = temporal.session(desk, "urgent", place.store, priority=1)
    await urgent.say("hello")
    await asyncio.sleep(0.5)
    (place.folder / "go").touch()
    for session in (*later, urgent):
        await rests(session, "waiting")
    order = [line.split("'")[1] for line in worker.said.splitlines() if "is waiting" in line and "first" not in line]
    assert order.index("urgent") <= 1, order  # one may have been handed out already


async def test_the_workflow_runs_in_temporals_sandbox_and_replays(place: Place, temporal: TemporalEngine, server: Server, tmp_path: Path) -> None:
    """Deterministic: its recorded history leads a fresh copy of the code to the same commands."""
    from temporalio.worker import Replayer

    from legato.engines.temporal_workflows import ParkedWorkflow, SessionWorkflow

    place.worker()
    session = temporal.session(desk, "s", place.store)
    result = await asyncio.wait_for(session.run("refund it"), 20)
    assert result.status == "pending"
    client = await temporal.client()
    async with asyncio.timeout(10):
        while True:
            runs = [run async for run in client.list_workflows(f"TaskQueue = '{temporal.queue}' AND ExecutionStatus = 'Completed'")]
            if runs:
                break
            await asyncio.sleep(0.1)
    for run in runs:
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        await Replayer(workflows=[SessionWorkflow, ParkedWorkflow]).replay_workflow(history)
