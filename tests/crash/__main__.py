"""`make crash`: every first death of every story, second deaths during some of the recoveries, branches at every fact, a thousand kills."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time

from legato.testing.branches import branch_sweep
from legato.testing.crash import SweepReport, crash_sweep
from tests.crash.kills import KillReport, kill_until
from tests.crash.test_sweep import ALL, MODES


def sweep(job: tuple[str, bool, int | None]) -> tuple[str, SweepReport]:
    """In a worker: one story."""
    title, stream, second = job
    name = f"{title} (streaming)" if stream else title
    return title, crash_sweep(ALL[title], name=name, stream=stream, modes=(*MODES, "second death"), second=second)


def quiet() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def show(line: str) -> None:
    print(f"\r{line[:118]:<118}", end="" if sys.stdout.isatty() else "\n", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="real kills (default 1000)")
    parser.add_argument("--second", type=int, default=6, help="first points at which the recovery is swept too (default 6; -1: all)")
    parser.add_argument("--story", default="", help="only stories whose title contains this")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0, help="of the kills")
    asked = parser.parse_args()
    total, begun = SweepReport(), time.monotonic()
    second = asked.second if asked.second >= 0 else None
    jobs = [(title, stream, second) for stream in (False, True) for title in ALL if asked.story in title]
    with multiprocessing.get_context("fork").Pool(asked.processes, quiet) as pool:
        try:
            for number, (title, report) in enumerate(pool.imap_unordered(sweep, jobs), 1):
                total.add(report)
                for triple, violation in report.violations[:5]:
                    print(f"\r{triple}: {violation}", flush=True)
                seconds = time.monotonic() - begun
                left = seconds / number * (len(jobs) - number)
                show(f"{number}/{len(jobs)} stories  {total.runs:,} runs  {total.deaths:,} deaths  {left / 60:.1f} min left  {title}")
        except KeyboardInterrupt:
            pool.terminate()
            print("\nstopped", end="")
    print(f"\nsweep: {total}\n{time.monotonic() - begun:,.0f} s")
    branches, begun = SweepReport(), time.monotonic()
    for title in ALL:
        if asked.story in title:
            branches.add(branch_sweep(ALL[title], name=title))
    print(f"branches: {branches}\n{time.monotonic() - begun:,.0f} s")
    killed = KillReport()
    if asked.kills:
        begun = time.monotonic()
        killed = kill_until(asked.kills, asked.seed, lambda report: show(f"{report.kills:,}/{asked.kills:,} kills"))
        print(f"\nkills: {killed}\n{time.monotonic() - begun:,.0f} s; the last thing acknowledged before the kill: {killed.moments}")
    return 1 if total.violations or branches.violations or killed.violations else 0


if __name__ == "__main__":
    sys.exit(main())
