"""`make traffic CORPUS=file`: replay recorded exchanges with real providers, and say where our rules and readers differ from them.

Prints one table per API. Exit code 0: the goals are met; 1: they are missed; 2: there is nothing to replay.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.traffic.corpus import read_corpus
from tests.traffic.replay import replay
from tests.traffic.report import as_json, list_cases, table


def main(arguments: list[str] | None = None) -> int:
    """Replay a corpus and print what was found."""
    parser = argparse.ArgumentParser(prog="make traffic CORPUS=file ARGS='...'", description=__doc__)
    parser.add_argument("corpus", help="recorded exchanges: .jsonl or .jsonl.xz", nargs="?", default="")
    parser.add_argument("--list", metavar="NAME", action="append", default=[], help="show the exchanges behind the rows of this name")
    parser.add_argument("--details", action="store_true", help="show a few exchanges behind every row that counts against a goal")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    given = parser.parse_args(arguments)
    path = Path(given.corpus)
    if not given.corpus or not path.is_file():
        found = f"there is no file {given.corpus!r}" if given.corpus else "none was named"
        print(f"make traffic needs a corpus of recorded exchanges, and {found}: make traffic CORPUS=exchanges.jsonl.xz", file=sys.stderr)
        return 2
    corpus = read_corpus(path)
    if not len(corpus):
        print(f"{path} has no exchange that can be read", *corpus.damaged[:5], sep="\n  ", file=sys.stderr)
        return 2
    tallies = replay(corpus, Progress(len(corpus)).report)
    if given.json:
        print(as_json(corpus, tallies))
    elif given.list:
        print(list_cases(tallies, given.list))
    else:
        print(table(corpus, tallies, details=given.details))
    return 1 if any(tally.missed_goals() for tally in tallies.values()) else 0


class Progress:
    """Says on standard error how far the replay has come, at every tenth."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._next = 0

    def report(self, done: int) -> None:
        """So many exchanges are done."""
        if done >= self._next:
            print(f"{done:,} of {self._total:,} exchanges replayed", file=sys.stderr, flush=True)
            self._next = done + max(self._total // 10, 1)


if __name__ == "__main__":
    sys.exit(main())
