"""`make peers`: clients and gateways of other projects, each in an environment of its own.

    python -m tests.peers                 against the emulator, and against a served workflow
    python -m tests.peers --write         and write the table of the latter into docs/openai-endpoint.md
    python -m tests.peers --only LangChain --verbose      some rows of the table, with tracebacks

The exit code is 1 if anything fails.
"""

from __future__ import annotations

import argparse
import sys

from tests.peers import emulator_clients, matrix
from tests.peers.environments import install_environments


def main(arguments: list[str]) -> int:
    """Run the selected clients."""
    parser = argparse.ArgumentParser(prog="make peers", description="other people's clients against the emulator and a served workflow")
    parser.add_argument("--write", action="store_true", help="write the table into docs/openai-endpoint.md")
    parser.add_argument("--only", default="", metavar="ROW", help="only the rows of the table whose names contain this, and no emulator")
    parser.add_argument("--without-npm", action="store_true", help="leave out clients from npm")
    parser.add_argument("--verbose", action="store_true", help="show tracebacks of cells that fail")
    options = parser.parse_args(arguments)
    rows = [row for row in matrix.ROWS if options.only in row.name and not (options.without_npm and row.environment == "npm")]
    if options.write and rows != matrix.ROWS:
        parser.error("--write needs all rows of the table")
    install_environments({row.environment for row in rows})
    failures = 0 if options.only else emulator_clients.run_all()
    cells = []
    for cell in matrix.run_rows(rows):
        cells.append(cell)
        print(f"{cell.row.name} / {cell.column}: {cell.problem or cell.text}", flush=True)
        if options.verbose and cell.problem:
            print(cell.detail, flush=True)
    print(f"\n{matrix.draw_table(cells)}")
    if options.write:
        matrix.write_table(cells)
    failed_cells = [cell for cell in cells if cell.problem]
    print(f"\n{len(cells) - len(failed_cells)} of {len(cells)} cells pass")
    return 1 if failures or failed_cells else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
