"""The workflows that Temporal runs for a session.

They are deterministic and short-lived: a run begins when a session is woken and ends when it is idle. So no run is open while a
conversation waits for its people, and no old workflow code must be kept for histories that are months old.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

ACTIVITY_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=0.5), backoff_coefficient=2, maximum_interval=timedelta(seconds=30))
"""The retries of steps whose worker died or could not reach the store: for ever, because neither is the session's fault."""

MAX_STEP_DURATION = timedelta(days=30)
"""The upper bound that Temporal demands. A step lasts as long as its heartbeats."""


@dataclass(frozen=True)
class SessionTask:
    """The input of a workflow run. Its fields are names in Temporal's histories."""

    session: str
    heartbeat: float
    failed: int = 0
    broken: int = 0


@workflow.defn(name="legato.session")
class SessionWorkflow:
    """The workflow that drives a session until it is idle."""

    def __init__(self) -> None:
        self._is_woken = True

    @workflow.signal
    def wake(self) -> None:
        self._is_woken = True

    @workflow.signal
    def retry(self) -> None:
        self._is_woken = True

    @workflow.run
    async def run(self, task: SessionTask) -> None:
        wait: float | None = 0.0
        while wait is not None or self._is_woken:
            if wait:
                with suppress(asyncio.TimeoutError):
                    await workflow.wait_condition(lambda: self._is_woken, timeout=wait)
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(task)
            self._is_woken = False
            step: dict[str, Any] = await workflow.execute_activity(
                "legato.advance",
                args=[task.session, task.failed, task.broken],
                start_to_close_timeout=MAX_STEP_DURATION,
                heartbeat_timeout=timedelta(seconds=task.heartbeat),
                retry_policy=ACTIVITY_RETRY_POLICY,
                result_type=dict,
            )
            if step["parked"]:
                memo = {"session": task.session, "error": step["error"]}
                workflow.continue_as_new(replace(task, failed=0, broken=0), workflow=ParkedWorkflow.run, memo=memo)
            task = replace(task, failed=step["failed"], broken=step["broken"])
            wait = step["wait"]


@workflow.defn(name="legato.parked")
class ParkedWorkflow:
    """A parked session. It has the workflow id of the session, so a wake signal reaches it, and has no effect.

    The reason is in its memo, so that it can be listed where no worker runs.
    """

    def __init__(self) -> None:
        self._is_retried = False

    @workflow.signal
    def wake(self) -> None:
        """Ignore the signal: only a person who has looked at the error retries a parked session."""

    @workflow.signal
    def retry(self) -> None:
        self._is_retried = True

    @workflow.run
    async def run(self, task: SessionTask) -> None:
        await workflow.wait_condition(lambda: self._is_retried or workflow.info().is_continue_as_new_suggested())
        workflow.continue_as_new(task, workflow=SessionWorkflow.run if self._is_retried else ParkedWorkflow.run)
