"""An event loop in virtual time: callbacks run in the order in which they become ready, and waiting takes no time.

The loop of `legato.testing` chooses the next callback at random, so that one more step inside Legato gives another schedule. Here the
number of steps changes nothing: only timers and the order of events count.
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

START_TIME_MS = 1_790_000_000_000
"""The time at which every conversation begins, in milliseconds since the epoch."""

MAX_JUMPS = 100_000
"""How many times the clock may jump to the next timer. A conversation with more jumps never ends."""


class EndlessConversation(AssertionError):
    """The conversation does not end: it waits for an event that never comes, or runs for ever."""


class _TimeJumpingSelector(selectors.BaseSelector):
    """A selector that advances the virtual time instead of waiting."""

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
            raise EndlessConversation("nothing will ever happen" if timeout is None else f"time jumped {MAX_JUMPS} times")
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with virtual timers and without threads."""

    def __init__(self, now: float = 0.0) -> None:
        self._virtual = _TimeJumpingSelector(now)
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call the function in a step of its own, because a thread ends at an unpredictable time."""
        future: asyncio.Future[Any] = self.create_future()

        def call() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except BaseException as error:  # as a thread pool does
                future.set_exception(error)

        self.call_soon(call)
        return future


class VirtualClock(Clock):
    """Virtual time, and ids and random numbers that follow from a seed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seed: str) -> None:
        self._loop = loop
        self._random = Random(seed)
        self._seed = seed
        self._id_count = 0

    def now_ms(self) -> int:
        return START_TIME_MS + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

    def new_id(self) -> str:
        self._id_count += 1
        return hashlib.blake2b(f"{self._seed} {self._id_count}".encode(), digest_size=16).hexdigest()

    def new_key(self) -> bytes:
        return self._random.randbytes(32)

    def random_fraction(self) -> float:
        return self._random.random()


class LoopStopped(Exception):
    """The loop was stopped before the coroutine ended, as `kill -9` ends a process."""


def run_in_virtual_time(main: Callable[[], Coroutine[Any, Any, T]], seed: str, loop: VirtualLoop) -> T:
    """Run a coroutine to its end in virtual time; raise `LoopStopped` if the loop is stopped first."""
    loop.set_exception_handler(lambda loop, context: None)  # tasks that end because the conversation is over are no errors
    context = copy_context()
    context.run(clock.set, VirtualClock(loop, seed))
    task = loop.create_task(main(), context=context)
    try:
        return loop.run_until_complete(task)
    except RuntimeError:
        if task.done():
            raise
        raise LoopStopped from None
    finally:
        with suppress(EndlessConversation):
            if rest := asyncio.all_tasks(loop):
                for each in rest:
                    each.cancel()
                loop.run_until_complete(asyncio.wait(rest))
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
