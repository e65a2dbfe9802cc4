"""Limits per model, across workers. May know: permits and middleware. Decides: that a call waits for its permit.

It wraps models and owns no history: a call that waits is a call that has not begun.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from msgspec.structs import replace

from legato.core.view import Request
from legato.engines.advance import PASSING
from legato.engines.permits import LASTS, Limit, Permit, Permits, SQLitePermits
from legato.errors import BadInput
from legato.models.base import Reply
from legato.runtime.definition import Middleware
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.workflow.agent_as_tool import with_workflow, workflow_of
from legato.workflow.workflow import Workflow

log = logging.getLogger("legato.worker")

T = TypeVar("T")

ASK_AGAIN = (0.02, 0.5)
"""Seconds between two looks for a permit: at first, and at most."""

TO_GIVE_BACK = 1.0
"""Seconds for which a reply waits until its permit is given back. That goes on by itself, if it takes longer."""


class ModelLimits:
    """How often each model may be called by all workers together.

    >>> ModelLimits({"openai:gpt-5.1": Limit(at_once=20, per_minute=600)})
    <ModelLimits: openai:gpt-5.1>
    """

    def __init__(self, limits: Mapping[str, Limit], permits: Permits | None = None) -> None:
        """`limits`: by the name of a model, as `model.name` says it. `permits`: where they are kept, if not with the workers' store."""
        for name, limit in limits.items():
            if not isinstance(limit, Limit):
                raise BadInput(f"the limit of {name!r} is a Limit", found=repr(limit)[:80], do="write Limit(at_once=20)")
        self._limits = dict(limits)
        self._permits = permits

    def __repr__(self) -> str:
        return f"<ModelLimits: {', '.join(self._limits)}>"

    def check(self, workflows: Iterable[Workflow]) -> None:
        """`BadInput` if a model is limited that none of these has: whoever wrote it meant another, which would go unlimited."""
        models = sorted({name for workflow in workflows for name in _models_of(workflow)})
        for name in self._limits:
            if name not in models:
                meant = get_close_matches(name, models, 1)
                raise BadInput(
                    f"a limit is for the model {name!r}, which no agent here has",
                    expected=" or ".join(map(repr, models)),
                    do=f"write {meant[0]!r}" if meant else "write the model's name as model.name has it, or leave the limit out",
                )

    def applied_to(self, workflow: Workflow, store: Store) -> Workflow:
        """The workflow with its models so limited; those of agents that work as tools too."""
        permits = self._permits or permits_of(store)
        agents = {}
        for name, agent in workflow.definition.agents.items():
            limit = self._limits.get(agent.model.name)
            waits = (_Waits(agent.model.name, limit, permits),) if limit is not None else ()
            tools = {each.name: with_workflow(each, lambda nested: self.applied_to(nested, store)) for each in agent.tools.values()}
            agents[name] = replace(agent, middleware=(*agent.middleware, *waits), tools=tools)
        return workflow.with_agents(agents)


def _models_of(workflow: Workflow) -> Iterator[str]:
    """The names of its agents' models, also of those that work as tools."""
    for agent in workflow.definition.agents.values():
        yield agent.model.name
        for each in agent.tools.values():
            if (nested := workflow_of(each)) is not None:
                yield from _models_of(nested)


class _Waits(Middleware):
    """Innermost: each call of the model that middleware makes is a call."""

    def __init__(self, name: str, limit: Limit, permits: Permits) -> None:
        self._name = name
        self._limit = limit
        self._permits = permits

    async def around_model(self, request: Request, proceed: Callable[[Request], Awaitable[Reply]]) -> Reply:
        permit = await self._taken()
        over = asyncio.Event()
        keeping = _in_background(self._held(permit, over))
        try:
            return await proceed(request)
        finally:
            over.set()
            await asyncio.wait({keeping}, timeout=TO_GIVE_BACK)

    async def _taken(self) -> Permit:
        """A permit, however long it takes: while the store is away too, since that is no failure of the model."""
        wait, most = ASK_AGAIN
        told = False
        while True:
            taking = _in_background(self._permits.take(self._name, self._limit))
            try:
                answer = await asyncio.shield(taking)
                if isinstance(answer, Permit):
                    return answer
            except PASSING as error:
                if not told:
                    log.warning("no permit for %s can be had: %s; the call waits", self._name, error.code)
                told = True
                answer = LASTS / 10  # who holds one tries more often to keep it, and comes first
            except asyncio.CancelledError:
                taking.add_done_callback(self._unwanted)
                raise
            await asyncio.sleep(max(answer, wait * random.uniform(0.5, 1.5)))
            wait = min(wait * 2, most)

    def _unwanted(self, taking: asyncio.Task[Permit | float]) -> None:
        """Who asked for it was cancelled meanwhile."""
        if not taking.cancelled() and taking.exception() is None and isinstance(permit := taking.result(), Permit):
            _in_background(self._given_back(permit))

    async def _held(self, permit: Permit, over: asyncio.Event) -> None:
        """Hold it until the call is over, then give it back: one after another, so that nothing holds it again after that."""
        pause = LASTS / 3
        while not await _within(over, pause):
            try:
                await self._permits.keep(permit)
                pause = LASTS / 3
            except Exception as error:  # whatever is the matter: the call runs, so the permit is held as soon as it can be
                if pause == LASTS / 3:
                    log.warning("a permit for %s could not be kept: %s; it is tried again", permit.name, type(error).__name__)
                pause = LASTS / 30
        await self._given_back(permit)

    async def _given_back(self, permit: Permit) -> None:
        try:
            await self._permits.give_back(permit)
        except Exception as error:  # it ends by itself; what the call brought is not lost for that
            log.warning("a permit for %s could not be given back: %s", permit.name, type(error).__name__)


_background: set[asyncio.Task[Any]] = set()  # a loop alone would forget them


def _in_background(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    task = asyncio.get_running_loop().create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def permits_of(store: Store) -> Permits:
    """Permits that all who share the store share: in its database, beside its file, or in this process."""
    if isinstance(store, MemoryStore):
        return SQLitePermits()
    path = getattr(store, "path", None)
    if isinstance(path, str):
        return SQLitePermits(f"{path}-permits")
    from legato.stores import PostgresStore  # whoever has such a store has what it needs

    if isinstance(store, PostgresStore):
        from legato.engines.permits_postgres import PostgresPermits

        return PostgresPermits(store)
    raise BadInput("where are the permits of such a store?", found=type(store).__name__, do="write ModelLimits({...}, permits=...)")
