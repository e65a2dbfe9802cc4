"""The shared parts of every system's script: clocks, the JSON line, the command line. Standard library only.

A script has one async function per workload, which yields `Figures`; `main` prints each as one JSON line.

    python bench/systems/legato_native.py W1 --n 400
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from bench.workloads import (
    CROWD_REQUEST_COUNT,
    CROWD_SIZE,
    LATENCIES_MS,
    SAMPLE_INTERVAL,
    SDK_HISTORY_TURNS,
    Play,
    PlayTurn,
    RequestContent,
    is_own_answer,
    make_crowd_play,
)


@dataclass
class Figures:
    """One measurement. `cpu_ms` is per unit: a handoff, a turn, a cycle, a conversation, a call, or an opening."""

    n: int
    variant: str = ""
    cpu_ms: float = 0.0
    wall_ms: float = 0.0
    said_bytes: int | None = None
    stored_bytes: int | None = None
    """The bytes on the disk at the end."""
    written_bytes: int | None = None
    """All bytes that were written on the way."""
    lost: int | None = None
    doubled: int | None = None
    ended: bool = True
    note: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def with_play_results(self, play: Play) -> Figures:
        """Set the results of a play's search of the last requests; return these figures."""
        self.said_bytes, self.lost, self.doubled, self.ended = play.said_bytes, len(play.lost), len(play.doubled), play.is_over
        for name, marks in (("lost_such_as", play.lost), ("doubled_such_as", play.doubled)):
            if marks:
                self.extra[name] = sorted(marks)[:3]
        return self


@dataclass
class Options:
    """The options of a script."""

    n: int
    variants: tuple[str, ...]
    folder: Path
    url: str = ""
    """W7: the URL of the loopback server."""

    def is_selected(self, variant: str) -> bool:
        return not self.variants or variant in self.variants


Workload = Callable[[Options], AsyncIterator[Figures]]


class Clock:
    """Measures CPU time of all threads, wall time, and written bytes within a `with` block. A play's search time is not counted."""

    def __init__(self, play: Play | None = None) -> None:
        self.play = play

    def __enter__(self) -> Clock:
        gc.collect()
        self._searched = (self.play.search_cpu_s, self.play.search_wall_s) if self.play else (0.0, 0.0)
        self._written = _read_written_bytes()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s, self.wall_s = time.process_time() - self._cpu, time.perf_counter() - self._wall
        written = _read_written_bytes()
        self.written_bytes = None if written is None or self._written is None else written - self._written
        if self.play:
            self.cpu_s -= self.play.search_cpu_s - self._searched[0]
            self.wall_s -= self.play.search_wall_s - self._searched[1]

    def make_figures(self, n: int, variant: str = "", units: int | None = None, **more: Any) -> Figures:
        units = units or n
        figures = Figures(n, variant, self.cpu_s / units * 1e3, self.wall_s / units * 1e3, **more)
        return figures.with_play_results(self.play) if self.play else figures


def _read_written_bytes() -> int | None:
    try:
        return int(Path("/proc/self/io").read_text().split("wchar:")[1].split()[0])
    except (OSError, IndexError):  # not Linux
        return None


def compare_first_and_last(play: Play, hundred: int = 100) -> dict[str, float]:
    """Return the median cost of the first and the last hundred requests; nothing if there are too few to compare."""
    spans = [(after - before) * 1e3 / SAMPLE_INTERVAL for before, after in pairwise(play.cpu_samples)]
    count = hundred // SAMPLE_INTERVAL
    if len(spans) < 2 * count:
        return {}
    first, last = statistics.median(spans[:count]), statistics.median(spans[-count:])
    return {"first_hundred_ms": first, "last_hundred_ms": last, "last_to_first": last / first}


def measure_size(path: Path) -> int:
    """Return the bytes of a file and of those beside it whose names begin with its name, or of a folder."""
    files = path.rglob("*") if path.is_dir() else path.parent.glob(path.name + "*")
    return sum(file.stat().st_size for file in files if file.is_file())


async def measure_opening(
    opening: Callable[[], Awaitable[Any]], closing: Callable[[Any], Awaitable[Any]], times: int = 5
) -> tuple[float, float]:
    """Open and close several times; return the median CPU and wall milliseconds of the opening."""
    spent = []
    for _ in range(times):
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        opened = await opening()
        spent.append(((time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3))
        await closing(opened)
    return statistics.median(cpu for cpu, _ in spent), statistics.median(wall for _, wall in spent)


# -- many conversations at once ----------------------------------------------------------------------------------------------------


class ModelGate:
    """The latency of the model. In the memory variant, the last request of every conversation waits until all conversations wait."""

    def __init__(self, latency_ms: int, waiting_for: int = 0) -> None:
        self.latency_s = latency_ms / 1e3
        self.expected_waiters = waiting_for
        self.waiter_count = 0
        self.rss_when_all_wait = 0
        self._open = asyncio.Event()

    async def pass_through(self, last: bool) -> None:
        if self.expected_waiters and last:
            self.waiter_count += 1
            if self.waiter_count == self.expected_waiters:
                gc.collect()
                self.rss_when_all_wait = measure_rss()
                self._open.set()
            await self._open.wait()
        elif self.latency_s:
            await asyncio.sleep(self.latency_s)


class CrowdSeat(NamedTuple):
    """One conversation of the crowd: its play and its latency."""

    play: Play
    gate: ModelGate


CURRENT_SEAT: ContextVar[CrowdSeat] = ContextVar("SEAT")
"""The conversation of the running task: all conversations share one model, which replies by this variable."""


async def reply_in_crowd(read_content: Callable[[], RequestContent]) -> PlayTurn:
    """Return the next reply in the conversation of the running task."""
    play, gate = CURRENT_SEAT.get()
    await gate.pass_through(last=play.request_count == CROWD_REQUEST_COUNT - 1)
    return play.reply(read_content)


RunConversation = Callable[[str], Awaitable[str]]


async def measure_crowd(options: Options, run_conversation: RunConversation) -> AsyncIterator[Figures]:
    """W5. `run_conversation(question)` runs one conversation and returns its answer."""
    for variant, gate in (
        ("memory", ModelGate(0, waiting_for=options.n)),
        *((f"{latency}ms", ModelGate(latency)) for latency in LATENCIES_MS),
    ):
        if options.is_selected(variant):
            await _run_together([make_crowd_play(0)], ModelGate(0), run_conversation)  # creates everything that is created only once
            plays = [make_crowd_play(number) for number in range(options.n)]
            gc.collect()
            before = measure_rss()
            with Clock() as clock:
                results = await _run_together(plays, gate, run_conversation)
            clock.cpu_s -= sum(play.search_cpu_s for play in plays)
            clock.wall_s -= sum(play.search_wall_s for play in plays)
            figures = clock.make_figures(options.n, variant, ended=all(play.is_over for play in plays))
            figures.lost = sum(len(play.lost) for play in plays) + results.count(False)
            figures.doubled = sum(len(play.doubled) for play in plays)
            if figures.lost:
                figures.extra["lost_such_as"] = sorted(plays[0].lost)[:3]
            if variant == "memory":
                figures.cpu_ms, figures.extra["bytes_per_waiting"] = 0.0, (gate.rss_when_all_wait - before) / options.n
            else:
                figures.extra["conversations_per_s"] = options.n / clock.wall_s
            yield figures


async def _run_together(plays: list[Play], gate: ModelGate, run_conversation: RunConversation) -> list[bool]:
    """Run all conversations concurrently; return for each whether it got its own answer."""

    async def one(number: int, play: Play) -> bool:
        CURRENT_SEAT.set(CrowdSeat(play, gate))
        return is_own_answer(number, await run_conversation(play.make_user_message(number)))

    return await asyncio.gather(*(one(number, play) for number, play in enumerate(plays)))


def measure_rss() -> int:
    """Return the resident bytes of this process."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux: only the peak is known
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# -- the command line ------------------------------------------------------------------------------------------------------------

DEFAULT_SIZES = {"W1": 400, "W2": 400, "W3": 200, "W4": 200, "W5": CROWD_SIZE, "W7": SDK_HISTORY_TURNS, "W8": 1_000}
"""The sizes of the workloads without `--n`."""


def main(system: str, version: str, workloads: Mapping[str, Workload]) -> None:
    """Run the workload that the command line names, and print one JSON line per measurement."""
    parser = argparse.ArgumentParser(description=f"The workloads with {system}.")
    parser.add_argument("workload", choices=sorted(workloads))
    parser.add_argument("--n", type=int, help="handoffs, turns, cycles or conversations")
    parser.add_argument("--variant", action="append", default=[], help="only this variant; may be repeated")
    arguments = parser.parse_args()
    name: str = arguments.workload
    asyncio.run(_measure(system, version, name, workloads[name], arguments.n or DEFAULT_SIZES[name], tuple(arguments.variant)))


async def _measure(system: str, version: str, name: str, workload: Workload, n: int, variants: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=os.environ.get("BENCH_TMP")) as folder:
        options, trial = Options(n, variants, Path(folder) / "measured"), Options(2, variants, Path(folder) / "trial")
        for each in (options, trial):
            each.folder.mkdir()
        async with serve_loopback(options) if name == "W7" else _run_nothing():
            trial.url = options.url
            async for _ in workload(trial):  # so that imports, compilation and caches of the first use are not measured
                pass
            async for figures in workload(options):
                line = {"system": system, "version": version, "workload": name, **vars(figures)}
                print(json.dumps(line), flush=True)


@asynccontextmanager
async def _run_nothing() -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def serve_loopback(options: Options) -> AsyncIterator[None]:
    """Run the server of W7 in a process of its own, so that only the client's CPU time is measured here."""
    server = Path(__file__).with_name("loopback.py")
    child = await asyncio.create_subprocess_exec(sys.executable, str(server), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        options.url = (await child.stdout.readline()).decode().strip()
        yield
    finally:
        child.stdin.close()
        await child.wait()
