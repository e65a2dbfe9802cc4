"""The parts of the duration of a Temporal step: steps that do nothing, in sequence, measured with the server's histories.

    python -m bench.engines.decisions       half a minute; needs `make engines` once

For a server with default settings, for the same with half a second between steps, and for one whose shard's queue may be read without a
limit: the median milliseconds until a decision begins (a step has two; a user who waits for a reply waits for the first), of a decision,
and of the whole step.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from legato.engines.retry_policy import NextStep
from legato.engines.temporal.workflows import ParkedWorkflow, SessionTask, SessionWorkflow
from tests.engines.servers import TemporalServer

STEP_COUNT = 24
QUICK_SETTINGS = TemporalServer.settings
DEFAULT_SETTINGS = tuple(each for each in QUICK_SETTINGS if "MaxPollRPS" not in each)


@activity.defn(name="legato.advance")
async def advance_nothing(session: str, failed: int, broken: int) -> dict[str, Any]:
    """Advance a session that is idle already."""
    return asdict(NextStep("waiting"))


async def measure_steps(settings: tuple[str, ...], pause: float) -> dict[str, float]:
    """Return the median durations of some steps and their parts."""
    wait_times: list[float] = []
    decision_times: list[float] = []
    step_times: list[float] = []
    with tempfile.TemporaryDirectory(prefix="legato-bench-decisions-") as folder:
        server = TemporalServer(Path(folder))
        server.settings = settings
        server.start()
        try:
            client = await _connect_client(server.port)
            definitions: dict[str, Any] = {"workflows": [SessionWorkflow, ParkedWorkflow], "activities": [advance_nothing]}
            async with Worker(client, task_queue="bench", workflow_runner=UnsandboxedWorkflowRunner(), **definitions):
                for number in range(STEP_COUNT):
                    await asyncio.sleep(pause)
                    began = time.perf_counter()
                    run = await client.start_workflow(SessionWorkflow.run, SessionTask("s", 10), id=f"s{number}", task_queue="bench")
                    await run.result()
                    step_times.append(1e3 * (time.perf_counter() - began))
                    times = [(each.event_type, each.event_time.ToNanoseconds() / 1e6) for each in (await run.fetch_history()).events]
                    for (_, before), (kind, at) in pairwise(times):
                        if kind == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
                            wait_times.append(at - before)
                        elif kind == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                            decision_times.append(at - before)
        finally:
            server.kill()
    found = {"until a decision begins": wait_times, "a decision": decision_times, "a step": step_times}
    return {name: statistics.median(values) for name, values in found.items()}


async def _connect_client(port: int) -> Client:
    while True:
        try:
            return await Client.connect(f"127.0.0.1:{port}")
        except RuntimeError:  # the server listens before it is ready
            await asyncio.sleep(0.1)


async def main() -> None:
    rows = {
        "default settings": (DEFAULT_SETTINGS, 0.0),
        "default settings, half a second between steps": (DEFAULT_SETTINGS, 0.5),
        "queue read without a limit": (QUICK_SETTINGS, 0.0),
    }
    for name, (settings, pause) in rows.items():
        found = await measure_steps(settings, pause)
        print(f"{name}: " + ", ".join(f"{what} {value:.1f} ms" for what, value in found.items()), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
