"""An event loop in virtual time: what is ready runs in the order in which it became ready, and waiting costs nothing.

The loop of `legato.testing` rolls dice for who runs next, so that one more step inside Legato gives another schedule. Here a conversation
goes the same way however many steps it takes: only timers and the order of events decide.
"""

from __future__ import annotations

import asyncio
import hashlib
import selectors
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from random import Random
from typing import Any, TypeVar

from legato.runtime.clock import Clock, clock

T = TypeVar("T")

STARTED_MS = 1_790_000_000_000
"""When every conversation begins, in milliseconds since the epoch."""

MAX_JUMPS = 100_000
"""How often time may jump to the next timer. A conversation that takes more will not end."""


class Endless(AssertionError):
    """The conversation does not end: nothing will ever happen, or something happens for ever."""


class _Selector(selectors.BaseSelector):
    """A selector that lets time pass in place of waiting."""

    def __init__(self, now: float) -> None:
        self._real = selectors.DefaultSelector()
        self.now = now
        self._jumps = 0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Any:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = self._real.select(0)
        if found or timeout == 0:
            return found
        self._jumps += 1
        if timeout is None or self._jumps > MAX_JUMPS:
            raise Endless("nothing will ever happen" if timeout is None else f"time jumped {MAX_JUMPS} times")
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers cost nothing, and whose threads are none."""

    def __init__(self, now: float = 0.0) -> None:
        self._virtual = _Selector(now)
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call the function in a step of its own: a thread would end at any time."""
        future: asyncio.Future[Any] = self.create_future()

        def call() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except BaseException as error:  # as a thread would hand it over
                future.set_exception(error)

        self.call_soon(call)
        return future


class VirtualClock(Clock):
    """Virtual time, and names and random numbers that follow from a seed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seed: str) -> None:
        self._loop = loop
        self._dice = Random(seed)
        self._seed = seed
        self._names = 0

    def now_ms(self) -> int:
        return STARTED_MS + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

    def new_id(self) -> str:
        self._names += 1
        return hashlib.blake2b(f"{self._seed} {self._names}".encode(), digest_size=16).hexdigest()

    def new_key(self) -> bytes:
        return self._dice.randbytes(32)

    def random_fraction(self) -> float:
        return self._dice.random()


class Stopped(Exception):
    """The loop was stopped in the middle, as a process is by `kill -9`."""


def run_virtually(main: Callable[[], Coroutine[Any, Any, T]], seed: str, loop: VirtualLoop) -> T:
    """Run a coroutine to its end in virtual time; `Stopped` if somebody stops the loop first."""
    loop.set_exception_handler(lambda loop, context: None)  # what stops because the conversation is over is no error
    context = copy_context()
    context.run(clock.set, VirtualClock(loop, seed))
    task = loop.create_task(main(), context=context)
    try:
        return loop.run_until_complete(task)
    except RuntimeError:
        if task.done():
            raise
        raise Stopped from None
    finally:
        with suppress(Endless):
            if rest := asyncio.all_tasks(loop):
                for each in rest:
                    each.cancel()
                loop.run_until_complete(asyncio.wait(rest))
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
