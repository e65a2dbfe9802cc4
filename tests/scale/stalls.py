"""Measures how long the event loop stands still: the longest time for which a task that wanted to run could not."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import FrameType
from typing import Any, NamedTuple

BEAT_S = 0.001
"""How often the heartbeat task asks to run."""

SLOW_S = 0.02
"""After how long without a heartbeat the watchdog looks at what the loop is doing."""


class Stall(NamedTuple):
    """A gap between two heartbeats, without the time for which the operating system ran other threads in its place.

    `collecting_ms`: how much of it was Python's garbage collector. It is in `ms`, and it grows with all that the program has in memory.
    `where`: what the loop's thread was doing; empty if the gap was too short to look.
    """

    ms: float = 0.0
    collecting_ms: float = 0.0
    where: str = ""

    @property
    def own_ms(self) -> float:
        """Without the garbage collector."""
        return self.ms - self.collecting_ms


class StallMeter:
    """Finds the longest gap.

    The heartbeat runs in the loop's thread and needs the interpreter's lock: a call in C that holds the lock in another thread counts like
    one on the loop.
    """

    def __init__(self) -> None:
        self.longest = Stall()
        self._beats = 0
        self._seen = ""
        self._collecting_s = self._collection_began = 0.0

    async def beat(self) -> None:
        """Run for as long as is measured."""
        before = own_time()
        while True:
            self._collecting_s, self._seen = 0.0, ""
            await asyncio.sleep(BEAT_S)
            now = own_time()
            gap = Stall((now - before - BEAT_S) * 1e3, self._collecting_s * 1e3, self._seen)
            if gap.own_ms > self.longest.own_ms:
                self.longest = gap
            before = now
            self._beats += 1

    def watch(self, loop_thread: int, over: threading.Event) -> None:
        """Note the place once in each gap that is long."""
        beats = -1
        while not over.wait(SLOW_S):
            if beats == self._beats:
                self._seen = self._seen or place(sys._current_frames().get(loop_thread))
            beats = self._beats

    def collecting(self, phase: str, about: dict[str, Any]) -> None:
        """The garbage collector begins or ends."""
        if phase == "start":
            self._collection_began = own_time()
        else:
            self._collecting_s += own_time() - self._collection_began


def own_time() -> float:
    """Seconds, without those for which this thread could have run and the operating system did not let it (where it tells)."""
    waited = 0.0
    with suppress(OSError), open("/proc/thread-self/schedstat") as told:
        waited = int(told.read().split()[1]) / 1e9
    return time.perf_counter() - waited


def place(frame: FrameType | None) -> str:
    """The innermost lines of Legato that a thread is in."""
    found: list[str] = []
    while frame is not None and len(found) < 2:
        name = frame.f_code.co_filename
        if "/legato/" in name:
            found.append(f"{name.rpartition('/legato/')[2]}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


@asynccontextmanager
async def measured_stalls() -> AsyncIterator[StallMeter]:
    """Measure within the block."""
    meter, over = StallMeter(), threading.Event()
    watchdog = threading.Thread(target=meter.watch, args=(threading.get_ident(), over))
    gc.collect()
    gc.callbacks.append(meter.collecting)
    beating = asyncio.create_task(meter.beat())
    watchdog.start()
    await asyncio.sleep(BEAT_S * 5)
    meter.longest = Stall()
    try:
        yield meter
        await asyncio.sleep(BEAT_S * 5)
    finally:
        beating.cancel()
        gc.callbacks.remove(meter.collecting)
        over.set()
        watchdog.join()
