"""Check the naming rules of CONTRIBUTING.md. Part of `make lint`.

Prints each offender that `allowed.txt` does not list, and each line of `allowed.txt` that is no offender any more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.naming.rules import ROOT, find_offenders

ALLOWED = Path(__file__).with_name("allowed.txt")


def read_allowed(file: Path) -> set[str]:
    """Return the lines of a list of allowed offenders."""
    return {line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")}


def main(arguments: list[str] | None = None) -> int:
    """Print the offenders, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.naming", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="report these files and folders only")
    parser.add_argument("--allowed", type=Path, default=ALLOWED, metavar="FILE", help="the list of allowed offenders")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.paths]
    allowed = read_allowed(options.allowed)
    offenders = {str(offender): offender for offender in find_offenders(ROOT)}
    reported = [line for line, each in offenders.items() if line not in allowed and (not paths or any(each.is_in(path) for path in paths))]
    for line in reported:
        print(line)
    stale = [] if paths else sorted(allowed - offenders.keys())
    for line in stale:
        print(f"{options.allowed.name} has a line that is no offender any more, delete it: {line}")
    print(f"{len(reported)} offenders, {len(allowed)} allowed")
    return 1 if reported or stale else 0


if __name__ == "__main__":
    sys.exit(main())
