"""`make wires`: 30,000 random requests over every wire and memory mode, judged by the law books. One that is wrong is enough to fail.

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

from tests.providers.sweep.play import ENOUGH, Findings, sweep

CHUNK = 5
"""Workflows that are played at a time."""


def play(numbers: range) -> Findings:
    """In a worker: one piece of the workflows."""
    try:
        return sweep(numbers)
    finally:
        gc.collect()


def quiet() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who prints the summary
    gc.freeze()
    gc.disable()  # a schedule leaves cycles, and little else: once per piece is enough


def pieces(first: int) -> Iterator[range]:
    while True:
        yield range(first, first + CHUNK)
        first += CHUNK


def main() -> int:
    parser = argparse.ArgumentParser(prog="make wires", description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=30_000, help="how many requests at least (default 30,000)")
    parser.add_argument("--number", type=int, help="only the workflow of this number, ten conversations")
    parser.add_argument("--first", type=int, default=0, help="the first workflow's number")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many processes (default: one per core)")
    given = parser.parse_args()
    total, begun, shown = Findings(), time.monotonic(), 0.0
    if given.number is not None:
        total = sweep([given.number])
        return summary(total, time.monotonic() - begun)
    with multiprocessing.get_context("fork").Pool(given.processes, quiet) as pool:
        try:
            todo = pieces(given.first)
            running = [pool.apply_async(play, (next(todo),)) for _ in range(given.processes * 2)]
            while running:  # in the order of their numbers, so that the same numbers give the same digest
                total.add(running.pop(0).get())
                if total.requests.total() >= given.requests or len(total.wrong) >= ENOUGH:
                    break
                running.append(pool.apply_async(play, (next(todo),)))
                if time.monotonic() - shown > 1:
                    shown = time.monotonic()
                    rate = total.requests.total() / (shown - begun)
                    line = f"{total.requests.total():,}/{given.requests:,} requests  {rate:,.0f}/s  {len(total.wrong)} wrong"
                    print(f"\r{line:<70}", end="" if sys.stderr.isatty() else "\n", flush=True, file=sys.stderr)
        except KeyboardInterrupt:
            print("\nstopped")
        pool.terminate()
    return summary(total, time.monotonic() - begun)


def summary(total: Findings, seconds: float) -> int:
    print()
    for kind, count in sorted(total.requests.items()):
        print(f"  {kind:32}{count:>7,} requests{total.bytes[kind] / count:>9,.0f} B each")
    print("  seen: " + ", ".join(f"{what} x{count:,}" for what, count in sorted(total.saw.items())))
    print(f"{total.requests.total():,} requests, {len(total.wrong)} wrong, {seconds:.0f} s; bodies {total.digest}")
    for each in total.wrong[:ENOUGH]:
        print("   ", each[:1500])
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
