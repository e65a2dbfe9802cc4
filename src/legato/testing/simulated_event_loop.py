"""Event loops with virtual time and seeded schedules.

A `Timeline` has one virtual time and one queue of ready callbacks. Each step runs a random one of them, so two seeds give two schedules,
and one seed always gives the same schedule. Waiting costs nothing: when nothing is ready, time jumps to the next timer. If there is no
timer either, no task can ever continue, and `Deadlock` is raised.

Several loops may share a timeline. Each stands for one process: `kill()` drops all its callbacks without running a `finally`, as `kill -9`
does. No selector, socket or thread is used, so a loop costs microseconds.

>>> async def nap():
...     await asyncio.sleep(3600)
...     return asyncio.get_running_loop().time() >= 3600
>>> SimulatedLoop(Timeline(seed=1)).run_until_complete(nap())
True
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from legato.runtime.clock import Clock, clock

if TYPE_CHECKING:
    # Type checkers treat the methods of AbstractEventLoop as abstract. At run time they raise NotImplementedError, as intended here.
    _BaseLoop = asyncio.BaseEventLoop
else:
    _BaseLoop = asyncio.AbstractEventLoop

T = TypeVar("T")

STEP_DURATION_S = 0.0001
"""The virtual time that one step takes, so that timers also fire between steps that are ready."""

_START_TIME_MS = 1_700_000_000_000


class Deadlock(AssertionError):
    """Nothing is ready and no timer is set, so no task can ever continue."""


class StepLimitExceeded(AssertionError):
    """The condition of `Timeline.run` was not met within the maximum number of steps."""


class _ScheduledCallback(asyncio.TimerHandle):
    """A callback that runs soon, or at a virtual time."""

    def __init__(self, loop: SimulatedLoop, callback: Callable[..., object], args: tuple[Any, ...], context: Context, when: float) -> None:
        # The parent's __init__ looks up debug mode and tracebacks, which is slow: a schedule creates some hundred of these.
        self._loop: SimulatedLoop = loop
        self._callback: Callable[..., object] = callback
        self._args: tuple[Any, ...] = args
        self._context: Context = context
        self._cancelled: bool = False
        self._when: float = when

    def cancel(self) -> None:
        self._cancelled = True
        self._args = ()

    def __repr__(self) -> str:
        return f"<{'cancelled ' if self._cancelled else ''}call at {self._when:.4f} s>"


class SimulatedClock(Clock):
    """A clock with virtual time, and with ids and random numbers from the seed."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now_ms(self) -> int:
        return _START_TIME_MS + int(self._timeline.now * 1000)

    def monotonic(self) -> float:
        return self._timeline.now

    def new_id(self) -> str:
        return f"{self._timeline.random.getrandbits(128):032x}"

    def new_key(self) -> bytes:
        return self._timeline.random.randbytes(32)

    def random_fraction(self) -> float:
        return self._timeline.random.random()


class Timeline:
    """One virtual time, one queue and one random number generator for any number of loops."""

    def __init__(self, seed: int | str = 0, step: float = STEP_DURATION_S) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.steps = 0
        self.errors: list[BaseException] = []  # raised by callbacks, and by tasks that nothing awaits
        self.context = copy_context()
        self.context.run(clock.set, SimulatedClock(self))
        self._step = step
        self._ready: list[_ScheduledCallback] = []
        self._timers: list[tuple[float, int, _ScheduledCallback]] = []
        self._count = 0

    def run(self, until: Callable[[], bool], max_steps: int = 10_000_000) -> None:
        """Run steps until `until()` is true. Raises `Deadlock`, or `StepLimitExceeded` after `max_steps`."""
        ready, timers, chance = self._ready, self._timers, self.random.random
        last_step = self.steps + max_steps
        outer_loop = events._get_running_loop()
        try:
            while not until():
                if timers and (not ready or timers[0][0] <= self.now):
                    self._fire_timers()
                    continue
                if not ready:
                    raise Deadlock("no task can ever continue: nothing is ready, and no timer is set")
                if len(ready) > 1:
                    index = int(chance() * len(ready))
                    ready[index], ready[-1] = ready[-1], ready[index]
                scheduled = ready.pop()
                if scheduled._cancelled:
                    continue
                if scheduled._loop.is_dead:
                    scheduled._loop._dropped_callbacks.append(scheduled)
                    continue
                self.steps += 1
                self.now += self._step
                if self.steps > last_step:
                    ready.append(scheduled)  # else even `discard_tasks` could not end its task
                    raise StepLimitExceeded(f"no end after {max_steps} steps")
                self._run_callback(scheduled)
        finally:
            events._set_running_loop(outer_loop)

    def _run_callback(self, scheduled: _ScheduledCallback) -> None:
        events._set_running_loop(scheduled._loop)
        try:
            scheduled._context.run(scheduled._callback, *scheduled._args)
        except Exception as error:
            self.errors.append(error)

    def _fire_timers(self) -> None:
        """Make due timers ready. If nothing is ready then, jump to the time of the next timer."""
        timers, ready = self._timers, self._ready
        while timers:
            when, _, scheduled = timers[0]
            if scheduled._cancelled or scheduled._loop.is_dead:
                heapq.heappop(timers)
            elif when <= self.now:
                heapq.heappop(timers)
                ready.append(scheduled)
            elif ready:
                return
            else:
                self.now = when

    def _add_timer(self, scheduled: _ScheduledCallback) -> None:
        self._count += 1
        heapq.heappush(self._timers, (scheduled._when, self._count, scheduled))


class SimulatedLoop(_BaseLoop):
    """An event loop on a timeline, without sockets, threads and signals."""

    def __init__(self, timeline: Timeline | None = None) -> None:
        self.timeline = timeline or Timeline()
        self.is_dead = False
        self._queue = self.timeline._ready
        self._dropped_callbacks: list[_ScheduledCallback] = []  # callbacks that became due after its death
        # Kept, because the garbage collector would otherwise close a dead loop's tasks, and run their `finally` blocks, at any time.
        self._tasks: list[asyncio.Task[Any]] = []

    # -- life and death ------------------------------------------------------------------------------------------------

    def run_until_complete(self, future: Generator[Any, None, T] | Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:  # type: ignore[override]
        """Run until this is done, and return its result."""
        task = future if isinstance(future, asyncio.Future) else self.create_task(future)
        self.timeline.run(task.done)
        return task.result()

    def kill(self) -> None:
        """End the process: none of its tasks continues, and no `finally` runs."""
        self.is_dead = True

    def discard_tasks(self) -> None:
        """Cancel the tasks of a dead loop, to free their resources. Nothing that they do now may be counted."""
        self.is_dead = True
        dropped = self._queue = self._dropped_callbacks
        dropped += [scheduled for scheduled in self.timeline._ready if scheduled._loop is self]
        outer_loop = events._get_running_loop()
        try:
            for _ in range(100):
                tasks = self._tasks = [task for task in self._tasks if not task.done()]
                if not tasks:
                    break
                for task in tasks:
                    task.cancel()
                while dropped:
                    scheduled = dropped.pop(0)
                    if not scheduled._cancelled:
                        self.timeline._run_callback(scheduled)
        finally:
            events._set_running_loop(outer_loop)
            self._queue = []

    # -- the interface of asyncio's event loops ------------------------------------------------------------------------

    def time(self) -> float:
        return self.timeline.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        scheduled = _ScheduledCallback(self, callback, args, context if context is not None else copy_context(), 0.0)
        self._queue.append(scheduled)
        return scheduled

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        return self.call_soon(callback, *args, context=context)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.TimerHandle:  # type: ignore[override]
        return self.call_at(self.timeline.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.TimerHandle:  # type: ignore[override]
        scheduled = _ScheduledCallback(self, callback, args, context if context is not None else copy_context(), when)
        self.timeline._add_timer(scheduled)
        return scheduled

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        if context is None and events._get_running_loop() is None:
            context = self.timeline.context.copy()
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=str(name or "task"), context=context)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Call the function in its own step. A thread would make the schedule depend on the machine."""
        future: asyncio.Future[T] = asyncio.Future(loop=self)

        def work() -> None:
            if future.cancelled():
                return
            try:
                value = func(*args)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        self.call_soon(work)
        return future

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self.is_dead

    def close(self) -> None:
        self.is_dead = True

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException) and not self.is_dead:
            self.timeline.errors.append(error)

    def __repr__(self) -> str:
        return f"<SimulatedLoop at {self.timeline.now:.3f} s{', dead' if self.is_dead else ''}>"
