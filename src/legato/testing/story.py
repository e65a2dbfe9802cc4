"""Stories: whole conversations that a test can tell. May know: workflows and people. Decides: how a story is told.

A story is declared once and told in many ways: on each store, streaming and not, with deaths at every point (`crash_sweep`). So it
must not depend on anything that dies with a process: models are functions of what they see, people read the ledger, and what
tools do to the world is noted in a `World` that outlives the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from legato.core.view import Request
from legato.models.base import Reply
from legato.runtime.definition import Middleware, called
from legato.runtime.events import Event
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.testing.effects import EffectLog
from legato.testing.people import Person
from legato.tools import ToolContext
from legato.workflow.workflow import Workflow


class World:
    """What tools did. It survives every death in a story, as the real world does."""

    def __init__(self) -> None:
        self.deeds: list[tuple[str, str]] = []
        self.log = EffectLog()
        self.notes: Counter[str] = Counter()
        """What else a story has to remember, for example how often its provider was busy."""

    def did(self, context: ToolContext[Any], what: str = "") -> None:
        """Note that a tool's effect took place, under the idempotency key of its call."""
        self.deeds.append((context.idempotency_key, what or context.call.tool))
        self.log.add_effect(context)

    def times(self, what: str) -> int:
        """How often this was done."""
        return sum(1 for _, deed in self.deeds if deed == what)

    def __repr__(self) -> str:
        return f"<World: {', '.join(deed for _, deed in self.deeds) or 'nothing done'}>"


@dataclass
class Told:
    """A story that has been told: where it ended, what was done, what every model was asked, what was shown."""

    session: Session
    world: World
    requests: list[Request] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True)
class Story:
    """`build(store, world)` makes the workflow; `person` carries it through; `check(told)` says whether it went well.

    Models should record requests by themselves (`ScriptedModel.requests`) only if a check needs them; `tell` collects all of them.
    """

    build: Callable[[Store, World], Workflow]
    person: Person
    check: Callable[[Told], Any | Awaitable[Any]]

    async def tell(self, store: Store, stream: bool = False, world: World | None = None, session: str = "story") -> Told:
        """Tell the story once, on this store, and check it."""
        told = Told(None, world or World())  # type: ignore[arg-type]
        person = replace(self.person, stream=stream, watch=told.events.append)
        workflow = self.build(store, told.world).observed_by(Asked(told.requests))
        told.session = workflow.session(session, store=store)
        await person.play(told.session)
        await called(self.check, told)
        return told


class Asked(Middleware):
    """Keeps every request that models are asked: `workflow.observed_by(Asked(requests))`."""

    def __init__(self, requests: list[Request]) -> None:
        self.requests = requests

    async def around_model(self, request: Request, proceed: Callable[[Request], Awaitable[Reply]]) -> Reply:
        self.requests.append(request)
        return await proceed(request)
