"""Check the naming rules of CONTRIBUTING.md: `python -m tests.naming [PATH ...]`. Part of `make lint`.

Prints each offender that `allowed.txt` does not have, and each line of `allowed.txt` that is no offender any more.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.naming.rules import ROOT, find_offenders

ALLOWED = Path(__file__).with_name("allowed.txt")


def main(arguments: list[str]) -> int:
    """Print what is wrong, and return the exit code."""
    paths = [Path(each).resolve() for each in arguments]
    allowed = {line for line in ALLOWED.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")}
    found = {str(offender): offender for offender in find_offenders(ROOT)}
    shown = [line for line, each in found.items() if line not in allowed and (not paths or any(each.is_in(path) for path in paths))]
    print("\n".join(shown))
    stale = [] if paths else sorted(allowed - found.keys())
    for line in stale:
        print(f"allowed.txt has a line that is no offender any more, delete it: {line}")
    print(f"{len(shown)} offenders, {len(allowed)} allowed")
    return 1 if shown or stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
