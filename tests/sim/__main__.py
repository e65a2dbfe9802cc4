"""`python -m tests.sim --schedules 1000000 --processes 2`: random workflows under random schedules, every promise checked.

One violation is enough to fail. `python -m tests.sim --seed N --trace` tells the story of one schedule.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator

from tests.sim.administration import AdministeredReport, simulate
from tests.sim.workflows import SEEDS_EACH, random_workflow

CHUNK = SEEDS_EACH * 20


def play(seeds: range) -> AdministeredReport:
    """In a worker: one piece of the seeds."""
    report = AdministeredReport()
    for first in range(seeds.start, seeds.stop, SEEDS_EACH):
        report.add(simulate(random_workflow, range(first, min(first + SEEDS_EACH, seeds.stop))))
        gc.collect()  # so often that the memory of the last schedules is still in the processor's caches when the next ones use it
    return report


def quiet() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who prints the summary
    gc.collect()
    gc.freeze()
    gc.disable()  # a schedule leaves cycles, and little else


def pieces(first: int, count: int) -> Iterator[range]:
    for start in range(first, first + count, CHUNK):
        yield range(start, min(start + CHUNK, first + count))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__.split("\n")[0])
    parser.add_argument("--schedules", type=int, default=1_000_000, help="how many seeds to play (default 1,000,000)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many processes (default: one per core)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--trace", action="store_true", help="tell the whole story of the schedule with this seed, and stop")
    asked = parser.parse_args()
    if asked.trace:
        report = simulate(random_workflow, [asked.seed], trace=True)
        print(*report.story, report, sep="\n")
        return 1 if report.violations else 0
    total, begun = AdministeredReport(), time.monotonic()
    shown = 0.0
    with multiprocessing.get_context("fork").Pool(asked.processes, quiet) as pool:
        try:
            for report in pool.imap_unordered(play, pieces(asked.seed, asked.schedules)):
                total.add(report)
                for seed, violation in report.violations:
                    print(f"\rseed {seed}: {violation}\n  python -m tests.sim --seed {seed} --trace", flush=True)
                if time.monotonic() - shown > 1:
                    shown = time.monotonic()
                    progress(total, asked.schedules, shown - begun)
        except KeyboardInterrupt:
            pool.terminate()
            print("\nstopped", end="")
    seconds = time.monotonic() - begun
    print(f"\n{total}\n{seconds:,.0f} s, {total.schedules / seconds:,.0f} schedules/s, {total.steps:,} steps of event loops")
    return 1 if total.violations else 0


def progress(total: AdministeredReport, wanted: int, seconds: float) -> None:
    rate = total.schedules / seconds
    left = (wanted - total.schedules) / rate if rate else 0
    line = (
        f"{total.schedules:,}/{wanted:,}  {rate:,.0f}/s  {left / 60:.1f} min left  {total.distinct:,} distinct  "
        f"{total.deaths:,} deaths  {len(total.violations)} violations"
    )
    print(f"\r{line:<110}", end="" if sys.stdout.isatty() else "\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
