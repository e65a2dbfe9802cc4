"""W6: the cost of an import, and the size of an installation. Run by a system's own interpreter; prints one JSON line.

    .venv-bench-legato/bin/python bench/footprint.py 'import legato' 'from legato import Agent' legato

Import time is the CPU time of a fresh interpreter with the import, less that of one without, medians of several; files are compiled
beforehand. The installation consists of the named distributions and all their requirements on this machine, without extras.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from pip._vendor.packaging.requirements import Requirement

SOURCES = Path(__file__).resolve().parent.parent / "src"
REPETITIONS = 7


def measure_cpu_ms(statement: str) -> float:
    """Return the CPU milliseconds of a fresh interpreter that runs a statement."""
    child = subprocess.Popen([sys.executable, "-c", statement], env={**os.environ, "PYTHONPATH": str(SOURCES)})
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{statement!r} failed")
    return (usage.ru_utime + usage.ru_stime) * 1e3


def measure_import(statement: str) -> dict[str, float]:
    """Measure an import; return its figures as the JSON line has them."""
    measure_cpu_ms(statement)  # so that files are compiled
    pairs = [(measure_cpu_ms("pass"), measure_cpu_ms(statement)) for _ in range(REPETITIONS)]
    empty, full = (statistics.median(each) for each in zip(*pairs, strict=True))
    return {"import_ms": full - empty, "interpreter_ms": empty, "least_ms": min(full - empty for empty, full in pairs)}


def list_required_distributions(names: Iterable[str]) -> dict[str, Distribution]:
    """Return these distributions and all their requirements on this machine, by name."""
    found: dict[str, Distribution] = {}
    done: set[tuple[str, frozenset[str]]] = set()
    remaining = [Requirement(name) for name in names]
    while remaining:
        requirement = remaining.pop()
        name, extras = requirement.name.lower().replace("_", "-").replace(".", "-"), frozenset(requirement.extras)
        if (name, extras) in done:
            continue
        done.add((name, extras))
        try:
            known = found[name] = distribution(requirement.name)
        except PackageNotFoundError:  # for another platform
            continue
        for each in map(Requirement, known.requires or ()):
            if not each.marker or any(each.marker.evaluate({"extra": extra}) for extra in extras or {""}):
                remaining.append(each)
    return found


def measure_installed_bytes(found: dict[str, Distribution]) -> int:
    """Return the bytes of all files, without those that Python compiles from them."""
    files = {Path(str(file.locate())) for known in found.values() for file in known.files or () if "__pycache__" not in file.parts}
    if "legato" in found:  # an editable installation of this tree
        files |= {path for path in (SOURCES / "legato").rglob("*") if "__pycache__" not in path.parts}
    return sum(file.stat().st_size for file in files if file.is_file())


def main(imports: str, ready: str, names: list[str]) -> dict[str, Any]:
    found = list_required_distributions(names)
    first, whole = measure_import(imports), measure_import(ready)
    extra = {
        "import": imports,
        **first,
        "ready": ready,
        "ready_ms": whole["import_ms"],
        "packages": len(found),
        "package_names": sorted(found),
        "installed_bytes": measure_installed_bytes(found),
    }
    return {"n": 1, "variant": "", "cpu_ms": first["import_ms"], "wall_ms": 0.0, "ended": True, "extra": extra}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], sys.argv[3:])))
