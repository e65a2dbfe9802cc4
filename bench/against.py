"""`python -m bench.against TREE`: compare the CPU time of this tree with that of another one, such as a clone of an earlier commit.

Both are measured in turn by this interpreter, each time in a fresh process, and the medians of the CPU time are compared. So other work on
the machine slows down both. One ratio above the limit is enough to fail.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
SIZES = {"W1": 400, "W2": 400, "W3": 50, "W4": 30, "W5": 100}
MAX_RATIO = 1.15

MeasurementKey = tuple[str, str, int]


def measure_workload(tree: Path, workload: str, size: int) -> dict[MeasurementKey, float]:
    """Run one process; return the CPU milliseconds of each variant and size, or bytes if a variant measures memory."""
    command = [sys.executable, str(tree / "bench" / "systems" / "legato_native.py"), workload, "--n", str(size)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PYTHON", "LEGATO_"))}
    done = subprocess.run(command, cwd=tree, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{workload} failed in {tree}:\n{done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(workload, line.get("variant", ""), line["n"]): line["cpu_ms"] or line["extra"]["bytes_per_waiting"] for line in lines}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__.split("\n")[0])
    parser.add_argument("tree", type=Path, help="the other tree")
    parser.add_argument("--rounds", type=int, default=5, help="the number of measurements of each tree (default 5)")
    parser.add_argument("--workload", action="append", choices=sorted(SIZES), help="only this workload; may be repeated")
    options = parser.parse_args()
    trees = {"before": options.tree.resolve(), "now": ROOT}
    found: dict[MeasurementKey, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(options.rounds):
        for workload in options.workload or SIZES:
            for name in sorted(trees, reverse=bool(number % 2)):  # each tree goes first equally often
                for key, milliseconds in measure_workload(trees[name], workload, SIZES[workload]).items():
                    found[key][name].append(milliseconds)
    slow = 0
    for (workload, variant, size), times in found.items():
        before, now = median(times["before"]), median(times["now"])
        slow += now > before * MAX_RATIO
        print(f"{workload}  {variant:14} n={size:<5} {before:12,.3f} before {now:12,.3f} now   {now / before:.2f}")
    print(f"{slow} of {len(found)} ratios above {MAX_RATIO}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
