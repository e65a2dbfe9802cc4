"""Rate limits of models, shared by all workers: a middleware that makes each model request wait for a permit.

A waiting request has not begun, so it leaves nothing in the ledger.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from msgspec.structs import replace

from legato.core.view import ModelRequest
from legato.engines.model_permits import PERMIT_DURATION_S, Limit, Permit, Permits, SQLitePermits
from legato.engines.session_step import TRANSIENT_STORE_ERRORS
from legato.errors import BadInput
from legato.models.model import ModelReply
from legato.runtime.definition import Middleware
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.workflow.agent_as_tool import find_tool_workflow, replace_workflow_of_tool
from legato.workflow.workflow import Workflow

log = logging.getLogger("legato.worker")

T = TypeVar("T")

POLL_DELAYS_S = (0.02, 0.5)
"""The first and the longest delay between two attempts to get a permit, in seconds."""

RELEASE_TIMEOUT_S = 1.0
"""How long a reply waits for the release of its permit, in seconds. A slower release goes on in the background."""


class ModelLimits:
    """The limits of models, for the requests of all workers together.

    >>> ModelLimits({"openai:gpt-5.1": Limit(at_once=20, per_minute=600)})
    <ModelLimits: openai:gpt-5.1>
    """

    def __init__(self, limits: Mapping[str, Limit], permits: Permits | None = None) -> None:
        """Set up the limits, by `model.name`. `permits`: where permits are stored; by default beside the workers' store."""
        for name, limit in limits.items():
            if not isinstance(limit, Limit):
                raise BadInput(f"the limit of {name!r} is a Limit", found=repr(limit)[:80], do="write Limit(at_once=20)")
        self._limits = dict(limits)
        self._permits = permits

    def __repr__(self) -> str:
        return f"<ModelLimits: {', '.join(self._limits)}>"

    def check(self, workflows: Iterable[Workflow]) -> None:
        """Raise `BadInput` if no workflow has a limited model: the name is probably misspelled, and that model would have no limit."""
        models = sorted({name for workflow in workflows for name in _iterate_model_names(workflow)})
        for name in self._limits:
            if name not in models:
                suggestions = get_close_matches(name, models, 1)
                raise BadInput(
                    f"a limit names the model {name!r}, which no agent here has",
                    expected=" or ".join(map(repr, models)),
                    do=f"write {suggestions[0]!r}" if suggestions else "write the model's name as in model.name, or leave the limit out",
                )

    def apply_to(self, workflow: Workflow, store: Store) -> Workflow:
        """Return the workflow with limited models, including those of agents that work as tools."""
        permits = self._permits or open_shared_permits(store)
        agents = {}
        for name, agent in workflow.definition.agents.items():
            limit = self._limits.get(agent.model.name)
            limiters = (_PermitMiddleware(agent.model.name, limit, permits),) if limit is not None else ()
            tools = {
                each.name: replace_workflow_of_tool(each, lambda nested: self.apply_to(nested, store)) for each in agent.tools.values()
            }
            agents[name] = replace(agent, middleware=(*agent.middleware, *limiters), tools=tools)
        return workflow.replace_agents(agents)


def _iterate_model_names(workflow: Workflow) -> Iterator[str]:
    """Yield the names of a workflow's models, including those of agents that work as tools."""
    for agent in workflow.definition.agents.values():
        yield agent.model.name
        for each in agent.tools.values():
            if (nested := find_tool_workflow(each)) is not None:
                yield from _iterate_model_names(nested)


class _PermitMiddleware(Middleware):
    """The innermost middleware, so that each request of an outer middleware takes a permit."""

    def __init__(self, name: str, limit: Limit, permits: Permits) -> None:
        self._name = name
        self._limit = limit
        self._permits = permits

    async def around_model(self, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]) -> ModelReply:
        permit = await self._acquire()
        finished = asyncio.Event()
        holding = _run_in_background(self._hold(permit, finished))
        try:
            return await proceed(request)
        finally:
            finished.set()
            await asyncio.wait({holding}, timeout=RELEASE_TIMEOUT_S)

    async def _acquire(self) -> Permit:
        """Wait for a permit, however long it takes, also while the store is unavailable: that is no failure of the model."""
        delay, max_delay = POLL_DELAYS_S
        is_warned = False
        while True:
            acquiring = _run_in_background(self._permits.acquire(self._name, self._limit))
            try:
                answer = await asyncio.shield(acquiring)
                if isinstance(answer, Permit):
                    return answer
            except TRANSIENT_STORE_ERRORS as error:
                if not is_warned:
                    log.warning("no permit for %s is available: %s; the model request waits", self._name, error.code)
                is_warned = True
                answer = PERMIT_DURATION_S / 10  # holders of permits retry more often, and come first
            except asyncio.CancelledError:
                acquiring.add_done_callback(self._release_unclaimed)
                raise
            await asyncio.sleep(max(answer, delay * random.uniform(0.5, 1.5)))
            delay = min(delay * 2, max_delay)

    def _release_unclaimed(self, acquiring: asyncio.Task[Permit | float]) -> None:
        """Release the permit of a request that was cancelled meanwhile."""
        if not acquiring.cancelled() and acquiring.exception() is None and isinstance(permit := acquiring.result(), Permit):
            _run_in_background(self._release(permit))

    async def _hold(self, permit: Permit, finished: asyncio.Event) -> None:
        """Extend a permit until the request is finished, then release it: in one task, so that nothing extends it after the release."""
        pause = PERMIT_DURATION_S / 3
        while not await _wait_for_event(finished, pause):
            try:
                await self._permits.renew(permit)
                pause = PERMIT_DURATION_S / 3
            except Exception as error:  # whatever failed: the request runs, so the permit is extended as soon as possible
                if pause == PERMIT_DURATION_S / 3:
                    log.warning("a permit for %s could not be extended: %s; this is retried", permit.name, type(error).__name__)
                pause = PERMIT_DURATION_S / 30
        await self._release(permit)

    async def _release(self, permit: Permit) -> None:
        try:
            await self._permits.release(permit)
        except Exception as error:  # the permit expires; the reply must not be lost for that
            log.warning("a permit for %s could not be released: %s", permit.name, type(error).__name__)


_background_tasks: set[asyncio.Task[Any]] = set()  # an event loop has only weak references to tasks


def _run_in_background(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    task = asyncio.get_running_loop().create_task(work)
    _background_tasks.add(task)
    task.add_done_callback(_background_tasks.discard)
    return task


async def _wait_for_event(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def open_shared_permits(store: Store) -> Permits:
    """Return the permits that all workers of a store share: in its database, beside its file, or in this process."""
    if isinstance(store, MemoryStore):
        return SQLitePermits()
    path = getattr(store, "path", None)
    if isinstance(path, str):
        return SQLitePermits(f"{path}-permits")
    from legato.stores import PostgresStore  # available if the store is one

    if isinstance(store, PostgresStore):
        from legato.engines.postgres_permits import PostgresPermits

        return PostgresPermits(store)
    raise BadInput(
        "permits have no default place for this kind of store", found=type(store).__name__, do="write ModelLimits({...}, permits=...)"
    )
