"""Event loops with virtual time and seeded schedules. May know: asyncio. Decides: who runs next, by dice that a seed rolls.

A `Timeline` is one virtual time and one queue of what is ready; every step takes a piece of it at random, so two seeds give two
schedules and one seed gives the same schedule always. Waiting costs nothing: when nothing is ready, time jumps to the next timer.
If there is none either, nobody will ever wake, and that is an error (`Deadlock`).

Several loops may share a timeline. Each stands for one process: `kill()` drops everything it was about to do, in the middle,
without running a single `finally`, as `kill -9` does. No selector, socket or thread is touched, so a loop costs microseconds.

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
    # Checkers take the methods of AbstractEventLoop for abstract; really they raise NotImplementedError, which is what is meant here.
    Loop = asyncio.BaseEventLoop
else:
    Loop = asyncio.AbstractEventLoop

T = TypeVar("T")

STEP_SECONDS = 0.0001
"""What one step takes in virtual time, so that timers also fire in the middle of work."""

_EPOCH_MS = 1_700_000_000_000


class Deadlock(AssertionError):
    """Nothing is ready and no timer is set: nobody will ever wake."""


class Endless(AssertionError):
    """So many steps, and still no end."""


class _Moment(asyncio.TimerHandle):
    """Something to be called, now or at a virtual time."""

    def __init__(self, loop: SimulatedLoop, callback: Callable[..., object], args: tuple[Any, ...], context: Context, when: float) -> None:
        # The parent's __init__ asks for debug mode and tracebacks; this is made some hundred times per schedule.
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
        return f"<{'cancelled ' if self._cancelled else ''}moment {self._when:.4f}>"


class SimulatedClock(Clock):
    """Virtual time, and names and random numbers that the seed gives."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now_ms(self) -> int:
        return _EPOCH_MS + int(self._timeline.now * 1000)

    def seconds(self) -> float:
        return self._timeline.now

    def fresh_name(self) -> str:
        return f"{self._timeline.random.getrandbits(128):032x}"

    def fresh_key(self) -> bytes:
        return self._timeline.random.randbytes(32)

    def random_fraction(self) -> float:
        return self._timeline.random.random()


class Timeline:
    """One virtual time, one queue, one source of chance, for any number of loops."""

    def __init__(self, seed: int | str = 0, step: float = STEP_SECONDS) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.steps = 0
        self.errors: list[BaseException] = []  # what callbacks and unwatched tasks raised
        self.context = copy_context()
        self.context.run(clock.set, SimulatedClock(self))
        self._step = step
        self._ready: list[_Moment] = []
        self._timers: list[tuple[float, int, _Moment]] = []
        self._count = 0

    def run(self, until: Callable[[], bool], most: int = 10_000_000) -> None:
        """Take steps until `until()` is true. `Deadlock` if that can never be, `Endless` after so many steps."""
        ready, timers, chance = self._ready, self._timers, self.random.random
        last = self.steps + most
        before = events._get_running_loop()
        try:
            while not until():
                if timers and (not ready or timers[0][0] <= self.now):
                    self._wake()
                    continue
                if not ready:
                    raise Deadlock("nobody will ever wake: nothing is ready, and no timer is set")
                if len(ready) > 1:
                    index = int(chance() * len(ready))
                    ready[index], ready[-1] = ready[-1], ready[index]
                moment = ready.pop()
                if moment._cancelled:
                    continue
                if moment._loop.dead:
                    moment._loop._grave.append(moment)
                    continue
                self.steps += 1
                self.now += self._step
                if self.steps > last:
                    ready.append(moment)  # or its task would never end, not even by `bury`
                    raise Endless(f"{most} steps, and no end")
                self._call(moment)
        finally:
            events._set_running_loop(before)

    def _call(self, moment: _Moment) -> None:
        events._set_running_loop(moment._loop)
        try:
            moment._context.run(moment._callback, *moment._args)
        except Exception as error:
            self.errors.append(error)

    def _wake(self) -> None:
        """Make ready what is due; if nothing is ready, let time jump to the next timer that anybody still waits for."""
        timers, ready = self._timers, self._ready
        while timers:
            when, _, moment = timers[0]
            if moment._cancelled or moment._loop.dead:
                heapq.heappop(timers)
            elif when <= self.now:
                heapq.heappop(timers)
                ready.append(moment)
            elif ready:
                return
            else:
                self.now = when

    def _later(self, moment: _Moment) -> None:
        self._count += 1
        heapq.heappush(self._timers, (moment._when, self._count, moment))


class SimulatedLoop(Loop):
    """A loop on a timeline; see the module. What needs a socket, a thread or a signal is not there."""

    def __init__(self, timeline: Timeline | None = None) -> None:
        self.timeline = timeline or Timeline()
        self.dead = False
        self._queue = self.timeline._ready
        self._grave: list[_Moment] = []  # what was about to happen when it died
        # A dead loop's tasks wait for nothing that lives. The garbage collector would close them, and run their `finally`s, at any moment.
        self._tasks: list[asyncio.Task[Any]] = []

    # -- life and death ------------------------------------------------------------------------------------------------

    def run_until_complete(self, future: Generator[Any, None, T] | Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:  # type: ignore[override]
        """Run until this is done, and give its result."""
        task = future if isinstance(future, asyncio.Future) else self.create_task(future)
        self.timeline.run(task.done)
        return task.result()

    def kill(self) -> None:
        """The process is gone: nothing that it had begun goes on, and no `finally` runs."""
        self.dead = True

    def bury(self) -> None:
        """Let go of what the tasks of a dead loop hold, when nobody looks any more. Nothing they do now may count."""
        self.dead = True
        grave = self._queue = self._grave
        grave += [moment for moment in self.timeline._ready if moment._loop is self]
        before = events._get_running_loop()
        try:
            for _ in range(100):
                tasks = self._tasks = [task for task in self._tasks if not task.done()]
                if not tasks:
                    break
                for task in tasks:
                    task.cancel()
                while grave:
                    moment = grave.pop(0)
                    if not moment._cancelled:
                        self.timeline._call(moment)
        finally:
            events._set_running_loop(before)
            self._queue = []

    # -- what asyncio needs of a loop ----------------------------------------------------------------------------------

    def time(self) -> float:
        return self.timeline.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        moment = _Moment(self, callback, args, context if context is not None else copy_context(), 0.0)
        self._queue.append(moment)
        return moment

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        return self.call_soon(callback, *args, context=context)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.TimerHandle:  # type: ignore[override]
        return self.call_at(self.timeline.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.TimerHandle:  # type: ignore[override]
        moment = _Moment(self, callback, args, context if context is not None else copy_context(), when)
        self.timeline._later(moment)
        return moment

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        if context is None and events._get_running_loop() is None:
            context = self.timeline.context.copy()
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=str(name or "task"), context=context)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Threads would make the schedule depend on the machine: the function is called in a step of its own."""
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
        return self.dead

    def close(self) -> None:
        self.dead = True

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException) and not self.dead:
            self.timeline.errors.append(error)

    def __repr__(self) -> str:
        return f"<SimulatedLoop at {self.timeline.now:.3f} s{', dead' if self.dead else ''}>"
