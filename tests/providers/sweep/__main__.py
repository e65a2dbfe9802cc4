"""`make wires`: 30,000 random requests in every format and memory mode, checked against the rules. One problem is enough to fail.

`python -m tests.providers.sweep --number N` plays the conversations of one workflow again.
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

from tests.providers.sweep.sweep_runner import MAX_PROBLEMS, SweepFindings, run_sweep

WORKFLOWS_PER_CHUNK = 5
"""The number of workflows that a worker process plays at a time."""


def run_chunk(numbers: range) -> SweepFindings:
    """Play one chunk of workflows, in a worker process."""
    try:
        return run_sweep(numbers)
    finally:
        gc.collect()


def prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that prints the summary
    gc.freeze()
    gc.disable()  # a schedule leaves few cycles: one collection per chunk is enough


def list_chunks(first: int) -> Iterator[range]:
    while True:
        yield range(first, first + WORKFLOWS_PER_CHUNK)
        first += WORKFLOWS_PER_CHUNK


def main() -> int:
    parser = argparse.ArgumentParser(prog="make wires", description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=30_000, help="the minimum number of requests (default 30,000)")
    parser.add_argument("--number", type=int, help="play only the workflow of this number, ten conversations")
    parser.add_argument("--first", type=int, default=0, help="the number of the first workflow")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="the number of processes (default: one per core)")
    arguments = parser.parse_args()
    total, started_at, printed_at = SweepFindings(), time.monotonic(), 0.0
    if arguments.number is not None:
        total = run_sweep([arguments.number])
        return print_summary(total, time.monotonic() - started_at)
    with multiprocessing.get_context("fork").Pool(arguments.processes, prepare_worker) as pool:
        try:
            chunks = list_chunks(arguments.first)
            running = [pool.apply_async(run_chunk, (next(chunks),)) for _ in range(arguments.processes * 2)]
            while running:  # in the order of their numbers, so that the same numbers give the same digest
                total.add(running.pop(0).get())
                if total.requests.total() >= arguments.requests or len(total.problems) >= MAX_PROBLEMS:
                    break
                running.append(pool.apply_async(run_chunk, (next(chunks),)))
                if time.monotonic() - printed_at > 1:
                    printed_at = time.monotonic()
                    rate = total.requests.total() / (printed_at - started_at)
                    line = f"{total.requests.total():,}/{arguments.requests:,} requests  {rate:,.0f}/s  {len(total.problems)} problems"
                    print(f"\r{line:<70}", end="" if sys.stderr.isatty() else "\n", flush=True, file=sys.stderr)
        except KeyboardInterrupt:
            print("\nstopped")
        pool.terminate()
    return print_summary(total, time.monotonic() - started_at)


def print_summary(total: SweepFindings, seconds: float) -> int:
    print()
    for kind, count in sorted(total.requests.items()):
        print(f"  {kind:32}{count:>7,} requests{total.bytes[kind] / count:>9,.0f} B each")
    print("  occurrences: " + ", ".join(f"{what} x{count:,}" for what, count in sorted(total.occurrences.items())))
    print(f"{total.requests.total():,} requests, {len(total.problems)} problems, {seconds:.0f} s; bodies {total.digest}")
    for each in total.problems[:MAX_PROBLEMS]:
        print("   ", each[:1500])
    return 1 if total.problems else 0


if __name__ == "__main__":
    sys.exit(main())
