"""Stories: whole conversations that tests can run.

A story is declared once and run in many ways: on each store, streaming and not, with a death at every point (`crash_sweep`). So it must
not depend on anything that dies with a process. Models are functions of their input, users read the ledger, and the effects of tools are
recorded in a `World` that outlives the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from legato.core.view import ModelRequest
from legato.models.model import ModelReply
from legato.runtime.definition import Middleware, call_user_code
from legato.runtime.events import Event
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.testing.effect_log import EffectLog
from legato.testing.scripted_users import ScriptedUser
from legato.tools import ToolContext
from legato.workflow.workflow import Workflow


class World:
    """The effects of tools. It survives the death of a process, as the real world does."""

    def __init__(self) -> None:
        self.effects: list[tuple[str, str]] = []
        self.effect_log = EffectLog()
        self.counters: Counter[str] = Counter()
        """Other numbers that a story must remember, for example how often its provider was busy."""

    def record_effect(self, context: ToolContext[Any], name: str = "") -> None:
        """Record a tool's effect at the moment it takes place, under the idempotency key of its call."""
        self.effects.append((context.idempotency_key, name or context.call.tool))
        self.effect_log.add_effect(context)

    def count(self, name: str) -> int:
        """Return how often the effect of this name took place."""
        return sum(1 for _, effect in self.effects if effect == name)

    def __repr__(self) -> str:
        return f"<World: {', '.join(effect for _, effect in self.effects) or 'no effects'}>"


@dataclass
class StoryResult:
    """The result of running a story: its session, the effects of its tools, all model requests, and all events."""

    session: Session
    world: World
    requests: list[ModelRequest] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True)
class Story:
    """A conversation with a check: `build(store, world)` makes the workflow, `user` plays it, `check(result)` raises if it went wrong.

    `check` finds all model requests in `result.requests`.
    """

    build: Callable[[Store, World], Workflow]
    user: ScriptedUser
    check: Callable[[StoryResult], Any | Awaitable[Any]]

    async def run(self, store: Store, stream: bool = False, world: World | None = None, session_id: str = "story") -> StoryResult:
        """Run the story once, on this store, and check it."""
        result = StoryResult(None, world or World())  # type: ignore[arg-type]
        user = replace(self.user, stream=stream, on_event=result.events.append)
        workflow = self.build(store, result.world).with_middleware(RequestRecorder(result.requests))
        result.session = workflow.session(session_id, store=store)
        await user.play(result.session)
        await call_user_code(self.check, result)
        return result


class RequestRecorder(Middleware):
    """A middleware that records every model request: `workflow.with_middleware(RequestRecorder(requests))`."""

    def __init__(self, requests: list[ModelRequest]) -> None:
        self.requests = requests

    async def around_model(self, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]) -> ModelReply:
        self.requests.append(request)
        return await proceed(request)
