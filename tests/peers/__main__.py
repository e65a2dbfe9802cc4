"""`make peers`: clients and gateways that nobody here wrote, each in an environment of its own.

    python -m tests.peers                 against the emulator, and against a served workflow
    python -m tests.peers --write         and write the table of the latter into docs/openai-endpoint.md
    python -m tests.peers --only LangChain --verbose      some rows of the table, with tracebacks

The exit code is 1 if anything fails.
"""

from __future__ import annotations

import argparse
import sys

from tests.peers import emulated, matrix
from tests.peers.environments import set_up


def main(arguments: list[str]) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="make peers", description="other people's clients against the emulator and a served workflow")
    parser.add_argument("--write", action="store_true", help="write the table into docs/openai-endpoint.md")
    parser.add_argument("--only", default="", metavar="ROW", help="only the rows of the table whose names contain this, and no emulator")
    parser.add_argument("--without-npm", action="store_true", help="leave out clients from npm")
    parser.add_argument("--verbose", action="store_true", help="show tracebacks of cells that fail")
    asked = parser.parse_args(arguments)
    rows = [row for row in matrix.ROWS if asked.only in row.name and not (asked.without_npm and row.environment == "npm")]
    if asked.write and rows != matrix.ROWS:
        parser.error("--write needs all rows of the table")
    set_up({row.environment for row in rows})
    failures = 0 if asked.only else emulated.main()
    cells = []
    for cell in matrix.run_rows(rows):
        cells.append(cell)
        print(f"{cell.row.name} / {cell.column}: {cell.problem or cell.text}", flush=True)
        if asked.verbose and cell.problem:
            print(cell.detail, flush=True)
    print(f"\n{matrix.draw_table(cells)}")
    if asked.write:
        matrix.write_table(cells)
    wrong = [cell for cell in cells if cell.problem]
    print(f"\n{len(cells) - len(wrong)} of {len(cells)} cells are as they must be")
    return 1 if failures or wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
