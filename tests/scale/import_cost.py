"""The cost of importing: `python -m tests.scale.import_cost`. CPU time of fresh interpreters, in turns, as ratios to the first line.

Run this in a plain installation (`pip install .` in a new environment), as users have it; the development environment has import hooks of
its own. If valgrind is installed, it also counts instructions, which do not depend on other work of the machine.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import statistics
import subprocess
import sys

IMPORT_STATEMENTS = [
    "import asyncio, json, sqlite3",
    "import asyncio, msgspec",
    "import legato",
    "from legato import Agent, HandoffBuilder, tool",
    "from legato.stores import SQLiteStore",
    "from legato.models import OpenAIResponses",
    "import pydantic",
]
# Compiled modules stay between runs, as for a program that runs twice, and hashes are equal in all runs.
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}, "PYTHONHASHSEED": "0"}


def measure_cpu_ms(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def count_instructions(code: str) -> float:
    """Return the millions of instructions of the whole interpreter."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", sys.executable, "-c", code]
    output = subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True, text=True).stderr
    found = re.search(r"I +refs: +([\d,]+)", output)
    assert found, output
    return int(found[1].replace(",", "")) / 1e6


def main(rounds: int = 41) -> None:
    for code in IMPORT_STATEMENTS:
        measure_cpu_ms(code)  # so that everything is compiled
    cpu_times: dict[str, list[float]] = {code: [] for code in IMPORT_STATEMENTS}
    for _ in range(rounds):
        for code in IMPORT_STATEMENTS:
            cpu_times[code].append(measure_cpu_ms(code))
    instructions = {code: count_instructions(code) for code in IMPORT_STATEMENTS} if shutil.which("valgrind") else {}
    limit = statistics.median(cpu_times[IMPORT_STATEMENTS[0]])
    for code in IMPORT_STATEMENTS:
        median = statistics.median(cpu_times[code])
        counts = (
            f", {instructions[code]:4.0f} M instructions ({instructions[code] / instructions[IMPORT_STATEMENTS[0]]:.2f})"
            if instructions
            else ""
        )
        print(f"{median:6.1f} ms CPU ({median / limit:.2f}), least {min(cpu_times[code]):5.1f}{counts}  {code}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
