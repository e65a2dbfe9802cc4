"""What only Temporal has: histories that must not grow without end, priorities, a list of what was set aside."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace

import pytest
from temporalio.client import WorkflowExecution
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Replayer

from legato.engines import TemporalEngine
from legato.engines.pace import Step
from legato.engines.temporal import MOST_DEATHS, _activity
from legato.engines.temporal_workflows import ParkedWorkflow, SessionWorkflow
from tests.engines.conftest import Place
from tests.engines.desk import desk
from tests.engines.waiting import done, eventually, rests


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

    async def continued() -> int:
        return (await client.count_workflows(f"TaskQueue = '{temporal.queue}' AND ExecutionStatus = 'ContinuedAsNew'")).count

    await eventually(continued)
    await done(place.folder, "slow-begun", "slow")


async def test_a_session_with_a_higher_priority_is_advanced_first(place: Place, temporal: TemporalEngine) -> None:
    worker = place.worker("--concurrency", "1")
    await temporal.session(desk, "first", place.store).say("slow please")
    await done(place.folder, "slow-begun")
    later = [temporal.session(desk, f"later-{number}", place.store, priority=5) for number in range(30)]
    for session in later:
        await session.say("hello")
    await asyncio.sleep(0.5)
    urgent = temporal.session(desk, "urgent", place.store, priority=1)
    await urgent.say("hello")
    await asyncio.sleep(1)
    (place.folder / "go").touch()
    for session in (*later, urgent):
        await rests(session, "waiting")
    order = [line.split("'")[1] for line in worker.said.splitlines() if "is waiting" in line and "first" not in line]
    # It came last and is first in its part of the queue; of the four parts the server hands out by turns of its own.
    assert order.index("urgent") <= 15, order


async def test_a_session_over_which_worker_after_worker_falls_silent_is_set_aside(place: Place) -> None:
    """It may be what kills them. Temporal hands on how many there were with their last heartbeat."""

    async def never(session: str, failed: int, broken: int, stop: asyncio.Event) -> Step:
        raise AssertionError("it is not tried again")

    environment = ActivityEnvironment()
    environment.info = replace(environment.info, heartbeat_details=[MOST_DEATHS])
    step = await environment.run(_activity(never, 2, 1), "s", 0, 0)
    assert (step["parked"], step["error"]) == (True, "10 workers fell silent while they advanced it")


async def test_what_temporal_recorded_of_a_run_leads_the_workflow_to_the_same_commands(place: Place, temporal: TemporalEngine) -> None:
    """Deterministic, in Temporal's own sandbox."""
    place.worker()
    session = temporal.session(desk, "s", place.store)
    result = await asyncio.wait_for(session.run("refund it"), 20)
    assert result.status == "pending"
    client = await temporal.client()

    async def ended() -> list[WorkflowExecution]:
        return [run async for run in client.list_workflows(f"TaskQueue = '{temporal.queue}' AND ExecutionStatus = 'Completed'")]

    await eventually(ended)
    for run in await ended():
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        await Replayer(workflows=[SessionWorkflow, ParkedWorkflow]).replay_workflow(history)


BUSY_MACHINE = """
import sys, threading, time
from asyncio.selector_events import BaseSelectorEventLoop as Loop
from legato.cli import main

woken = Loop._write_to_self

def and_is_then_kept_waiting(loop):
    woken(loop)
    if threading.current_thread() is not threading.main_thread():
        time.sleep(0.2)

class Slow:
    def __del__(self):
        time.sleep(1)

Loop._write_to_self = and_is_then_kept_waiting
sys.modules["slow"] = Slow()  # let go of when the interpreter is torn down
main()
"""
"""A machine on which a thread of Temporal's SDK that brought an answer is kept waiting, and on which it takes long to end."""


@pytest.mark.usefixtures("temporal")
def test_a_command_ends_as_it_should_although_a_thread_of_the_sdk_is_about_to_leave(place: Place) -> None:
    """Such a thread that is caught by the end takes the process with it, with what it had to say: signal 6 or 11."""
    command = [sys.executable, "-c", BUSY_MACHINE, "worker", "dead", "--engine", place.address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "none was set aside\n")
