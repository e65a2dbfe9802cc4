"""What every system's script shares: clocks, the JSON line, the command line. Standard library only.

A script has one async function per workload, which yields `Figures`; `run` prints each as one JSON line.

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

from bench.workloads import CALLS_AT, CROWD, CROWD_CALLS, EVERY, LATENCIES, Play, Seen, Turn, crowd_ok, crowd_play


@dataclass
class Figures:
    """One measurement. `cpu_ms` is per unit: a handoff, a turn, a cycle, a conversation, a call, or an opening."""

    n: int
    variant: str = ""
    cpu_ms: float = 0.0
    wall_ms: float = 0.0
    said_bytes: int | None = None
    stored_bytes: int | None = None
    """What is left on the disk."""
    written_bytes: int | None = None
    """All that was written on the way."""
    lost: int | None = None
    doubled: int | None = None
    ended: bool = True
    note: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def judged_by(self, play: Play) -> Figures:
        """With what the play found in the last requests."""
        self.said_bytes, self.lost, self.doubled, self.ended = play.said_bytes, len(play.lost), len(play.doubled), play.ended
        for name, marks in (("lost_such_as", play.lost), ("doubled_such_as", play.doubled)):
            if marks:
                self.extra[name] = sorted(marks)[:3]
        return self


@dataclass
class Options:
    """What a script was asked for."""

    n: int
    variants: tuple[str, ...]
    folder: Path
    url: str = ""
    """W7: where the loopback server listens."""

    def wants(self, variant: str) -> bool:
        return not self.variants or variant in self.variants


Workload = Callable[[Options], AsyncIterator[Figures]]


class Clock:
    """CPU time of all threads, wall time, and bytes written, between `with` and its end. What a play's searching took is not counted."""

    def __init__(self, play: Play | None = None) -> None:
        self.play = play

    def __enter__(self) -> Clock:
        gc.collect()
        self._searched = (self.play.searching, self.play.searching_wall) if self.play else (0.0, 0.0)
        self._written = _written()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu, self.wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        written = _written()
        self.written = None if written is None or self._written is None else written - self._written
        if self.play:
            self.cpu -= self.play.searching - self._searched[0]
            self.wall -= self.play.searching_wall - self._searched[1]

    def figures(self, n: int, variant: str = "", units: int | None = None, **more: Any) -> Figures:
        units = units or n
        made = Figures(n, variant, self.cpu / units * 1e3, self.wall / units * 1e3, **more)
        return made.judged_by(self.play) if self.play else made


def _written() -> int | None:
    try:
        return int(Path("/proc/self/io").read_text().split("wchar:")[1].split()[0])
    except (OSError, IndexError):  # not Linux
        return None


def first_and_last(play: Play, hundred: int = 100) -> dict[str, float]:
    """What the first and the last hundred requests cost each, by their medians; nothing where there are too few to compare."""
    spans = [(after - before) * 1e3 / EVERY for before, after in pairwise(play.moments)]
    some = hundred // EVERY
    if len(spans) < 2 * some:
        return {}
    first, last = statistics.median(spans[:some]), statistics.median(spans[-some:])
    return {"first_hundred_ms": first, "last_hundred_ms": last, "last_to_first": last / first}


def size_of(path: Path) -> int:
    """Bytes of a file with those beside it that begin with its name, or of a folder."""
    files = path.rglob("*") if path.is_dir() else path.parent.glob(path.name + "*")
    return sum(file.stat().st_size for file in files if file.is_file())


async def median_opening(
    opening: Callable[[], Awaitable[Any]], closing: Callable[[Any], Awaitable[Any]], times: int = 5
) -> tuple[float, float]:
    """Open and close several times: the medians of CPU and wall milliseconds of the opening."""
    spent = []
    for _ in range(times):
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        opened = await opening()
        spent.append(((time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3))
        await closing(opened)
    return statistics.median(cpu for cpu, _ in spent), statistics.median(wall for _, wall in spent)


# -- many conversations at once ----------------------------------------------------------------------------------------------------


class Gate:
    """How long the model takes. In the run that measures memory, every conversation's last call waits until all have come so far."""

    def __init__(self, latency_ms: int, waiting_for: int = 0) -> None:
        self.latency = latency_ms / 1e3
        self.waiting_for = waiting_for
        self.waiting = 0
        self.rss_when_all_wait = 0
        self._open = asyncio.Event()

    async def pass_through(self, last: bool) -> None:
        if self.waiting_for and last:
            self.waiting += 1
            if self.waiting == self.waiting_for:
                gc.collect()
                self.rss_when_all_wait = rss()
                self._open.set()
            await self._open.wait()
        elif self.latency:
            await asyncio.sleep(self.latency)


class Seat(NamedTuple):
    """One conversation of the crowd: what is said in it, and how long the model takes."""

    play: Play
    gate: Gate


SEAT: ContextVar[Seat] = ContextVar("SEAT")
"""The conversation that the running task is having: the model is one for all, and knows by this whom it answers."""


async def crowd_reply(seen: Callable[[], Seen]) -> Turn:
    """What the model says to whoever asks."""
    play, gate = SEAT.get()
    await gate.pass_through(last=play.asked == CROWD_CALLS - 1)
    return play.next(seen)


Converse = Callable[[str], Awaitable[str]]


async def crowd(options: Options, converse: Converse) -> AsyncIterator[Figures]:
    """W5. `converse(question)` has one conversation and returns its answer."""
    for variant, gate in (("memory", Gate(0, waiting_for=options.n)), *((f"{latency}ms", Gate(latency)) for latency in LATENCIES)):
        if options.wants(variant):
            await _together([crowd_play(0)], Gate(0), converse)  # what is made once, whoever comes first
            plays = [crowd_play(number) for number in range(options.n)]
            gc.collect()
            before = rss()
            with Clock() as clock:
                right = await _together(plays, gate, converse)
            clock.cpu -= sum(play.searching for play in plays)
            clock.wall -= sum(play.searching_wall for play in plays)
            figures = clock.figures(options.n, variant, ended=all(play.ended for play in plays))
            figures.lost = sum(len(play.lost) for play in plays) + right.count(False)
            figures.doubled = sum(len(play.doubled) for play in plays)
            if figures.lost:
                figures.extra["lost_such_as"] = sorted(plays[0].lost)[:3]
            if variant == "memory":
                figures.cpu_ms, figures.extra["bytes_per_waiting"] = 0.0, (gate.rss_when_all_wait - before) / options.n
            else:
                figures.extra["conversations_per_s"] = options.n / clock.wall
            yield figures


async def _together(plays: list[Play], gate: Gate, converse: Converse) -> list[bool]:
    """All at once; whether each got its own answer."""

    async def one(number: int, play: Play) -> bool:
        SEAT.set(Seat(play, gate))
        return crowd_ok(number, await converse(play.user(number)))

    return await asyncio.gather(*(one(number, play) for number, play in enumerate(plays)))


def rss() -> int:
    """Resident bytes of this process, now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux: the peak is all there is
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# -- the command line ------------------------------------------------------------------------------------------------------------

SIZES = {"W1": 400, "W2": 400, "W3": 200, "W4": 200, "W5": CROWD, "W7": CALLS_AT, "W8": 1_000}
"""What is measured where no size is given."""


def main(system: str, version: str, workloads: Mapping[str, Workload]) -> None:
    """Run the workload that the command line names, and print one JSON line per measurement."""
    parser = argparse.ArgumentParser(description=f"The workloads with {system}.")
    parser.add_argument("workload", choices=sorted(workloads))
    parser.add_argument("--n", type=int, help="handoffs, turns, cycles or conversations")
    parser.add_argument("--variant", action="append", default=[], help="only this one; may be given more than once")
    given = parser.parse_args()
    name: str = given.workload
    asyncio.run(_measure(system, version, name, workloads[name], given.n or SIZES[name], tuple(given.variant)))


async def _measure(system: str, version: str, name: str, workload: Workload, n: int, variants: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=os.environ.get("BENCH_TMP")) as folder:
        options, trial = Options(n, variants, Path(folder) / "measured"), Options(2, variants, Path(folder) / "trial")
        for each in (options, trial):
            each.folder.mkdir()
        async with loopback(options) if name == "W7" else _nothing():
            trial.url = options.url
            async for _ in workload(trial):  # what is imported, compiled or cached at the first use is W6's business
                pass
            async for figures in workload(options):
                line = {"system": system, "version": version, "workload": name, **vars(figures)}
                print(json.dumps(line), flush=True)


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def loopback(options: Options) -> AsyncIterator[None]:
    """The server of W7, in a process of its own, so that the CPU time measured here is the client's."""
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
