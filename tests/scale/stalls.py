"""Measurement of stalls of the event loop: the longest time for which a ready task could not run."""

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
"""The interval of the heartbeat task."""

WATCHDOG_INTERVAL_S = 0.02
"""The time without a heartbeat after which the watchdog reads the loop's stack."""


class Stall(NamedTuple):
    """A gap between two heartbeats, without the time in which the operating system ran other threads instead.

    `gc_ms`: the part of `ms` in Python's garbage collector, which grows with the memory of the program. `location`: the lines that the
    loop's thread was running; empty if the gap was too short for the watchdog.
    """

    ms: float = 0.0
    gc_ms: float = 0.0
    location: str = ""

    @property
    def ms_without_gc(self) -> float:
        """The gap without the garbage collector."""
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
        """Measure the gaps between heartbeats until cancelled."""
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
        """Record the location once in each long gap."""
        beats = -1
        while not stopped.wait(WATCHDOG_INTERVAL_S):
            if beats == self._beats:
                self._location = self._location or find_location(sys._current_frames().get(loop_thread))
            beats = self._beats

    def on_garbage_collection(self, phase: str, info: dict[str, Any]) -> None:
        """Count the time between the start and the end of a garbage collection."""
        if phase == "start":
            self._gc_started_at = get_running_time()
        else:
            self._gc_s += get_running_time() - self._gc_started_at


def get_running_time() -> float:
    """Return seconds without those in which this thread was ready and the operating system ran others (if the system reports them)."""
    waited = 0.0
    with suppress(OSError), open("/proc/thread-self/schedstat") as file:
        waited = int(file.read().split()[1]) / 1e9
    return time.perf_counter() - waited


def find_location(frame: FrameType | None) -> str:
    """Return the innermost lines of Legato in a thread's stack."""
    found: list[str] = []
    while frame is not None and len(found) < 2:
        name = frame.f_code.co_filename
        if "/legato/" in name:
            found.append(f"{name.rpartition('/legato/')[2]}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


@asynccontextmanager
async def measure_stalls() -> AsyncIterator[StallMeter]:
    """Measure stalls within the block."""
    meter, is_over = StallMeter(), threading.Event()
    watchdog = threading.Thread(target=meter.run_watchdog, args=(threading.get_ident(), is_over))
    gc.collect()
    gc.callbacks.append(meter.on_garbage_collection)
    heartbeat = asyncio.create_task(meter.run_heartbeat())
    watchdog.start()
    await asyncio.sleep(HEARTBEAT_INTERVAL_S * 5)
    meter.longest = Stall()
    try:
        yield meter
        await asyncio.sleep(HEARTBEAT_INTERVAL_S * 5)
    finally:
        heartbeat.cancel()
        gc.callbacks.remove(meter.on_garbage_collection)
        is_over.set()
        watchdog.join()
