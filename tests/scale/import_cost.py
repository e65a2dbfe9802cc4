"""What importing costs: `python -m tests.scale.import_cost`. CPU time of fresh interpreters, taken in turns, as ratios of the first line.

In a plain installation (`pip install .` in a new environment) this is what users have; the development environment has hooks of
its own. With valgrind on the machine, instructions too: they do not depend on who else is working.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import statistics
import subprocess
import sys

IMPORTS = [
    "import asyncio, json, sqlite3",
    "import asyncio, msgspec",
    "import legato",
    "from legato import Agent, HandoffBuilder, tool",
    "from legato.stores import SQLiteStore",
    "from legato.models import OpenAIResponses",
    "import pydantic",
]
# Compiled modules are kept between runs, as they are wherever a program runs twice, and dictionaries are laid out alike.
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}, "PYTHONHASHSEED": "0"}


def measure_cpu_ms(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def count_instructions(code: str) -> float:
    """Millions of them, of the whole interpreter."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", sys.executable, "-c", code]
    told = subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True, text=True).stderr
    found = re.search(r"I +refs: +([\d,]+)", told)
    assert found, told
    return int(found[1].replace(",", "")) / 1e6


def main(rounds: int = 41) -> None:
    for code in IMPORTS:
        measure_cpu_ms(code)  # to have everything compiled
    spent: dict[str, list[float]] = {code: [] for code in IMPORTS}
    for _ in range(rounds):
        for code in IMPORTS:
            spent[code].append(measure_cpu_ms(code))
    counted = {code: count_instructions(code) for code in IMPORTS} if shutil.which("valgrind") else {}
    limit = statistics.median(spent[IMPORTS[0]])
    for code in IMPORTS:
        median = statistics.median(spent[code])
        told = f", {counted[code]:4.0f} M instructions ({counted[code] / counted[IMPORTS[0]]:.2f})" if counted else ""
        print(f"{median:6.1f} ms CPU ({median / limit:.2f}), least {min(spent[code]):5.1f}{told}  {code}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
