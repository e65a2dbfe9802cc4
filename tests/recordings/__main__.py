"""`make recordings ARGS=DIR`: every story over every provider's format and every way to keep the conversation, byte for byte.

`ARGS='DIR --compare'` plays the same again and compares it with what DIR has: the first differences are shown, and one is enough to fail.
So two commits are compared: record with one, compare with the other. Requests and facts are told apart.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

from tests.recordings.plays import left_out
from tests.recordings.recordings import FACTS, REQUESTS, Job, differences, jobs, record, write_files

MAX_SHOWN = 6
"""How many differences of each kind are shown."""


def play(job: Job, folder: Path, compare: bool) -> tuple[int, int, list[str]]:
    """In a worker: one part. How many requests and bytes it has, and what is otherwise than before."""
    gc.disable()  # what the garbage collector closes, and when, would change what the simulator plays
    files = record(job)
    sent = [content for name, content in files.items() if name.endswith(REQUESTS)]
    counts = sum(content.count(b"\n---- request ") for content in sent), sum(map(len, sent))
    if compare:
        return *counts, list(differences(files, folder))
    write_files(files, folder)
    return *counts, []


def quiet() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that prints the summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="make recordings", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the recordings are")
    parser.add_argument("--compare", action="store_true", help="compare with what is there, and write nothing")
    parser.add_argument("--random", type=int, default=420, help="how many random stories are played beside the others (default 420)")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds of the simulator are played as well (default 0)")
    parser.add_argument("--only", default="", help="only stories with this in their titles")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many processes (default: one per core)")
    parser.add_argument("--leave-out", action="append", default=[], help="a member of facts that is not recorded; may be repeated")
    given = parser.parse_args()
    left_out.update(given.leave_out)
    begun, found, requests, size = time.monotonic(), Counter[str](), 0, 0
    todo = [job for job in jobs(given.random, given.seeds) if given.only in job.title]
    with multiprocessing.get_context("fork").Pool(given.processes, quiet, maxtasksperchild=1) as pool:
        for asked, sent, different in pool.imap(partial(play, folder=given.folder, compare=given.compare), todo, chunksize=1):
            requests, size = requests + asked, size + sent
            for each in different:
                kind = "facts" if each.partition(":")[0].endswith(FACTS) else "requests"
                found[kind] += 1
                if found[kind] <= MAX_SHOWN:
                    print(f"{kind} differ in {each}", flush=True)
    print(f"{requests:,} requests of {len(todo)} parts, {size:,} bytes, {time.monotonic() - begun:.0f} s")
    if given.compare:
        print(f"files that differ: {found['requests']} of requests, {found['facts']} of facts")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
