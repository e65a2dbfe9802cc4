"""Limits per model, across workers. May know: permits and middleware. Decides: that a call waits for its permit.

It wraps models and owns no history: a call that waits is a call that has not begun.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping

from msgspec.structs import replace

from legato.core.view import Request
from legato.drive.definition import Middleware
from legato.engines.permits import LASTS, Limit, Permit, Permits, SQLitePermits
from legato.errors import BadInput
from legato.models.base import Reply
from legato.nested import with_workflow
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.workflow import Workflow

ASK_AGAIN = (0.02, 0.5)
"""Seconds between two looks for a permit: at first, and at most."""


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


class _Waits(Middleware):
    """Innermost: each call of the model that middleware makes is a call."""

    def __init__(self, name: str, limit: Limit, permits: Permits) -> None:
        self._name = name
        self._limit = limit
        self._permits = permits

    async def around_model(self, request: Request, proceed: Callable[[Request], Awaitable[Reply]]) -> Reply:
        permit = await self._taken()
        keeping = asyncio.get_running_loop().create_task(self._kept(permit))
        try:
            if permit.wait > 0:
                await asyncio.sleep(permit.wait)
            return await proceed(request)
        finally:
            keeping.cancel()
            await asyncio.shield(self._permits.give_back(permit))

    async def _taken(self) -> Permit:
        wait, most = ASK_AGAIN
        while (permit := await self._permits.take(self._name, self._limit)) is None:
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(wait * 2, most)
        return permit

    async def _kept(self, permit: Permit) -> None:
        while True:
            await asyncio.sleep(LASTS / 3)
            await self._permits.keep(permit)


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
