"""`make traffic CORPUS=file`: replay recorded exchanges with real providers, and report where our rules and decoders differ from them.

Prints one table per API. Exit code 0: the goals are met; 1: they are missed; 2: there is nothing to replay.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.traffic.corpus import read_corpus
from tests.traffic.replay import replay_corpus
from tests.traffic.report import render_cases_of_rows, render_json, render_tables


def main(arguments: list[str] | None = None) -> int:
    """Replay a corpus and print the findings."""
    parser = argparse.ArgumentParser(prog="make traffic CORPUS=file ARGS='...'", description=__doc__)
    parser.add_argument("corpus", help="recorded exchanges: .jsonl or .jsonl.xz", nargs="?", default="")
    parser.add_argument("--list", metavar="NAME", action="append", default=[], help="show the exchanges behind the rows of this name")
    parser.add_argument("--details", action="store_true", help="show a few exchanges behind every row that counts against a goal")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(arguments)
    path = Path(options.corpus)
    if not options.corpus or not path.is_file():
        problem = f"there is no file {options.corpus!r}" if options.corpus else "none was named"
        print(f"make traffic needs a corpus of recorded exchanges, and {problem}: make traffic CORPUS=exchanges.jsonl.xz", file=sys.stderr)
        return 2
    corpus = read_corpus(path)
    if not len(corpus):
        print(f"{path} has no readable exchange", *corpus.damage_reports[:5], sep="\n  ", file=sys.stderr)
        return 2
    tallies = replay_corpus(corpus, ProgressReporter(len(corpus)).report)
    if options.json:
        print(render_json(corpus, tallies))
    elif options.list:
        print(render_cases_of_rows(tallies, options.list))
    else:
        print(render_tables(corpus, tallies, details=options.details))
    return 1 if any(tally.list_missed_goals() for tally in tallies.values()) else 0


class ProgressReporter:
    """Prints the progress of the replay on standard error, at every tenth."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._next = 0

    def report(self, done: int) -> None:
        """Take note that this many exchanges are done."""
        if done >= self._next:
            print(f"{done:,} of {self._total:,} exchanges replayed", file=sys.stderr, flush=True)
            self._next = done + max(self._total // 10, 1)


if __name__ == "__main__":
    sys.exit(main())
