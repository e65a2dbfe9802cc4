"""The engine within one process.

It remembers the woken sessions, their failures, and the parked sessions. Nothing of this must survive the process: the next worker finds
sessions with new input, sessions to retry and parked sessions in the store (`list_runnable`), so rule 1 of engines holds across deaths for
everything that was recorded. Only a wake without input (`resume()` of an idle session) dies with the process.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from legato.engines.engine import Engine, ParkedSession, StepFunction, not_parked_error
from legato.engines.retry_policy import NextStep
from legato.errors import BadInput
from legato.runtime.clock import monotonic, now_ms

log = logging.getLogger("legato.worker")

DEFAULT_PRIORITY = 3
"""The priority of sessions without one, among 1 (first) to 5 (last)."""

STORE_RETRY_DELAYS_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""The delays before a step is repeated that failed because of the store. The last delay is used for ever."""

CANCEL_TIMEOUT_S = 1.0
"""How long a cancelled step may take to end. User code may ignore its cancellation, and the worker stops all the same."""


@dataclass
class _SessionEntry:
    """A session that is to be driven, or is being driven."""

    priority: int = DEFAULT_PRIORITY
    failed: int = 0
    broken: int = 0
    store_failures: int = 0  # in a row
    ticket: int = 0  # the newest place in the queue; older ones are void
    queued_priority: int = 0  # the priority in the queue; 0 if it is not queued: it runs, or waits for its time
    slot_model: str = ""  # the model whose free slot made it leave the queue
    is_running: bool = False
    is_woken_again: bool = False  # woken while it ran


class LocalEngine(Engine):
    """The engine of sessions that one worker in this process drives, each in a task, as many at once as the worker allows.

        engine = LocalEngine()
        asyncio.create_task(Worker(desk, engine=engine, store=store).run())
        await engine.session(desk, "customer-42", store).run("Hello")

    It may be woken from any thread and any event loop. Sessions that are woken before there is a worker wait for one.
    """

    is_durable: ClassVar[bool] = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, _SessionEntry] = {}
        self._ready: list[tuple[int, int, str]] = []  # priority, ticket, session
        self._delayed: list[tuple[float, int, str]] = []  # time, ticket, session
        self._waiting_for_slot: dict[str, list[tuple[int, int, str]]] = {}  # model -> queue like `_ready`
        self._tickets = itertools.count(1)
        self._parked: dict[str, ParkedSession] = {}
        self._uncancelled_tasks: set[asyncio.Task[None]] = set()  # steps that ignored their cancellation; an event loop keeps no reference
        self._serving_loop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None  # the worker's loop, and the event that wakes it

    def __repr__(self) -> str:
        return f"<LocalEngine: {len(self._sessions)} to be driven, {len(self._parked)} set aside>"

    # -- waking --------------------------------------------------------------------------------------------------------

    async def wake(self, session: str, priority: int = 0) -> None:
        """Have the session driven soon. A parked session is not woken."""
        with self._lock:
            if session not in self._parked:
                self._wake(session, priority)
        self._notify_server()

    async def retry(self, session: str) -> None:
        """Resume a session that was set aside."""
        with self._lock:
            if self._parked.pop(session, None) is None:
                raise not_parked_error(session)
            self._wake(session, 0)
        self._notify_server()

    async def list_parked(self, limit: int = 100) -> Sequence[ParkedSession]:
        """Return the sessions that were set aside, the latest first."""
        with self._lock:
            return list(reversed(self._parked.values()))[:limit]

    def _wake(self, session: str, priority: int) -> None:
        entry = self._sessions.setdefault(session, _SessionEntry())
        if priority:
            entry.priority = priority
        if entry.is_running:
            entry.is_woken_again = True
        elif not entry.queued_priority or entry.priority < entry.queued_priority:  # otherwise it keeps its place in the queue
            self._schedule(session, entry)

    def on_slot_freed(self, model: str) -> None:
        """Drive the first of the sessions that wait for a slot of this model."""
        with self._lock:
            self._enqueue_for_slot(model)
        self._notify_server()

    def _enqueue_for_slot(self, model: str) -> None:
        waiting = self._waiting_for_slot.get(model, [])
        while waiting:
            _, ticket, session = heapq.heappop(waiting)
            if self._is_current(session, ticket):
                entry = self._sessions[session]
                entry.slot_model = model
                self._enqueue(session, entry)
                break
        if not waiting:
            self._waiting_for_slot.pop(model, None)

    def _schedule(self, session: str, entry: _SessionEntry, wait: float = 0.0) -> None:
        entry.ticket = next(self._tickets)
        if wait:
            entry.queued_priority = 0
            heapq.heappush(self._delayed, (monotonic() + wait, entry.ticket, session))
        else:
            self._enqueue(session, entry)

    def _enqueue(self, session: str, entry: _SessionEntry) -> None:
        entry.queued_priority = entry.priority
        heapq.heappush(self._ready, (entry.priority, entry.ticket, session))

    def _notify_server(self) -> None:
        if (server := self._serving_loop) is not None:
            loop, more = server
            if not loop.is_closed():
                loop.call_soon_threadsafe(more.set)

    # -- driving -------------------------------------------------------------------------------------------------------

    async def serve(
        self, run_step: StepFunction, stop: asyncio.Event, on_ready: Callable[[], None], concurrency: int, grace: float
    ) -> None:
        """Run steps of the woken sessions until `stop` is set; then wait `grace` seconds for running steps, and cancel the rest."""
        more = asyncio.Event()
        with self._lock:
            if self._serving_loop is not None and not self._serving_loop[0].is_closed():
                raise BadInput("a worker serves this engine already", do="a LocalEngine has one worker: give it a larger concurrency")
            self._serving_loop = asyncio.get_running_loop(), more
        running: set[asyncio.Task[None]] = set()

        def forget_task(task: asyncio.Task[None]) -> None:
            running.discard(task)
            more.set()

        stopping = asyncio.get_running_loop().create_task(stop.wait())
        stopping.add_done_callback(lambda _: more.set())
        try:
            on_ready()
            while not stop.is_set():
                more.clear()
                while len(running) < concurrency and (session := self._take_next()) is not None:
                    task = asyncio.get_running_loop().create_task(self._run_step(run_step, session, stop))
                    running.add(task)
                    task.add_done_callback(forget_task)
                await _wait_for_event(more, self._seconds_until_due() if len(running) < concurrency else None)
            if running:
                await asyncio.wait(running, timeout=grace)
        finally:
            self._serving_loop = None
            stopping.cancel()
            for task in list(running):
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=CANCEL_TIMEOUT_S)
            for task in list(running):
                self._uncancelled_tasks.add(task)
                task.add_done_callback(self._uncancelled_tasks.discard)
            if running:
                log.warning("%d steps ignore their cancellation; the worker does not wait for them any more", len(running))

    def _take_next(self) -> str | None:
        """Take the next session from the queue, and mark it as running."""
        with self._lock:
            now = monotonic()
            while self._delayed and self._delayed[0][0] <= now:
                _, ticket, session = heapq.heappop(self._delayed)
                if self._is_current(session, ticket):
                    self._enqueue(session, self._sessions[session])
            while self._ready:
                _, ticket, session = heapq.heappop(self._ready)
                if self._is_current(session, ticket):
                    entry = self._sessions[session]
                    entry.is_running, entry.is_woken_again, entry.queued_priority = True, False, 0
                    return session
        return None

    def _is_current(self, session: str, ticket: int) -> bool:
        """Return True if a place in the queue is valid: a session that was woken again has a newer one."""
        entry = self._sessions.get(session)
        return entry is not None and entry.ticket == ticket and not entry.is_running

    def _seconds_until_due(self) -> float | None:
        with self._lock:
            return max(0.0, self._delayed[0][0] - monotonic()) if self._delayed else None

    async def _run_step(self, run_step: StepFunction, session: str, stop: asyncio.Event) -> None:
        entry = self._sessions[session]
        step: NextStep | None = None
        try:
            step = await run_step(session, entry.failed, entry.broken, stop)
        except Exception as error:
            log.debug("session %r: the step did not complete: %s", session, type(error).__name__)
        finally:
            with self._lock:
                self._finish_step(session, entry, step)

    def _finish_step(self, session: str, entry: _SessionEntry, step: NextStep | None) -> None:
        entry.is_running = False
        model, entry.slot_model = entry.slot_model, ""
        if model and (step is None or step.model != model):
            self._enqueue_for_slot(model)  # the session may not have used the slot for which it was woken
        if step is None:  # the store could not be used, or the step was cancelled
            self._schedule(session, entry, STORE_RETRY_DELAYS_S[min(entry.store_failures, len(STORE_RETRY_DELAYS_S) - 1)])
            entry.store_failures += 1
        elif step.parked:
            del self._sessions[session]
            self._parked[session] = ParkedSession(session, step.error, now_ms())
        else:
            entry.failed, entry.broken, entry.store_failures = step.failed, step.broken, 0
            if step.model and not entry.is_woken_again:
                entry.queued_priority = entry.priority
                heapq.heappush(self._waiting_for_slot.setdefault(step.model, []), (entry.priority, entry.ticket, session))
            elif entry.is_woken_again or step.wait is not None:
                self._schedule(session, entry, 0.0 if entry.is_woken_again else step.wait or 0.0)
            else:
                del self._sessions[session]

    async def close(self) -> None:
        """Do nothing: this engine has no connections."""


async def _wait_for_event(event: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
