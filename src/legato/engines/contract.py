"""What an engine is, and a session that an engine drives. May know: sessions. Decides: that who gives a session something wakes it.

Four sentences every engine keeps:

1. After `wake(session)` has returned, a worker advances the session at least once, whatever dies in between. Waking once too often is
   harmless.
2. No two workers of one engine advance one session at the same time, as far as the engine knows. The ledger fences off those of whom it
   does not.
3. A session that cannot be advanced is set aside after some tries: `dead()` lists it, `retry(session)` takes it up again.
4. What an engine is given is ids, numbers, and kinds of errors: nobody's words.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

from legato.core.child_session_ids import root_session_id
from legato.core.messages import checked_text
from legato.core.workflow_graph import Graph
from legato.engines.pace import Step
from legato.errors import BadInput, LegatoError
from legato.runtime.definition import Definition
from legato.runtime.driver import Role
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.workflow.workflow import Workflow

log = logging.getLogger("legato.worker")

Advance: TypeAlias = Callable[[str, int, int, asyncio.Event], Coroutine[Any, Any, Step]]
"""Make one step: with a session, how often it failed and broke before, and what is set when the step should come to its end."""


@dataclass(frozen=True)
class Dead:
    """A session that was set aside: which, why, and when (milliseconds since the epoch; 0 if the engine does not know)."""

    session: str
    error: str
    since: int = 0


class Engine(ABC):
    """See the module's four sentences."""

    remembers: ClassVar[bool] = True
    """Whether timers, and what was set aside, outlive the process. Else such sessions stay unrested, so that who starts next finds them."""

    @abstractmethod
    async def wake(self, session: str, priority: int = 0) -> None:
        """Have the session advanced. `priority`: 1 (first) to 5 (last), 0 for the usual; as far as the engine has priorities."""

    @abstractmethod
    async def dead(self, limit: int = 100) -> Sequence[Dead]:
        """The sessions that were set aside."""

    @abstractmethod
    async def retry(self, session: str) -> None:
        """Take a session up again that was set aside. `BadInput` if it was not, and nothing is woken."""

    @abstractmethod
    async def serve(self, advance: Advance, stop: asyncio.Event, ready: Callable[[], None], at_once: int, grace: float) -> None:
        """Make the steps that the engine asks for, so many at once, until `stop` is set; then finish, within `grace` seconds.

        Calls `ready` when the engine knows of this worker.
        """

    def slot_freed(self, model: str) -> None:
        """Called by a worker that has a free slot for this model: sessions whose step was `busy` for it can go on.

        An engine that cannot make use of it waits as long as the step says.
        """
        return

    @abstractmethod
    async def close(self) -> None:
        """Let go of connections. Closing twice is harmless."""

    def session(self, workflow: Workflow, id: str, store: Store | None = None, priority: int = 0) -> Submitted:
        """A handle on a session that workers of this engine drive; it need not exist yet. Use it as any other session.

        Without a store it is the workflow's, which must be the one that the workers use. `priority`: 1 (first) to 5 (last), where the
        engine has priorities; 0 for the usual.
        """
        if priority not in range(6):
            raise BadInput("a priority is 1 (first) to 5 (last), or 0 for the usual", found=repr(priority))
        if isinstance(id, str) and (holder := root_session_id(id)) != id:
            raise BadInput(
                f"session {id[:80]!r} is held for a call of {holder[:80]!r}", do="what it asks is asked there too, and answered there"
            )
        return Submitted(self, workflow, id, store or workflow.session(id).store, priority)

    async def say(self, session: str, workflow: str, message: Any, *, store: Store, key: str | None = None, priority: int = 0) -> None:
        """Say something where only the name of the session's workflow is known: in a gateway for mail, a web server without its code.

        The rest is for a worker that has the code: guardrails are asked there, if there are any. To look on, to decide and to cancel
        takes the workflow.
        """
        checked_text(workflow, "name of a workflow")
        known = Workflow(Definition(graph=Graph(workflow, {}, ""), agents={}, edges={}), None, "", ())
        await self.session(known, session, store, priority).say(message, key)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class Submitted(Session):
    """A handle on a session that workers drive: what it is given wakes the engine, and its runs look on until the session rests.

    Made by `engine.session(workflow, id)`. If the engine cannot be reached, what was given is recorded all the same, and workers find
    it when they look for sessions that nobody woke.
    """

    _role: ClassVar[Role] = "follow"

    def __init__(self, engine: Engine, workflow: Workflow, id: str, store: Store, priority: int = 0) -> None:
        super().__init__(workflow, id, store)
        self._engine = engine
        self._priority = priority

    async def _wake_driver(self) -> None:
        if self.state.length:  # else there is nobody to be woken
            await self.wake()

    async def wake(self) -> None:
        """Have a worker look at the session."""
        try:
            await self._engine.wake(self.id, self._priority)
        except Exception as error:  # whatever a client of an engine raises: nothing is lost, so nobody need do anything
            log.warning("session %r: the engine was not told (%s); a worker finds it when it looks", self.id, in_a_word(error))


def in_a_word(error: Exception) -> str:
    """What is logged of an error that an engine's client raised: in our own words, or its kind. What others say may be anything."""
    return error.summary if isinstance(error, LegatoError) else type(error).__name__


def not_aside(session: str) -> BadInput:
    """What is raised when somebody retries a session that goes on by itself, or that does not exist."""
    return BadInput(f"session {session!r} was not set aside", do="look at dead(); nothing was retried. wake(session) has one advanced")
