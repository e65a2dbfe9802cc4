"""`python -m tests.sim --schedules 1000000 --processes 2`: random workflows under random schedules, every promise checked.

One violation is enough to fail. `python -m tests.sim --seed N --trace` prints every step of one schedule.
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

from tests.sim.administered_simulator import AdministeredReport, simulate_administered
from tests.sim.random_workflows import SEEDS_PER_WORKFLOW, make_random_workflow

SEEDS_PER_TASK = SEEDS_PER_WORKFLOW * 20


def simulate_seeds(seeds: range) -> AdministeredReport:
    """Simulate a range of seeds in a worker process."""
    report = AdministeredReport()
    for first in range(seeds.start, seeds.stop, SEEDS_PER_WORKFLOW):
        report.add(simulate_administered(make_random_workflow, range(first, min(first + SEEDS_PER_WORKFLOW, seeds.stop))))
        gc.collect()  # often: the freed memory is then still in the processor's caches when the next schedules use it
    return report


def prepare_worker() -> None:
    """Leave Ctrl-C to the main process, which prints the summary, and switch automatic garbage collection off."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    gc.disable()  # a schedule's garbage is cycles; `simulate_seeds` collects it


def split_seeds(first: int, count: int) -> Iterator[range]:
    """Yield ranges of at most `SEEDS_PER_TASK` seeds."""
    for start in range(first, first + count, SEEDS_PER_TASK):
        yield range(start, min(start + SEEDS_PER_TASK, first + count))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__.split("\n")[0])
    parser.add_argument("--schedules", type=int, default=1_000_000, help="the number of seeds to simulate (default 1,000,000)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="the number of processes (default: one per core)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--trace", action="store_true", help="print every step of the schedule with this seed, and stop")
    options = parser.parse_args()
    if options.trace:
        report = simulate_administered(make_random_workflow, [options.seed], trace=True)
        print(*report.trace, report, sep="\n")
        return 1 if report.violations else 0
    total, started_at = AdministeredReport(), time.monotonic()
    printed_at = 0.0
    with multiprocessing.get_context("fork").Pool(options.processes, prepare_worker) as pool:
        try:
            for report in pool.imap_unordered(simulate_seeds, split_seeds(options.seed, options.schedules)):
                total.add(report)
                for seed, violation in report.violations:
                    print(f"\rseed {seed}: {violation}\n  python -m tests.sim --seed {seed} --trace", flush=True)
                if time.monotonic() - printed_at > 1:
                    printed_at = time.monotonic()
                    print_progress(total, options.schedules, printed_at - started_at)
        except KeyboardInterrupt:
            pool.terminate()
            print("\nstopped", end="")
    seconds = time.monotonic() - started_at
    print(f"\n{total}\n{seconds:,.0f} s, {total.schedules / seconds:,.0f} schedules/s, {total.steps:,} event loop steps")
    return 1 if total.violations else 0


def print_progress(total: AdministeredReport, schedules: int, seconds: float) -> None:
    """Print one line; on a terminal it replaces the line before."""
    rate = total.schedules / seconds
    remaining = (schedules - total.schedules) / rate if rate else 0
    line = (
        f"{total.schedules:,}/{schedules:,}  {rate:,.0f}/s  {remaining / 60:.1f} min left  {total.distinct_schedules:,} distinct  "
        f"{total.deaths:,} deaths  {len(total.violations)} violations"
    )
    print(f"\r{line:<110}", end="" if sys.stdout.isatty() else "\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
