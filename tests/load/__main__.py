"""`make load`: 200 streams at once, and the cost of one request compared with a server that does nothing.

The bare server is Starlette on uvicorn, and answers with the same bytes in the same pieces. The same client requests both in turns, so
that the ratio comes from one run. The client is another process: it shares no interpreter lock with the server.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from legato.emulator import serve
from tests.load.bare_server import serve_bare


def main() -> int:
    parser = argparse.ArgumentParser(prog="make load", description=__doc__)
    parser.add_argument("--streams", type=int, default=200, help="number of concurrent streams")
    parser.add_argument("--requests", type=int, default=400, help="number of consecutive requests, for the ratio")
    options = parser.parse_args()
    with serve(max_exchanges=10) as emulator, serve_bare(emulator.openai_url) as bare:
        report = run_client("streams", emulator.openai_url, options.streams)
        print(f"{options.streams} streams at once: {report['whole']} whole, {report['failed']} failed, {report['seconds']:.1f} s")
        has_failed = report["whole"] != options.streams
        for mode in ("whole", "streamed"):
            ours, theirs = [], []
            for _ in range(3):
                ours.append(run_client(mode, emulator.openai_url, options.requests)["each"])
                theirs.append(run_client(mode, bare, options.requests)["each"])
            a, b = sorted(ours)[1], sorted(theirs)[1]
            print(f"one request {mode}: {a * 1000:.2f} ms, the bare server {b * 1000:.2f} ms, ratio {a / b:.2f}")
    return 1 if has_failed else 0


def run_client(mode: str, url: str, count: int) -> dict[str, float]:
    """Run the client in a process of its own; return its report."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.load.load_client", mode, url, str(count)], capture_output=True, text=True, check=True
    )
    report: dict[str, float] = json.loads(done.stdout)
    return report


if __name__ == "__main__":
    sys.exit(main())
