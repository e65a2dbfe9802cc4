"""`make fuzz`: feed 200,000 mutated inputs to every decoder. Each must give a value or one of the decoder's own errors."""

import argparse
import sys
import time

from tests.fuzz.decoder_fuzzer import fuzz_decoder, make_targets


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--times", type=int, default=200_000, help="inputs per decoder")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failure_count = 0
    for name, target in make_targets().items():
        begun = time.monotonic()
        report = None
        for report in fuzz_decoder(target, options.times, options.seed):
            print(f"\r{name}: {report.input_count:,} tried, {report.accepted_count:,} accepted", end="", flush=True)
        assert report is not None
        refused = ", ".join(f"{count:,} {code}" for code, count in sorted(report.refusal_counts.items()))
        print(f", refused: {refused}; wrong: {len(report.failures)}; {time.monotonic() - begun:.0f} s")
        for each in report.failures[:5]:
            print("   ", each)
        failure_count += len(report.failures)
    return 1 if failure_count else 0


if __name__ == "__main__":
    sys.exit(main())
