"""The base class of engines, and the sessions that their workers drive.

The rules of every engine:

1. After `wake(session)` has returned, a worker drives the session at least once, whatever dies in between. Waking a session too often is
   harmless.
2. No two workers of one engine drive one session at the same time, as far as the engine knows. The ledger fences off the others.
3. A session that cannot be driven is parked, that is, set aside, after some tries: `list_parked()` returns it, `retry(session)` resumes it.
4. An engine gets ids, numbers and kinds of errors, and no text of conversations.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

from legato.core.child_session_ids import find_root_session_id
from legato.core.messages import validate_text
from legato.core.workflow_graph import WorkflowGraph
from legato.engines.retry_policy import NextStep
from legato.errors import BadInput, LegatoError
from legato.runtime.definition import WorkflowDefinition
from legato.runtime.driver import DriverRole
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.workflow.workflow import Workflow

log = logging.getLogger("legato.worker")

StepFunction: TypeAlias = Callable[[str, int, int, asyncio.Event], Coroutine[Any, Any, NextStep]]
"""A function that runs one step, given a session, the counts of its failed and broken steps before, and an event that ends the step."""


@dataclass(frozen=True)
class ParkedSession:
    """A session that was set aside, with the reason and the time (milliseconds since the epoch; 0 if the engine does not know it)."""

    session: str
    error: str
    parked_at: int = 0


class Engine(ABC):
    """An engine, which makes sure that sessions are driven; see the rules of the module."""

    is_durable: ClassVar[bool] = True
    """True if timers and parked sessions outlive the process. Otherwise such sessions stay runnable in the store for the next process."""

    @abstractmethod
    async def wake(self, session: str, priority: int = 0) -> None:
        """Have a worker drive the session. `priority`: 1 (first) to 5 (last), 0 for the default, where the engine has priorities."""

    @abstractmethod
    async def list_parked(self, limit: int = 100) -> Sequence[ParkedSession]:
        """Return the sessions that were set aside."""

    @abstractmethod
    async def retry(self, session: str) -> None:
        """Resume a session that was set aside. Raise `BadInput`, and wake nothing, if it was not."""

    @abstractmethod
    async def serve(
        self, run_step: StepFunction, stop: asyncio.Event, on_ready: Callable[[], None], concurrency: int, grace: float
    ) -> None:
        """Run the steps of the engine, `concurrency` at once, until `stop` is set; then finish them within `grace` seconds.

        `on_ready` is called when the engine knows this worker.
        """

    def on_slot_freed(self, model: str) -> None:
        """Resume a session that waits for a slot of this model: the worker has a free one.

        An engine without use for this lets sessions wait as long as their step says.
        """
        return

    @abstractmethod
    async def close(self) -> None:
        """Close connections. Closing twice is harmless."""

    def session(self, workflow: Workflow, id: str, store: Store | None = None, priority: int = 0) -> EngineSession:
        """Return a handle on a session that workers of this engine drive. It is used like any other session, and need not exist yet.

        `store` must be the workers' store; the default is the workflow's. `priority`: 1 (first) to 5 (last), 0 for the default, where the
        engine has priorities.
        """
        if priority not in range(6):
            raise BadInput("a priority is 1 (first) to 5 (last), or 0 for the usual", found=repr(priority))
        if isinstance(id, str) and (root := find_root_session_id(id)) != id:
            raise BadInput(f"{id[:80]!r} is a child session of {root[:80]!r}", do="answer its requests there: they are pending there too")
        return EngineSession(self, workflow, id, store or workflow.session(id).store, priority)

    async def say(self, session: str, workflow: str, message: Any, *, store: Store, key: str | None = None, priority: int = 0) -> None:
        """Send a message to a session with only the name of its workflow: in a mail gateway, or a web server without the workflow's code.

        A worker with the code does the rest; input guardrails run there too. Following, deciding and cancelling need the workflow.
        """
        validate_text(workflow, "name of a workflow")
        stub = Workflow(WorkflowDefinition(graph=WorkflowGraph(workflow, {}, ""), agents={}, edges={}), None, "", ())
        await self.session(stub, session, store, priority).say(message, key)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class EngineSession(Session):
    """A handle on a session that workers drive: its inputs wake the engine, and its runs follow the session until it is idle.

    Created by `engine.session(workflow, id)`. If the engine cannot be reached, inputs are recorded all the same, and workers find the
    session when they look for sessions that were not woken.
    """

    _role: ClassVar[DriverRole] = "follow"

    def __init__(self, engine: Engine, workflow: Workflow, id: str, store: Store, priority: int = 0) -> None:
        super().__init__(workflow, id, store)
        self._engine = engine
        self._priority = priority

    async def _wake_driver(self) -> None:
        if self.state.length:  # an empty session has no work
            await self.wake()

    async def wake(self) -> None:
        """Have a worker drive the session."""
        try:
            await self._engine.wake(self.id, self._priority)
        except Exception as error:  # whatever the engine's client raises: nothing is lost, so the caller need not react
            log.warning("session %r: the engine was not woken (%s); a worker will find the session", self.id, describe_error_briefly(error))


def describe_error_briefly(error: Exception) -> str:
    """Return the summary of a Legato error, or the class of another one: messages of other libraries may contain anything."""
    return error.summary if isinstance(error, LegatoError) else type(error).__name__


def not_parked_error(session: str) -> BadInput:
    """Return the error for retrying a session that was not set aside, or that does not exist."""
    return BadInput(
        f"session {session!r} was not set aside", do="look at list_parked(); nothing was retried. wake(session) has a session driven"
    )
