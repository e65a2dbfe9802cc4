"""`make fuzz`: 200,000 mutated inputs to every decoder; each gives a value or the decoder's own error, and nothing else."""

import argparse
import sys
import time

from tests.fuzz.hostile import attack, targets


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--times", type=int, default=200_000, help="inputs per decoder")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    wrong = 0
    for name, target in targets().items():
        begun = time.monotonic()
        findings = None
        for findings in attack(target, given.times, given.seed):
            print(f"\r{name}: {findings.tried:,} tried, {findings.accepted:,} accepted", end="", flush=True)
        assert findings is not None
        refused = ", ".join(f"{count:,} {code}" for code, count in sorted(findings.refused.items()))
        print(f", refused: {refused}; wrong: {len(findings.wrong)}; {time.monotonic() - begun:.0f} s")
        for each in findings.wrong[:5]:
            print("   ", each)
        wrong += len(findings.wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
