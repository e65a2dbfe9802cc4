"""`make crash`: a death at every point of every story, second deaths in some recoveries, branches at every fact, a thousand real kills."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time

from legato.testing.branch_sweeps import branch_sweep
from legato.testing.crash_sweeps import SweepReport, crash_sweep
from tests.crash.process_kills import KillReport, run_kills
from tests.crash.test_crash_sweeps import ALL_STORIES, FIRST_FAULT_MODES


def sweep_story(job: tuple[str, bool, int | None]) -> tuple[str, SweepReport]:
    """Sweep one story in a worker process."""
    title, stream, recovery_points = job
    name = f"{title} (streaming)" if stream else title
    modes = (*FIRST_FAULT_MODES, "second death")
    return title, crash_sweep(ALL_STORIES[title], name=name, stream=stream, modes=modes, recovery_points=recovery_points)


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the main process, which prints the summary."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def print_progress(line: str) -> None:
    """Print one line; on a terminal it replaces the line before."""
    print(f"\r{line[:118]:<118}", end="" if sys.stdout.isatty() else "\n", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="the number of processes to kill (default 1000)")
    parser.add_argument(
        "--recovery-points", type=int, default=6, help="points of a first death whose recovery is swept too (default 6; -1: all)"
    )
    parser.add_argument("--story", default="", help="only stories whose title contains this")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="the number of processes (default: one per core)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the kills")
    options = parser.parse_args()
    total, started_at = SweepReport(), time.monotonic()
    recovery_points = options.recovery_points if options.recovery_points >= 0 else None
    jobs = [(title, stream, recovery_points) for stream in (False, True) for title in ALL_STORIES if options.story in title]
    with multiprocessing.get_context("fork").Pool(options.processes, ignore_interrupts) as pool:
        try:
            for number, (title, report) in enumerate(pool.imap_unordered(sweep_story, jobs), 1):
                total.add(report)
                for case, violation in report.violations[:5]:
                    print(f"\r{case}: {violation}", flush=True)
                seconds = time.monotonic() - started_at
                remaining = seconds / number * (len(jobs) - number)
                counts = f"{total.runs:,} runs  {total.deaths:,} deaths  {remaining / 60:.1f} min left"
                print_progress(f"{number}/{len(jobs)} stories  {counts}  {title}")
        except KeyboardInterrupt:
            pool.terminate()
            print("\nstopped", end="")
    print(f"\ncrash sweep: {total}\n{time.monotonic() - started_at:,.0f} s")
    branches, started_at = SweepReport(), time.monotonic()
    for title in ALL_STORIES:
        if options.story in title:
            branches.add(branch_sweep(ALL_STORIES[title], name=title))
    print(f"branch sweep: {branches}\n{time.monotonic() - started_at:,.0f} s")
    kills = KillReport()
    if options.kills:
        started_at = time.monotonic()
        kills = run_kills(options.kills, options.seed, lambda report: print_progress(f"{report.kills:,}/{options.kills:,} kills"))
        print(f"\nkills: {kills}\n{time.monotonic() - started_at:,.0f} s; the last facts acknowledged before a kill: {kills.last_facts}")
    return 1 if total.violations or branches.violations or kills.violations else 0


if __name__ == "__main__":
    sys.exit(main())
