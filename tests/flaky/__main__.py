"""`make flaky`: run the tests again and again, in random order, beside CPU load, and name those that fail.

First the whole suite, `--full` times. The first of these runs records which tests use processes, sockets or clocks; then only those run,
`--outside` times. `python -m tests.flaky --seed N --full 1 --outside 0` repeats the order of the run with that seed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
BUSY_LOOP = "import os, time\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1_000_000): pass\n"
"""Use one core until the parent process ends."""


@contextmanager
def cpu_load(processes: int) -> Iterator[None]:
    """Keep this many cores busy."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(processes)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run_tests(tests: Sequence[str], seed: int, workers: int, record: Path | None = None) -> tuple[int, list[str]]:
    """Run these tests in the order of this seed; return how many ran, and the names of those that failed."""
    with tempfile.TemporaryDirectory() as folder:
        report, names = Path(folder) / "report.xml", Path(folder) / "tests.txt"
        names.write_text("\n".join(tests))
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "tests.flaky.plugin", "-p", "no:cacheprovider"]
        command += [f"--junitxml={report}", *([f"@{names}"] if tests else [])]
        environment = os.environ | {"FLAKY_SEED": str(seed)} | ({"FLAKY_RECORD": str(record)} if record else {})
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not report.exists():
            sys.exit(f"pytest wrote no report and ended with {done.returncode}:\n{done.stdout}")
        cases = list(ElementTree.parse(report).iter("testcase"))
        failed = [
            f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            for case in cases
            if case.find("failure") is not None or case.find("error") is not None
        ]
        if done.returncode and not failed:
            failed = [f"pytest itself, which ended with {done.returncode}"]
        if failed:
            print(done.stdout[-20_000:])
        return len(cases), failed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make flaky", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="the tests to run instead of all")
    parser.add_argument("--full", type=int, default=3, help="runs of all tests (default 3; at least one, if there are runs of the others)")
    parser.add_argument("--outside", type=int, default=20, help="runs of the tests that use processes, sockets or clocks (default 20)")
    parser.add_argument("--load", type=int, default=2, help="busy loops beside the tests (default 2)")
    parser.add_argument("--workers", type=int, default=2, help="test processes (default 2)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the seed of the first run's order; each run adds one")
    options = parser.parse_args(arguments)
    failures: Counter[str] = Counter()
    red = 0
    with tempfile.TemporaryDirectory() as folder, cpu_load(options.load):
        selected, full = options.tests, max(options.full, 1 if options.outside else 0)
        for number in range(full + options.outside):
            if number == full:
                selected = sorted({line for file in Path(folder).iterdir() for line in file.read_text().splitlines()})
                print(f"{len(selected)} tests use processes, sockets or clocks", flush=True)
                if not selected:
                    break
            began, seed = time.monotonic(), options.seed + number
            ran, failed = run_tests(selected, seed, options.workers, Path(folder) if number == 0 else None)
            failures.update(failed)
            red += bool(failed)
            kind = "full" if number < full else "outside"
            print(f"{kind} run {number + 1}, seed {seed}: {ran} tests, {len(failed)} failed, {time.monotonic() - began:.0f} s", flush=True)
    for test, times in failures.most_common():
        print(f"failed {times} times: {test}")
    print(f"{red} runs of {full + options.outside} failed")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
