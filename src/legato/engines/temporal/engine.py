"""The engine on a Temporal server.

One activity is one step; the ledger is the journal. Temporal gets session ids, numbers and kinds of errors, and no text of conversations.
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

from legato.engines.engine import Engine, ParkedSession, StepFunction, not_parked_error
from legato.engines.engine_urls import missing_package_error, parse_engine_url, read_seconds_option
from legato.engines.interpreter_shutdown import wait_for_foreign_threads_at_exit
from legato.engines.retry_policy import NextStep
from legato.engines.startup_connection import connect_with_retries
from legato.engines.step_task import run_step_until_stopped
from legato.errors import EngineUnavailable, StoreError

try:
    from temporalio import activity
    from temporalio.client import Client, WorkflowExecutionStatus
    from temporalio.common import Priority, WorkflowIDConflictPolicy
    from temporalio.exceptions import ApplicationError
    from temporalio.service import RPCError, RPCStatusCode
    from temporalio.worker import UnsandboxedWorkflowRunner, Worker

    from legato.engines.temporal.workflows import ParkedWorkflow, SessionTask, SessionWorkflow
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "temporalio":
        raise
    raise missing_package_error("temporalio", "temporal") from None

MAX_SILENT_WORKERS = 10
"""The number of workers that may fall silent in one step before the session is parked: the step may be what kills them."""

RPC_TIMEOUT = timedelta(seconds=5)
"""How long a client waits for Temporal. Its input is recorded in the ledger already."""


class TemporalEngine(Engine):
    """The engine of sessions that workers of a Temporal server drive.

    `TemporalEngine("temporal://127.0.0.1:7233/default?queue=legato&heartbeat=10")`: a namespace, the task queue that workers poll, and how
    many seconds a worker may be silent before another one takes over its steps. `tls=true` for a server with TLS; an API key is read from
    TEMPORAL_API_KEY. Or pass a client: `TemporalEngine(client=await Client.connect(...), queue="legato")`.
    """

    def __init__(self, url: str = "temporal://127.0.0.1:7233/default", client: Client | None = None, queue: str = "") -> None:
        parts = parse_engine_url(url, ("temporal",), 7233, ("queue", "heartbeat", "tls"))
        self._target = f"{parts.host}:{parts.port}"
        self._namespace = parts.path or "default"
        self._tls = parts.options.get("tls", "") in ("true", "1")
        self._heartbeat = read_seconds_option(parts, "heartbeat", 10)
        self._client = client
        wait_for_foreign_threads_at_exit()
        self.queue = queue or parts.options.get("queue", "legato")

    def __repr__(self) -> str:
        return f"<TemporalEngine {self._target}/{self._namespace}, queue {self.queue!r}>"

    async def client(self) -> Client:
        """Return the client, connected at its first use."""
        if self._client is None:
            key = os.environ.get("TEMPORAL_API_KEY") or None
            try:
                self._client = await Client.connect(
                    self._target,
                    namespace=self._namespace,
                    api_key=key,
                    tls=self._tls or key is not None,
                    connect_timeout=RPC_TIMEOUT,
                    identity=f"{os.getpid()}@{socket.gethostname()}",
                )
            except RuntimeError as error:
                raise self._unavailable_error(error) from None
        return self._client

    def workflow_id(self, session: str) -> str:
        """Return the id of a session's workflow runs, of which one is open at a time. The first slash ends the escaped queue name."""
        return f"{quote(self.queue, safe='')}/{session}"

    async def wake(self, session: str, priority: int = 0) -> None:
        """Signal the session's workflow run, or start one."""
        await self._signal(session, "wake", priority)

    async def retry(self, session: str) -> None:
        """Resume a session that was set aside."""
        if not await self._is_parked(session):
            raise not_parked_error(session)
        await self._signal(session, "retry", 0)

    async def _is_parked(self, session: str) -> bool:
        client = await self.client()
        try:
            run = await client.get_workflow_handle(self.workflow_id(session)).describe(rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return run.workflow_type == "legato.parked" and run.status is WorkflowExecutionStatus.RUNNING

    async def _signal(self, session: str, signal: str, priority: int) -> None:
        client = await self.client()
        await client.start_workflow(
            SessionWorkflow.run,
            SessionTask(session, self._heartbeat),
            id=self.workflow_id(session),
            task_queue=self.queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=signal,
            priority=Priority(priority_key=priority or None),
            task_timeout=timedelta(seconds=self._heartbeat),  # of one workflow task: it may have been given to a worker that hangs
            rpc_timeout=RPC_TIMEOUT,
        )

    async def list_parked(self, limit: int = 100) -> Sequence[ParkedSession]:
        """Return the sessions that were set aside, the latest first."""
        client = await self.client()
        query = f"WorkflowType = 'legato.parked' AND ExecutionStatus = 'Running' AND TaskQueue = '{self.queue}'"
        found = []
        async for run in client.list_workflows(query, limit=limit):
            memo = await run.memo()
            found.append(ParkedSession(str(memo["session"]), str(memo["error"]), int(run.start_time.timestamp() * 1000)))
        return found

    async def serve(
        self, run_step: StepFunction, stop: asyncio.Event, on_ready: Callable[[], None], concurrency: int, grace: float
    ) -> None:
        """Poll the task queue until `stop` is set."""
        if (client := await connect_with_retries(self.client, stop)) is None:
            return
        worker = Worker(
            client,
            task_queue=self.queue,
            workflows=[SessionWorkflow, ParkedWorkflow],
            activities=[_make_activity(run_step, self._heartbeat, grace)],
            workflow_runner=UnsandboxedWorkflowRunner(),  # a sandbox costs 2 ms per workflow task; the tests replay these workflows in one
            max_concurrent_activities=concurrency,
            max_cached_workflows=0,  # runs are short: replaying one costs less than waiting for the worker that has it cached
            max_heartbeat_throttle_interval=timedelta(seconds=self._heartbeat / 4),
            graceful_shutdown_timeout=timedelta(seconds=grace),
        )
        on_ready()
        serving = asyncio.get_running_loop().create_task(worker.run())
        stopping = asyncio.get_running_loop().create_task(stop.wait())
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                try:
                    serving.result()
                except RuntimeError as error:
                    raise self._unavailable_error(error) from None
            await worker.shutdown()
            await serving
        finally:
            stopping.cancel()
            serving.cancel()

    def _unavailable_error(self, error: RuntimeError) -> EngineUnavailable:
        return EngineUnavailable(
            f"no Temporal server serves {self._target}/{self._namespace}",
            found=str(error).partition("Status {")[0].partition("\n")[0][:300],
            do="check that the server runs, and that it has this namespace",
        )

    async def close(self) -> None:
        """Drop the client: its connections close when it is not referenced any more."""
        self._client = None


def _make_activity(run_step: StepFunction, heartbeat: float, grace: float) -> Any:
    @activity.defn(name="legato.advance")
    async def step(session: str, failed: int, broken: int) -> dict[str, Any]:
        silent = int(next(iter(activity.info().heartbeat_details), 0))  # workers that fell silent in this step
        if silent >= MAX_SILENT_WORKERS:
            return asdict(NextStep("broken", parked=True, error=f"{silent} workers fell silent while they drove it"))
        beating = asyncio.get_running_loop().create_task(_send_heartbeats(heartbeat / 4, silent + 1))
        try:
            return await run_step_until_stopped(partial(run_step, session, failed, broken), activity.wait_for_worker_shutdown, grace)
        except StoreError as error:
            activity.heartbeat(silent)
            raise ApplicationError(f"the store: {error.code}", type=type(error).__name__) from None
        finally:
            beating.cancel()

    return step


async def _send_heartbeats(interval_s: float, silent_workers: int) -> None:
    """Send heartbeats. If this worker falls silent, Temporal passes the number on to the worker that takes over."""
    while True:
        activity.heartbeat(silent_workers)
        await asyncio.sleep(interval_s)
