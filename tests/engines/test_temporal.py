"""Features of the Temporal engine: bounded histories, priorities, parked sessions, determinism, exit."""

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
from legato.engines.retry_policy import NextStep
from legato.engines.temporal.engine import MAX_SILENT_WORKERS, _make_activity
from legato.engines.temporal.workflows import ParkedWorkflow, SessionWorkflow
from tests.engines.conftest import EngineSetup
from tests.engines.desk import desk
from tests.engines.waits import wait_for_deeds, wait_for_status, wait_until_true


@pytest.fixture
def temporal(setup: EngineSetup) -> TemporalEngine:
    """The engine of a setup on Temporal."""
    assert isinstance(setup.engine, TemporalEngine)
    return setup.engine


pytestmark = pytest.mark.parametrize("server", ["temporal"], indirect=True)


async def test_often_woken_run_continues_as_new(setup: EngineSetup, temporal: TemporalEngine) -> None:
    setup.start_worker()
    session = temporal.session(desk, "s", setup.store)
    await session.say("slow please")
    await wait_for_deeds(setup.folder, "slow-begun")
    for _ in range(30):
        await session.wake()
        await asyncio.sleep(0.01)
    (setup.folder / "go").touch()
    await wait_for_status(session, "waiting")
    client = await temporal.client()

    async def continued() -> int:
        return (await client.count_workflows(f"TaskQueue = '{temporal.queue}' AND ExecutionStatus = 'ContinuedAsNew'")).count

    await wait_until_true(continued)
    await wait_for_deeds(setup.folder, "slow-begun", "slow")


async def test_higher_priority_is_driven_first(setup: EngineSetup, temporal: TemporalEngine) -> None:
    worker = setup.start_worker("--concurrency", "1")
    await temporal.session(desk, "first", setup.store).say("slow please")
    await wait_for_deeds(setup.folder, "slow-begun")
    later = [temporal.session(desk, f"later-{number}", setup.store, priority=5) for number in range(30)]
    for session in later:
        await session.say("hello")
    await asyncio.sleep(0.5)
    urgent = temporal.session(desk, "urgent", setup.store, priority=1)
    await urgent.say("hello")
    await asyncio.sleep(1)
    (setup.folder / "go").touch()
    for session in (*later, urgent):
        await wait_for_status(session, "waiting")
    order = [line.split("'")[1] for line in worker.output.splitlines() if "is waiting" in line and "first" not in line]
    # It is the last and becomes the first in its partition of the queue; the server serves the four partitions in turns of its own.
    assert order.index("urgent") <= 15, order


async def test_session_that_silences_workers_is_parked(setup: EngineSetup) -> None:
    """The step may be what kills them. Temporal passes their number on with the last heartbeat."""

    async def fail_if_run(session: str, failed: int, broken: int, stop: asyncio.Event) -> NextStep:
        raise AssertionError("the step must not run again")

    environment = ActivityEnvironment()
    environment.info = replace(environment.info, heartbeat_details=[MAX_SILENT_WORKERS])
    step = await environment.run(_make_activity(fail_if_run, 2, 1), "s", 0, 0)
    assert (step["parked"], step["error"]) == (True, "10 workers fell silent while they drove it")


async def test_workflow_replay_is_deterministic(setup: EngineSetup, temporal: TemporalEngine) -> None:
    """The recorded histories lead to the same commands, in Temporal's own sandbox."""
    setup.start_worker()
    session = temporal.session(desk, "s", setup.store)
    result = await asyncio.wait_for(session.run("refund it"), 20)
    assert result.status == "pending"
    client = await temporal.client()

    async def ended() -> list[WorkflowExecution]:
        return [run async for run in client.list_workflows(f"TaskQueue = '{temporal.queue}' AND ExecutionStatus = 'Completed'")]

    await wait_until_true(ended)
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
"""A program in which a thread of Temporal's SDK is delayed after it delivers a result, and in which the interpreter exits slowly."""


@pytest.mark.usefixtures("temporal")
def test_command_survives_sdk_threads_at_exit(setup: EngineSetup) -> None:
    """A thread that is in Python at the exit would crash the process, with signal 6 or 11, and its output would be lost."""
    command = [sys.executable, "-c", BUSY_MACHINE, "worker", "dead", "--engine", setup.engine_url]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (completed.returncode, completed.stderr) == (0, "none was set aside\n")
