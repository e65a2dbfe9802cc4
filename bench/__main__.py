"""`make bench`: Legato side by side with its peers and with the bare limit, measured in one run.

    python -m bench                          everything, three times: about an hour
    python -m bench --quick                  smaller sizes for the peers, once: a few minutes
    python -m bench --workload W1 --system legato --system langgraph
    python -m bench --more --system legato   further repetitions, added to what the last full run measured
    python -m bench --replace --workload W2  measure a workload anew, and keep what the last full run measured of the others
    python -m bench --report                 only write the report anew

Every measurement is a fresh process in the system's own environment, which is set up when it is first needed. Its JSON lines go to
`bench/results/measurements.jsonl`, plots beside it, the page with all tables to `docs/benchmarks.md`. A quick run, or one of a part, has
its own in `bench/results/quick/`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import report, workloads
from bench.environments import ALL, ROOT, SYSTEMS, System, install, variants_of

RESULTS = ROOT / "bench" / "results"
FULL = {
    "W1": workloads.HANDOFFS,
    "W2": workloads.HANDOFFS,
    "W3": (workloads.CHAT_TURNS,),
    "W4": (workloads.APPROVALS,),
    "W5": (workloads.CROWD // 10, workloads.CROWD),
    "W6": (1,),
    "W7": (workloads.CALLS_AT // 4, workloads.CALLS_AT),
    "W8": workloads.STORED_TURNS,
}
QUICK = {"W1": (100, 400), "W2": (100, 400), "W3": (50,), "W4": (30,), "W5": (100,), "W6": (1,), "W7": (10,), "W8": (100, 1_000)}

Line = dict[str, Any]


class Bench:
    """One run: which systems and workloads, how much of each, and what came of it."""

    def __init__(self, systems: list[System], names: list[str], quick: bool, budget: float, minutes: float, into: Path) -> None:
        self.systems = systems
        self.names = names
        self.quick = quick
        self.budget = budget
        self.deadline = time.monotonic() + minutes * 60
        self.results = into
        self.lines: list[Line] = []
        self.seconds: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
        """For each system, workload and variant: how long each size took, to tell how long the next one would."""

    def sizes(self, system: System, workload: str) -> list[int]:
        """Legato and the bare limit are quick enough for the largest one, always."""
        sizes = set(QUICK[workload] if self.quick else FULL[workload])
        return sorted(sizes if system.peer else sizes | {max(FULL[workload])})

    def run(self, repeats: int) -> None:
        """Repetitions go round: what slows the machine down for a while does so for everybody."""
        for repeat in range(repeats):
            for workload in self.names:
                for system in self.systems:
                    for variant in variants_of(system, workload):
                        if repeat and system.peer and time.monotonic() > self.deadline:
                            continue  # what is quick is measured as often as was asked for
                        for size in self.sizes(system, workload):
                            self.measure(system, workload, variant, size, repeat)

    def measure(self, system: System, workload: str, variant: str, size: int, repeat: int) -> None:
        key = (system.name, workload, variant)
        power = 1.0 if workload == "W5" else 1.2  # more conversations, none of them longer
        predicted = predict(self.seconds.get(key, []), size, power)
        if predicted > self.budget and system.peer:
            if not repeat:
                self.note(system, workload, variant, size, f"not run: predicted {predicted:.0f} s")
            return
        lines, problem = self.process(system, workload, variant, size)
        for line in lines:
            line |= {"system": system.name, "workload": workload, "repeat": repeat}
            self.write(line)
            self.seconds.setdefault(key, []).append((size, spent(line)))
        if problem:
            self.note(system, workload, variant, size, problem)
            self.seconds[key] = [(size, math.inf)]

    def process(self, system: System, workload: str, variant: str, size: int) -> tuple[list[Line], str]:
        """The lines that one process printed; and, if it failed, what it said last."""
        if workload == "W6":
            command = [str(system.python), str(ROOT / "bench" / "footprint.py"), system.imports, system.ready, *system.base]
        else:
            command = [str(system.python), str(SYSTEMS / system.script), workload, "--n", str(size)]
            command += ["--variant", variant] if variant else []
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PYTHON", "LEGATO_"))}
        limit = 60 + 4 * self.budget
        try:
            done = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return [], f"did not end within {limit:.0f} s"
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        said = done.stderr.strip().splitlines() or ["nothing was printed"]
        return lines, f"failed: {said[-1][:200]}" if done.returncode or not lines else ""

    def note(self, system: System, workload: str, variant: str, size: int, words: str) -> None:
        """A measurement that there is none of, and why."""
        ended = None if words.startswith("not run") else False
        self.write({"system": system.name, "workload": workload, "variant": variant, "n": size, "ended": ended, "note": words})

    def write(self, line: Line) -> None:
        self.lines.append(line)
        with (self.results / "measurements.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        shown = f"{line['cpu_ms']:10.3f} ms" if "cpu_ms" in line else line["note"]
        print(f"{line['workload']}  {line['system']:16} {line.get('variant', ''):22} n={line['n']:<6} {shown}", flush=True)


def spent(line: Line) -> float:
    """CPU seconds that a measurement took."""
    n: int = line["n"]
    unit: float = line["cpu_ms"] or line["wall_ms"]
    if line["workload"] == "W7":  # the calls that are measured, as many bare ones, and before them the history, at half of that on average
        return unit * (n / 2 + 2 * workloads.CALLS) / 1e3
    if line["workload"] == "W8":  # its own figure is the opening; what takes long is the filling
        unit = line["extra"]["turn_ms"]
    return unit * n / 1e3


def predict(known: list[tuple[int, float]], size: int, power: float = 1.2) -> float:
    """How long this size will take: by the power of the size that fits the two largest known, and a little more, for it tends to grow."""
    if not known:
        return 0.0
    if known[-1][1] == math.inf:
        return math.inf
    by_size = sorted(dict(known).items())
    (last, seconds) = by_size[-1]
    if size <= last:
        return dict(by_size).get(size, seconds)
    if len(by_size) > 1 and by_size[-2][1] > 0 and seconds > by_size[-2][1]:
        power = min(2.2, max(power, 0.2 + math.log(seconds / by_size[-2][1]) / math.log(last / by_size[-2][0])))
    return float(seconds * (size / last) ** power)


def ready(systems: list[System]) -> Iterator[System]:
    """Those whose environments could be set up."""
    for system in systems:
        if problem := install(system):
            print(f"{system.name} cannot be installed here and is left out:\n{problem}", flush=True)
        else:
            yield system


def remove_measurements(file: Path, workloads: set[str]) -> None:
    """Remove the lines of these workloads from a file of measurements."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    file.write_text("".join(line for line in lines if json.loads(line)["workload"] not in workloads))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes for the peers, once")
    parser.add_argument("--system", action="append", choices=[system.name for system in ALL], help="only this one; may be repeated")
    parser.add_argument("--workload", action="append", choices=sorted(FULL), help="only this one; may be repeated")
    parser.add_argument("--repeats", type=int, help="how often each is measured (3; quick: 1)")
    parser.add_argument("--budget", type=float, help="seconds that one measurement may take, by prediction (40; quick: 8)")
    parser.add_argument("--minutes", type=float, default=60, help="after so long, repetitions of peers are left out")
    parser.add_argument("--more", action="store_true", help="add to the last full run, instead of starting over")
    parser.add_argument("--replace", action="store_true", help="keep the other workloads of the last full run")
    parser.add_argument("--report", action="store_true", help="measure nothing: only write the report anew")
    parser.add_argument("--install", action="store_true", help="only set the environments up")
    given = parser.parse_args()
    whole = given.more or given.replace or not (given.quick or given.system or given.workload)
    results = RESULTS if whole else RESULTS / "quick"
    page = ROOT / "docs" / "benchmarks.md" if whole else results / "benchmarks.md"
    results.mkdir(parents=True, exist_ok=True)
    if not given.report:
        wanted = [system for system in ALL if not given.system or system.name in given.system]
        systems = list(ready(wanted))
        if given.install:
            return 0 if systems == wanted else 1
        if not given.more:
            remove_measurements(results / "measurements.jsonl", set(given.workload or FULL) if given.replace else set(FULL))
        budget = given.budget or (8 if given.quick else 40)
        bench = Bench(systems, given.workload or sorted(FULL), given.quick, budget, given.minutes, results)
        bench.run(given.repeats or (1 if given.quick else 3))
    print(report.write(results, page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
