"""`make chaos`: conversations on Postgres over real engines, while workers and servers are killed, stopped and started again.

python -m tests.chaos                                both engines: 200 conversations of 20 turns each, then 1,000 races
python -m tests.chaos --engine restate --seed 7      one of them, with other dice
python -m tests.chaos --conversations 20 --races 50  a small one
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.chaos.races import Raced, race
from tests.chaos.running import ENGINES, Plan, Report, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", choices=[*ENGINES, "both"], default="both")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=12.0, help="for each engine; what has not ended then is taken for lost")
    parser.add_argument("--races", type=int, default=1_000, help="answers that are raced, over all engines together")
    given = parser.parse_args()
    began = time.monotonic()
    engines = list(ENGINES) if given.engine == "both" else [given.engine]
    reports: list[Report | Raced] = []

    def show(line: str) -> None:
        print(line, flush=True)

    for engine in engines:
        if given.conversations:
            reports.append(run(Plan(engine, given.seed, given.conversations, given.turns, given.minutes), show))
            show(f"\n{reports[-1]}\n")
        if given.races:
            reports.append(race(engine, -(-given.races // len(engines)), show))
            show(f"\n{reports[-1]}\n")
    if len(engines) > 1:
        print("\n".join(map(str, reports)))
    broken = sum(len(report.broken) for report in reports)
    print(f"\n{time.monotonic() - began:,.0f} s: {f'{broken} promises were broken' if broken else 'no promise was broken'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
