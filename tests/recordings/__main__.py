"""`make recordings ARGS=DIR`: record every story over every provider format and memory mode, byte for byte.

`ARGS='DIR --compare'` runs the same stories again and compares them with the files in DIR. It prints the first differences, and one is
enough to fail. So two commits are compared: record with one, compare with the other. Requests and facts are counted separately.
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

from tests.recordings.recording_files import FACTS, REQUESTS, Job, find_differences, list_jobs, record_job, write_files
from tests.recordings.story_runs import omitted_fields

MAX_SHOWN = 6
"""How many differences of each kind are shown."""


def record_part(job: Job, folder: Path, compare: bool) -> tuple[int, int, list[str]]:
    """Record one part in a worker process; return the numbers of requests and bytes, and the differences from the recording."""
    gc.disable()  # the garbage collector closes objects at points of its own, which would change the simulator's schedules
    files = record_job(job)
    sent = [content for name, content in files.items() if name.endswith(REQUESTS)]
    counts = sum(content.count(b"\n---- request ") for content in sent), sum(map(len, sent))
    if compare:
        return *counts, list(find_differences(files, folder))
    write_files(files, folder)
    return *counts, []


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that prints the summary."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make recordings", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder of the recordings")
    parser.add_argument("--compare", action="store_true", help="compare with the recordings in the folder, and write nothing")
    parser.add_argument("--random", type=int, default=420, help="number of random stories besides the others (default 420)")
    parser.add_argument("--seeds", type=int, default=0, help="number of simulator seeds besides the stories (default 0)")
    parser.add_argument("--only", default="", help="only stories with this in their titles")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="number of processes (default: one per core)")
    parser.add_argument("--leave-out", action="append", default=[], help="a field of facts that is not recorded; may be repeated")
    options = parser.parse_args()
    omitted_fields.update(options.leave_out)
    begun, found, requests, size = time.monotonic(), Counter[str](), 0, 0
    selected = [job for job in list_jobs(options.random, options.seeds) if options.only in job.title]
    with multiprocessing.get_context("fork").Pool(options.processes, ignore_interrupts, maxtasksperchild=1) as pool:
        for request_count, byte_count, differences in pool.imap(
            partial(record_part, folder=options.folder, compare=options.compare), selected, chunksize=1
        ):
            requests, size = requests + request_count, size + byte_count
            for each in differences:
                kind = "facts" if each.partition(":")[0].endswith(FACTS) else "requests"
                found[kind] += 1
                if found[kind] <= MAX_SHOWN:
                    print(f"{kind} differ in {each}", flush=True)
    print(f"{requests:,} requests of {len(selected)} parts, {size:,} bytes, {time.monotonic() - begun:.0f} s")
    if options.compare:
        print(f"files that differ: {found['requests']} of requests, {found['facts']} of facts")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
