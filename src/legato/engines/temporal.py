"""Temporal as an engine. May know: Temporal's SDK. Decides: how a session is woken there, and how a worker of it stops.

One activity is one step; the ledger is the journal. What Temporal is given is session ids, numbers, and kinds of errors.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

from legato.engines.address import address, needs, number
from legato.engines.contract import Advance, Dead, Engine, not_aside
from legato.engines.ending import leave_in_order
from legato.engines.pace import Step
from legato.engines.reaching import reached
from legato.engines.stepping import ended_in_time
from legato.errors import EngineUnavailable, StoreError

try:
    from temporalio import activity
    from temporalio.client import Client, WorkflowExecutionStatus
    from temporalio.common import Priority, WorkflowIDConflictPolicy
    from temporalio.exceptions import ApplicationError
    from temporalio.service import RPCError, RPCStatusCode
    from temporalio.worker import UnsandboxedWorkflowRunner, Worker

    from legato.engines.temporal_workflows import ParkedWorkflow, SessionWorkflow, Task
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "temporalio":
        raise
    raise needs("temporalio", "temporal") from None

MOST_DEATHS = 10
"""Workers that may fall silent over one step before the session is set aside: it may be what kills them."""

TO_BE_TOLD = timedelta(seconds=5)
"""How long a client waits for Temporal to answer. What it gave is recorded already."""


class TemporalEngine(Engine):
    """Sessions driven by workers of a Temporal server.

    `TemporalEngine("temporal://127.0.0.1:7233/default?queue=legato&heartbeat=10")`: a namespace, the task queue that workers poll, and how
    many seconds a worker may be silent before another takes its steps over. `tls=true` for a server that wants it; a key is read from
    TEMPORAL_API_KEY. Or bring a client of your own: `TemporalEngine(client=await Client.connect(...), queue="legato")`.
    """

    def __init__(self, where: str = "temporal://127.0.0.1:7233/default", client: Client | None = None, queue: str = "") -> None:
        parts = address(where, ("temporal",), 7233, ("queue", "heartbeat", "tls"))
        self._target = f"{parts.host}:{parts.port}"
        self._namespace = parts.path or "default"
        self._tls = parts.options.get("tls", "") in ("true", "1")
        self._heartbeat = number(parts, "heartbeat", 10)
        self._client = client
        leave_in_order()
        self.queue = queue or parts.options.get("queue", "legato")

    def __repr__(self) -> str:
        return f"<TemporalEngine {self._target}/{self._namespace}, queue {self.queue!r}>"

    async def client(self) -> Client:
        """The client, connected at its first use."""
        if self._client is None:
            key = os.environ.get("TEMPORAL_API_KEY") or None
            try:
                self._client = await Client.connect(
                    self._target,
                    namespace=self._namespace,
                    api_key=key,
                    tls=self._tls or key is not None,
                    connect_timeout=TO_BE_TOLD,
                    identity=f"{os.getpid()}@{socket.gethostname()}",
                )
            except RuntimeError as error:
                raise self._unavailable(error) from None
        return self._client

    def workflow_id(self, session: str) -> str:
        """The id of a session's runs: one is open at a time. The first slash ends the queue's name, whatever is in it."""
        return f"{quote(self.queue, safe='')}/{session}"

    async def wake(self, session: str, priority: int = 0) -> None:
        """Signal the session's run, or start one."""
        await self._signal(session, "wake", priority)

    async def retry(self, session: str) -> None:
        """Take a session up again that was set aside."""
        if not await self._is_aside(session):
            raise not_aside(session)
        await self._signal(session, "retry", 0)

    async def _is_aside(self, session: str) -> bool:
        client = await self.client()
        try:
            run = await client.get_workflow_handle(self.workflow_id(session)).describe(rpc_timeout=TO_BE_TOLD)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return run.workflow_type == "legato.parked" and run.status is WorkflowExecutionStatus.RUNNING

    async def _signal(self, session: str, signal: str, priority: int) -> None:
        client = await self.client()
        await client.start_workflow(
            SessionWorkflow.run,
            Task(session, self._heartbeat),
            id=self.workflow_id(session),
            task_queue=self.queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=signal,
            priority=Priority(priority_key=priority or None),
            task_timeout=timedelta(seconds=self._heartbeat),  # of one decision: a worker that hangs may have been handed it
            rpc_timeout=TO_BE_TOLD,
        )

    async def dead(self, limit: int = 100) -> Sequence[Dead]:
        """The sessions that were set aside, the latest first."""
        client = await self.client()
        query = f"WorkflowType = 'legato.parked' AND ExecutionStatus = 'Running' AND TaskQueue = '{self.queue}'"
        found = []
        async for run in client.list_workflows(query, limit=limit):
            memo = await run.memo()
            found.append(Dead(str(memo["session"]), str(memo["error"]), int(run.start_time.timestamp() * 1000)))
        return found

    async def serve(self, advance: Advance, stop: asyncio.Event, ready: Callable[[], None], at_once: int, grace: float) -> None:
        """Poll the queue until `stop` is set."""
        if (client := await reached(self.client, stop)) is None:
            return
        worker = Worker(
            client,
            task_queue=self.queue,
            workflows=[SessionWorkflow, ParkedWorkflow],
            activities=[_activity(advance, self._heartbeat, grace)],
            workflow_runner=UnsandboxedWorkflowRunner(),  # a sandbox for each decision costs 2 ms; our tests replay ours in one
            max_concurrent_activities=at_once,
            max_cached_workflows=0,  # a run is short: reading it again costs less than waiting for the worker that knew it
            max_heartbeat_throttle_interval=timedelta(seconds=self._heartbeat / 4),
            graceful_shutdown_timeout=timedelta(seconds=grace),
        )
        ready()
        serving = asyncio.get_running_loop().create_task(worker.run())
        stopping = asyncio.get_running_loop().create_task(stop.wait())
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                try:
                    serving.result()
                except RuntimeError as error:
                    raise self._unavailable(error) from None
            await worker.shutdown()
            await serving
        finally:
            stopping.cancel()
            serving.cancel()

    def _unavailable(self, error: RuntimeError) -> EngineUnavailable:
        return EngineUnavailable(
            f"no Temporal server serves {self._target}/{self._namespace}",
            found=str(error).partition("Status {")[0].partition("\n")[0][:300],
            do="see that it runs, and that it has this namespace",
        )

    async def close(self) -> None:
        """Let go of the client: its connections close with the last who knows it."""
        self._client = None


def _activity(advance: Advance, heartbeat: float, grace: float) -> Any:
    @activity.defn(name="legato.advance")
    async def step(session: str, failed: int, broken: int) -> dict[str, Any]:
        silent = int(next(iter(activity.info().heartbeat_details), 0))  # workers who fell silent over this step
        if silent >= MOST_DEATHS:
            return asdict(Step("broken", parked=True, error=f"{silent} workers fell silent while they advanced it"))
        beating = asyncio.get_running_loop().create_task(_beat(heartbeat / 4, silent + 1))
        try:
            return await ended_in_time(partial(advance, session, failed, broken), activity.wait_for_worker_shutdown, grace)
        except StoreError as error:
            activity.heartbeat(silent)
            raise ApplicationError(f"the store: {error.code}", type=type(error).__name__) from None
        finally:
            beating.cancel()

    return step


async def _beat(every: float, silent: int) -> None:
    """Say that this worker lives. Temporal hands the number to whoever takes over, if it falls silent."""
    while True:
        activity.heartbeat(silent)
        await asyncio.sleep(every)
