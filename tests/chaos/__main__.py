"""`make chaos`: conversations on Postgres over real engines, while workers and servers are killed, stopped and started again.

python -m tests.chaos                                both engines: 200 conversations of 20 turns each, then 1,000 races
python -m tests.chaos --engine restate --seed 7      one engine, with another seed
python -m tests.chaos --conversations 20 --races 50  a small run
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.chaos.answer_races import RaceReport, run_races
from tests.chaos.chaos_run import ENGINES, ChaosPlan, ChaosReport, run_chaos


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", choices=[*ENGINES, "both"], default="both")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=12.0, help="for each engine; conversations that have not ended then count as lost")
    parser.add_argument("--races", type=int, default=1_000, help="raced answers, over all engines together")
    arguments = parser.parse_args()
    started_at = time.monotonic()
    engines = list(ENGINES) if arguments.engine == "both" else [arguments.engine]
    reports: list[ChaosReport | RaceReport] = []

    def show(line: str) -> None:
        print(line, flush=True)

    for engine in engines:
        if arguments.conversations:
            reports.append(run_chaos(ChaosPlan(engine, arguments.seed, arguments.conversations, arguments.turns, arguments.minutes), show))
            show(f"\n{reports[-1]}\n")
        if arguments.races:
            reports.append(run_races(engine, -(-arguments.races // len(engines)), show))
            show(f"\n{reports[-1]}\n")
    if len(engines) > 1:
        print("\n".join(map(str, reports)))
    violation_count = sum(len(report.violations) for report in reports)
    summary = f"{violation_count} promises were broken" if violation_count else "no promise was broken"
    print(f"\n{time.monotonic() - started_at:,.0f} s: {summary}")
    return 1 if violation_count else 0


if __name__ == "__main__":
    sys.exit(main())
