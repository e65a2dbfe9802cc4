"""What Temporal runs for a session. May know: Temporal's workflow API. Decides: nothing that the worker's step has not decided.

Deterministic, and short-lived: a run begins when a session is woken and ends when it rests, so that nothing of it is open while a
conversation waits for its people, and no code has to be kept for histories that are months old.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

PATIENCE = RetryPolicy(initial_interval=timedelta(seconds=0.5), backoff_coefficient=2, maximum_interval=timedelta(seconds=30))
"""For steps whose worker died, or could not reach the store: for ever, since neither is the session's fault."""

LONGEST_STEP = timedelta(days=30)
"""A step lasts as long as its heartbeat does; Temporal wants an upper bound all the same."""


@dataclass(frozen=True)
class Task:
    """What a run knows: a name, and numbers."""

    session: str
    heartbeat: float
    failed: int = 0
    broken: int = 0


@workflow.defn(name="legato.session")
class SessionWorkflow:
    """Advance a session until it rests."""

    def __init__(self) -> None:
        self._woken = True

    @workflow.signal
    def wake(self) -> None:
        self._woken = True

    @workflow.signal
    def retry(self) -> None:
        self._woken = True

    @workflow.run
    async def run(self, task: Task) -> None:
        wait: float | None = 0.0
        while wait is not None or self._woken:
            if wait:
                with suppress(asyncio.TimeoutError):
                    await workflow.wait_condition(lambda: self._woken, timeout=wait)
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(task)
            self._woken = False
            step: dict[str, Any] = await workflow.execute_activity(
                "legato.advance",
                args=[task.session, task.failed, task.broken],
                start_to_close_timeout=LONGEST_STEP,
                heartbeat_timeout=timedelta(seconds=task.heartbeat),
                retry_policy=PATIENCE,
                result_type=dict,
            )
            if step["parked"]:
                memo = {"session": task.session, "error": step["error"]}
                workflow.continue_as_new(replace(task, failed=0, broken=0), workflow=ParkedWorkflow.run, memo=memo)
            task = replace(task, failed=step["failed"], broken=step["broken"])
            wait = step["wait"]


@workflow.defn(name="legato.parked")
class ParkedWorkflow:
    """A session that was set aside. It has the same id, so whoever wakes the session reaches this one, which does not stir.

    Why it was set aside is in its memo, so that it can be listed where no worker runs.
    """

    def __init__(self) -> None:
        self._retried = False

    @workflow.signal
    def wake(self) -> None:
        """Not by a message: only a person who has looked at the error retries."""

    @workflow.signal
    def retry(self) -> None:
        self._retried = True

    @workflow.run
    async def run(self, task: Task) -> None:
        await workflow.wait_condition(lambda: self._retried or workflow.info().is_continue_as_new_suggested())
        workflow.continue_as_new(task, workflow=SessionWorkflow.run if self._retried else ParkedWorkflow.run)
