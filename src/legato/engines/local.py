"""An engine within one process. May know: asyncio. Decides: which session is advanced next, and when one is tried again.

What it remembers is who was woken, how often each failed, and what was set aside: nothing that the process must not take with it. A
session that was given something and not advanced, that is to be tried again, or that was set aside is found in the store by the worker
that starts next (`unrested`), so sentence 1 of the contract holds across deaths for everything that was recorded. Only a bare wake
(`resume()` of a session that rests) dies with the process.
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

from legato.engines.contract import Advance, Dead, Engine, not_aside
from legato.engines.pace import Step
from legato.errors import BadInput
from legato.runtime.clock import now_ms, seconds

log = logging.getLogger("legato.worker")

USUAL = 3
"""The priority of those that have none, among 1 (first) to 5 (last)."""

PATIENCE = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds after which a step is made again that the store did not let pass, each in turn and the last one for ever."""

FAREWELL = 1.0
"""Seconds for a step that is broken off to come to its end. User code may not let itself be cancelled, and a worker ends all the same."""


@dataclass
class _Woken:
    """A session that is to be advanced, or is being advanced."""

    priority: int = USUAL
    failed: int = 0
    broken: int = 0
    refused: int = 0  # how often in a row the store could not be used
    turn: int = 0  # its newest place in the queue; the others are void
    stands: int = 0  # the priority with which it stands in line; 0 if it does not: it runs, or waits for its time
    model: str = ""  # it was taken out of the queue for a slot of this model, because one was free
    running: bool = False
    again: bool = False  # it was woken while it ran


class LocalEngine(Engine):
    """Sessions driven in this process, by the one worker that serves this engine; each by one task, so many at once as the worker says.

        engine = LocalEngine()
        asyncio.create_task(Worker(desk, engine=engine, store=store).run())
        await engine.session(desk, "customer-42", store).run("Hello")

    It may be woken from any thread and any event loop. What is woken before there is a worker waits for one.
    """

    remembers: ClassVar[bool] = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, _Woken] = {}
        self._ready: list[tuple[int, int, str]] = []  # by priority, then in turn
        self._later: list[tuple[float, int, str]] = []  # by the time when they are due
        self._for_slots: dict[str, list[tuple[int, int, str]]] = {}  # as `_ready`, of those that wait for a slot of a model
        self._turns = itertools.count(1)
        self._dead: dict[str, Dead] = {}
        self._stubborn: set[asyncio.Task[None]] = set()  # steps that were broken off and went on: the event loop alone would forget them
        self._serving: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None  # who is told that there is something to do

    def __repr__(self) -> str:
        return f"<LocalEngine: {len(self._sessions)} to be advanced, {len(self._dead)} set aside>"

    # -- being woken ---------------------------------------------------------------------------------------------------

    async def wake(self, session: str, priority: int = 0) -> None:
        """Have the session advanced soon. One that was set aside does not stir."""
        with self._lock:
            if session not in self._dead:
                self._wake(session, priority)
        self._tell()

    async def retry(self, session: str) -> None:
        """Take a session up again that was set aside."""
        with self._lock:
            if self._dead.pop(session, None) is None:
                raise not_aside(session)
            self._wake(session, 0)
        self._tell()

    async def dead(self, limit: int = 100) -> Sequence[Dead]:
        """The sessions that were set aside, the latest first."""
        with self._lock:
            return list(reversed(self._dead.values()))[:limit]

    def _wake(self, session: str, priority: int) -> None:
        woken = self._sessions.setdefault(session, _Woken())
        if priority:
            woken.priority = priority
        if woken.running:
            woken.again = True
        elif not woken.stands or woken.priority < woken.stands:  # else it keeps its place: waking it again costs it nothing
            self._queue(session, woken)

    def slot_freed(self, model: str) -> None:
        """Advance the first of the sessions that wait for a slot of this model."""
        with self._lock:
            self._stand_for_slot(model)
        self._tell()

    def _stand_for_slot(self, model: str) -> None:
        waiting = self._for_slots.get(model, [])
        while waiting:
            _, turn, session = heapq.heappop(waiting)
            if self._waits(session, turn):
                woken = self._sessions[session]
                woken.model = model
                self._stand(session, woken)
                break
        if not waiting:
            self._for_slots.pop(model, None)

    def _queue(self, session: str, woken: _Woken, wait: float = 0.0) -> None:
        woken.turn = next(self._turns)
        if wait:
            woken.stands = 0
            heapq.heappush(self._later, (seconds() + wait, woken.turn, session))
        else:
            self._stand(session, woken)

    def _stand(self, session: str, woken: _Woken) -> None:
        woken.stands = woken.priority
        heapq.heappush(self._ready, (woken.priority, woken.turn, session))

    def _tell(self) -> None:
        if (serving := self._serving) is not None:
            loop, more = serving
            if not loop.is_closed():
                loop.call_soon_threadsafe(more.set)

    # -- advancing -----------------------------------------------------------------------------------------------------

    async def serve(self, advance: Advance, stop: asyncio.Event, ready: Callable[[], None], at_once: int, grace: float) -> None:
        """Advance whoever is woken until `stop` is set; then let what runs be finished, and break off what does not within `grace`."""
        more = asyncio.Event()
        with self._lock:
            if self._serving is not None and not self._serving[0].is_closed():
                raise BadInput("a worker serves this engine already", do="one LocalEngine has one worker: give it more at once")
            self._serving = asyncio.get_running_loop(), more
        running: set[asyncio.Task[None]] = set()

        def ended(task: asyncio.Task[None]) -> None:
            running.discard(task)
            more.set()

        stopping = asyncio.get_running_loop().create_task(stop.wait())
        stopping.add_done_callback(lambda _: more.set())
        try:
            ready()
            while not stop.is_set():
                more.clear()
                while len(running) < at_once and (session := self._next()) is not None:
                    task = asyncio.get_running_loop().create_task(self._advance(advance, session, stop))
                    running.add(task)
                    task.add_done_callback(ended)
                await _set_within(more, self._until_next() if len(running) < at_once else None)
            if running:
                await asyncio.wait(running, timeout=grace)
        finally:
            self._serving = None
            stopping.cancel()
            for task in list(running):
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=FAREWELL)
            for task in list(running):
                self._stubborn.add(task)
                task.add_done_callback(self._stubborn.discard)
            if running:
                log.warning("%d steps do not let themselves be broken off; nobody waits for them any more", len(running))

    def _next(self) -> str | None:
        """The session whose turn it is; it counts as running from now on."""
        with self._lock:
            now = seconds()
            while self._later and self._later[0][0] <= now:
                _, turn, session = heapq.heappop(self._later)
                if self._waits(session, turn):
                    self._stand(session, self._sessions[session])
            while self._ready:
                _, turn, session = heapq.heappop(self._ready)
                if self._waits(session, turn):
                    woken = self._sessions[session]
                    woken.running, woken.again, woken.stands = True, False, 0
                    return session
        return None

    def _waits(self, session: str, turn: int) -> bool:
        """Whether this place in the queue still counts: who was woken again has a newer one."""
        woken = self._sessions.get(session)
        return woken is not None and woken.turn == turn and not woken.running

    def _until_next(self) -> float | None:
        with self._lock:
            return max(0.0, self._later[0][0] - seconds()) if self._later else None

    async def _advance(self, advance: Advance, session: str, stop: asyncio.Event) -> None:
        woken = self._sessions[session]
        step: Step | None = None
        try:
            step = await advance(session, woken.failed, woken.broken, stop)
        except Exception as error:
            log.debug("session %r: the step was not made: %s", session, type(error).__name__)
        finally:
            with self._lock:
                self._after(session, woken, step)

    def _after(self, session: str, woken: _Woken, step: Step | None) -> None:
        woken.running = False
        model, woken.model = woken.model, ""
        if model and (step is None or step.model != model):
            self._stand_for_slot(model)  # perhaps it had no use for the slot that it was woken for
        if step is None:  # the store could not be used, or the step was broken off: nobody's fault here
            self._queue(session, woken, PATIENCE[min(woken.refused, len(PATIENCE) - 1)])
            woken.refused += 1
        elif step.parked:
            del self._sessions[session]
            self._dead[session] = Dead(session, step.error, now_ms())
        else:
            woken.failed, woken.broken, woken.refused = step.failed, step.broken, 0
            if step.model and not woken.again:
                woken.stands = woken.priority
                heapq.heappush(self._for_slots.setdefault(step.model, []), (woken.priority, woken.turn, session))
            elif woken.again or step.wait is not None:
                self._queue(session, woken, 0.0 if woken.again else step.wait or 0.0)
            else:
                del self._sessions[session]

    async def close(self) -> None:
        """It holds nothing that could be let go of."""


async def _set_within(event: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
