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

HEARTBEAT_INTERVAL_S = 0.001
"""How often the heartbeat task asks to run."""

WATCHDOG_INTERVAL_S = 0.02
"""After how long without a heartbeat the watchdog looks at what the loop is doing."""


class Stall(NamedTuple):
    """A gap between two heartbeats, without the time for which the operating system ran other threads in its place.

    `collecting_ms`: how much of it was Python's garbage collector. It is in `ms`, and it grows with all that the program has in memory.
    `where`: what the loop's thread was doing; empty if the gap was too short to look.
    """

    ms: float = 0.0
    gc_ms: float = 0.0
    location: str = ""

    @property
    def ms_without_gc(self) -> float:
        """Without the garbage collector."""
        return self.ms - self.gc_ms


class StallMeter:
    """Finds the longest gap.

    The heartbeat runs in the loop's thread and needs the interpreter's lock: a call in C that holds the lock in another thread counts like
    one on the loop.
    """

    def __init__(self) -> None:
        self.longest = Stall()
        self._beats = 0
        self._location = ""
        self._gc_s = self._gc_started_at = 0.0

    async def run_heartbeat(self) -> None:
        """Run for as long as is measured."""
        before = get_running_time()
        while True:
            self._gc_s, self._location = 0.0, ""
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)
            now = get_running_time()
            gap = Stall((now - before - HEARTBEAT_INTERVAL_S) * 1e3, self._gc_s * 1e3, self._location)
            if gap.ms_without_gc > self.longest.ms_without_gc:
                self.longest = gap
            before = now
            self._beats += 1

    def run_watchdog(self, loop_thread: int, stopped: threading.Event) -> None:
        """Note the place once in each gap that is long."""
        beats = -1
        while not stopped.wait(WATCHDOG_INTERVAL_S):
            if beats == self._beats:
                self._location = self._location or find_location(sys._current_frames().get(loop_thread))
            beats = self._beats

    def on_garbage_collection(self, phase: str, info: dict[str, Any]) -> None:
        """The garbage collector begins or ends."""
        if phase == "start":
            self._gc_started_at = get_running_time()
        else:
            self._gc_s += get_running_time() - self._gc_started_at


def get_running_time() -> float:
    """Seconds, without those for which this thread could have run and the operating system did not let it (where it tells)."""
    waited = 0.0
    with suppress(OSError), open("/proc/thread-self/schedstat") as told:
        waited = int(told.read().split()[1]) / 1e9
    return time.perf_counter() - waited


def find_location(frame: FrameType | None) -> str:
    """The innermost lines of Legato that a thread is in."""
    found: list[str] = []
    while frame is not None and len(found) < 2:
        name = frame.f_code.co_filename
        if "/legato/" in name:
            found.append(f"{name.rpartition('/legato/')[2]}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


@asynccontextmanager
async def measure_stalls() -> AsyncIterator[StallMeter]:
    """Measure within the block."""
    meter, over = StallMeter(), threading.Event()
    watchdog = threading.Thread(target=meter.run_watchdog, args=(threading.get_ident(), over))
    gc.collect()
    gc.callbacks.append(meter.on_garbage_collection)
    beating = asyncio.create_task(meter.run_heartbeat())
    watchdog.start()
    await asyncio.sleep(HEARTBEAT_INTERVAL_S * 5)
    meter.longest = Stall()
    try:
        yield meter
        await asyncio.sleep(HEARTBEAT_INTERVAL_S * 5)
    finally:
        beating.cancel()
        gc.callbacks.remove(meter.on_garbage_collection)
        over.set()
        watchdog.join()
