"""Where the time of a Temporal step goes: steps that do nothing, one after another, from the histories that the server keeps.

    python -m bench.engines.decisions       half a minute; needs `make engines` once

For a server as it comes, for the same with half a second between steps, and for one whose shard's queue may be read as often as there is
something: milliseconds until a decision begins (a step has two; whoever waits for a reply waits for the first), how long one takes, and
the whole step. Medians.
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

STEPS = 24
QUICK = TemporalServer.settings
AS_IT_COMES = tuple(each for each in QUICK if "MaxPollRPS" not in each)


@activity.defn(name="legato.advance")
async def nothing(session: str, failed: int, broken: int) -> dict[str, Any]:
    """A session that rests as soon as it is looked at."""
    return asdict(NextStep("waiting"))


async def measured(settings: tuple[str, ...], pause: float) -> dict[str, float]:
    """The medians of some steps."""
    waits: list[float] = []
    takes: list[float] = []
    whole: list[float] = []
    with tempfile.TemporaryDirectory(prefix="legato-bench-decisions-") as folder:
        server = TemporalServer(Path(folder))
        server.settings = settings
        server.start()
        try:
            client = await _connected(server.port)
            given: dict[str, Any] = {"workflows": [SessionWorkflow, ParkedWorkflow], "activities": [nothing]}
            async with Worker(client, task_queue="bench", workflow_runner=UnsandboxedWorkflowRunner(), **given):
                for number in range(STEPS):
                    await asyncio.sleep(pause)
                    began = time.perf_counter()
                    run = await client.start_workflow(SessionWorkflow.run, SessionTask("s", 10), id=f"s{number}", task_queue="bench")
                    await run.result()
                    whole.append(1e3 * (time.perf_counter() - began))
                    times = [(each.event_type, each.event_time.ToNanoseconds() / 1e6) for each in (await run.fetch_history()).events]
                    for (_, before), (kind, at) in pairwise(times):
                        if kind == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
                            waits.append(at - before)
                        elif kind == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                            takes.append(at - before)
        finally:
            server.kill()
    found = {"until a decision begins": waits, "a decision": takes, "a step": whole}
    return {name: statistics.median(values) for name, values in found.items()}


async def _connected(port: int) -> Client:
    while True:
        try:
            return await Client.connect(f"127.0.0.1:{port}")
        except RuntimeError:  # it listens before it is ready
            await asyncio.sleep(0.1)


async def main() -> None:
    rows = {
        "as it comes": (AS_IT_COMES, 0.0),
        "as it comes, half a second between steps": (AS_IT_COMES, 0.5),
        "its queue read as often as there is something": (QUICK, 0.0),
    }
    for name, (settings, pause) in rows.items():
        found = await measured(settings, pause)
        print(f"{name}: " + ", ".join(f"{what} {value:.1f} ms" for what, value in found.items()), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
