"""`make bench`: Legato side by side with its peers and with the bare limit, measured in one run.

    python -m bench                          everything, three times: about an hour
    python -m bench --quick                  smaller sizes for the peers, once: a few minutes
    python -m bench --workload W1 --system legato --system langgraph
    python -m bench --more --system legato   further repetitions, added to what the last full run measured
    python -m bench --replace --workload W2  measure a workload again, and keep the others of the last full run
    python -m bench --report                 only write the report again

Every measurement is a fresh process in the system's own environment, which is installed when it is first needed. Its JSON lines go to
`bench/results/measurements.jsonl`, plots beside it, the page with all tables to `docs/benchmarks.md`. A quick or partial run has its files
in `bench/results/quick/`.
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
from bench.environments import ALL_SYSTEMS, ROOT, SCRIPTS_FOLDER, System, install_environment, list_variants

RESULTS = ROOT / "bench" / "results"
FULL_SIZES = {
    "W1": workloads.HANDOFF_COUNTS,
    "W2": workloads.HANDOFF_COUNTS,
    "W3": (workloads.CHAT_TURN_COUNT,),
    "W4": (workloads.APPROVAL_COUNT,),
    "W5": (workloads.CROWD_SIZE // 10, workloads.CROWD_SIZE),
    "W6": (1,),
    "W7": (workloads.SDK_HISTORY_TURNS // 4, workloads.SDK_HISTORY_TURNS),
    "W8": workloads.STORED_TURN_COUNTS,
}
QUICK_SIZES = {"W1": (100, 400), "W2": (100, 400), "W3": (50,), "W4": (30,), "W5": (100,), "W6": (1,), "W7": (10,), "W8": (100, 1_000)}

Line = dict[str, Any]


class BenchRun:
    """One run: its systems, workloads and sizes, and its measurements."""

    def __init__(self, systems: list[System], names: list[str], quick: bool, budget: float, minutes: float, into: Path) -> None:
        self.systems = systems
        self.workload_names = names
        self.quick = quick
        self.max_seconds = budget
        self.deadline = time.monotonic() + minutes * 60
        self.results = into
        self.lines: list[Line] = []
        self.durations: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
        """The duration of each size, by system, workload and variant, to predict that of the next size."""

    def list_sizes(self, system: System, workload: str) -> list[int]:
        """Return the sizes to measure. Legato and the bare limit are always fast enough for the largest."""
        sizes = set(QUICK_SIZES[workload] if self.quick else FULL_SIZES[workload])
        return sorted(sizes if system.is_peer else sizes | {max(FULL_SIZES[workload])})

    def run(self, repeats: int) -> None:
        """Measure everything, round by round, so that a temporary slowdown of the machine affects all systems."""
        for repeat in range(repeats):
            for workload in self.workload_names:
                for system in self.systems:
                    for variant in list_variants(system, workload):
                        if repeat and system.is_peer and time.monotonic() > self.deadline:
                            continue  # fast systems get all their repetitions
                        for size in self.list_sizes(system, workload):
                            self.measure(system, workload, variant, size, repeat)

    def measure(self, system: System, workload: str, variant: str, size: int, repeat: int) -> None:
        key = (system.name, workload, variant)
        power = 1.0 if workload == "W5" else 1.2  # more conversations, none of them longer
        predicted = predict_seconds(self.durations.get(key, []), size, power)
        if predicted > self.max_seconds and system.is_peer:
            if not repeat:
                self.write_note(system, workload, variant, size, f"not run: predicted {predicted:.0f} s")
            return
        lines, problem = self.run_script(system, workload, variant, size)
        for line in lines:
            line |= {"system": system.name, "workload": workload, "repeat": repeat}
            self.write_line(line)
            self.durations.setdefault(key, []).append((size, calculate_cpu_seconds(line)))
        if problem:
            self.write_note(system, workload, variant, size, problem)
            self.durations[key] = [(size, math.inf)]

    def run_script(self, system: System, workload: str, variant: str, size: int) -> tuple[list[Line], str]:
        """Run one process; return the lines that it printed, and the problem if it failed."""
        if workload == "W6":
            command = [
                str(system.python),
                str(ROOT / "bench" / "footprint.py"),
                system.first_import,
                system.full_imports,
                *system.base_distributions,
            ]
        else:
            command = [str(system.python), str(SCRIPTS_FOLDER / system.script), workload, "--n", str(size)]
            command += ["--variant", variant] if variant else []
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PYTHON", "LEGATO_"))}
        limit = 60 + 4 * self.max_seconds
        try:
            done = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return [], f"did not end within {limit:.0f} s"
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        errors = done.stderr.strip().splitlines() or ["nothing was printed"]
        return lines, f"failed: {errors[-1][:200]}" if done.returncode or not lines else ""

    def write_note(self, system: System, workload: str, variant: str, size: int, words: str) -> None:
        """Write a line for a measurement that is missing, with the reason."""
        ended = None if words.startswith("not run") else False
        self.write_line({"system": system.name, "workload": workload, "variant": variant, "n": size, "ended": ended, "note": words})

    def write_line(self, line: Line) -> None:
        self.lines.append(line)
        with (self.results / "measurements.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        result = f"{line['cpu_ms']:10.3f} ms" if "cpu_ms" in line else line["note"]
        print(f"{line['workload']}  {line['system']:16} {line.get('variant', ''):22} n={line['n']:<6} {result}", flush=True)


def calculate_cpu_seconds(line: Line) -> float:
    """Return the CPU seconds of a measurement."""
    n: int = line["n"]
    unit: float = line["cpu_ms"] or line["wall_ms"]
    if line["workload"] == "W7":  # the measured calls, as many bare calls, and the history, whose calls take half as long on average
        return unit * (n / 2 + 2 * workloads.SDK_CALL_COUNT) / 1e3
    if line["workload"] == "W8":  # `cpu_ms` is the opening; recording the turns takes longer
        unit = line["extra"]["turn_ms"]
    return unit * n / 1e3


def predict_seconds(known: list[tuple[int, float]], size: int, power: float = 1.2) -> float:
    """Predict the duration of a size with the exponent of the two largest known sizes, plus a little, because exponents tend to grow."""
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


def install_systems(systems: list[System]) -> Iterator[System]:
    """Yield the systems whose environments could be installed."""
    for system in systems:
        if problem := install_environment(system):
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
    parser.add_argument(
        "--system", action="append", choices=[system.name for system in ALL_SYSTEMS], help="only this system; may be repeated"
    )
    parser.add_argument("--workload", action="append", choices=sorted(FULL_SIZES), help="only this workload; may be repeated")
    parser.add_argument("--repeats", type=int, help="the number of measurements of each (3; quick: 1)")
    parser.add_argument("--budget", type=float, help="the predicted seconds that one measurement may take (40; quick: 8)")
    parser.add_argument("--minutes", type=float, default=60, help="the minutes after which repetitions of peers are left out")
    parser.add_argument("--more", action="store_true", help="add to the last full run, instead of starting over")
    parser.add_argument("--replace", action="store_true", help="keep the other workloads of the last full run")
    parser.add_argument("--report", action="store_true", help="measure nothing: only write the report again")
    parser.add_argument("--install", action="store_true", help="only install the environments")
    options = parser.parse_args()
    is_full = options.more or options.replace or not (options.quick or options.system or options.workload)
    results = RESULTS if is_full else RESULTS / "quick"
    page = ROOT / "docs" / "benchmarks.md" if is_full else results / "benchmarks.md"
    results.mkdir(parents=True, exist_ok=True)
    if not options.report:
        selected = [system for system in ALL_SYSTEMS if not options.system or system.name in options.system]
        systems = list(install_systems(selected))
        if options.install:
            return 0 if systems == selected else 1
        if not options.more:
            remove_measurements(results / "measurements.jsonl", set(options.workload or FULL_SIZES) if options.replace else set(FULL_SIZES))
        budget = options.budget or (8 if options.quick else 40)
        bench = BenchRun(systems, options.workload or sorted(FULL_SIZES), options.quick, budget, options.minutes, results)
        bench.run(options.repeats or (1 if options.quick else 3))
    print(report.write_report(results, page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
