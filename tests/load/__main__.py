"""`make load`: 200 streams at once, and what one request costs next to a server that does nothing.

The bare server is Starlette on uvicorn, answering the same bytes in the same pieces; both are asked by the same client in turns, so
the ratio is of two measurements in one run. The client is another process: it shares no interpreter lock with the server.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from legato.emulator import serve
from tests.load.bare import serve_bare


def main() -> int:
    parser = argparse.ArgumentParser(prog="make load", description=__doc__)
    parser.add_argument("--streams", type=int, default=200, help="how many at once")
    parser.add_argument("--requests", type=int, default=400, help="how many one after another, for the ratio")
    given = parser.parse_args()
    with serve(max_exchanges=10) as emulator, serve_bare(emulator.openai_url) as bare:
        at_once = client("streams", emulator.openai_url, given.streams)
        print(f"{given.streams} streams at once: {at_once['whole']} whole, {at_once['failed']} failed, {at_once['seconds']:.1f} s")
        wrong = at_once["whole"] != given.streams
        for how in ("whole", "streamed"):
            ours, theirs = [], []
            for _ in range(3):
                ours.append(client(how, emulator.openai_url, given.requests)["each"])
                theirs.append(client(how, bare, given.requests)["each"])
            a, b = sorted(ours)[1], sorted(theirs)[1]
            print(f"one request {how}: {a * 1000:.2f} ms, the bare server {b * 1000:.2f} ms, ratio {a / b:.2f}")
    return 1 if wrong else 0


def client(what: str, url: str, count: int) -> dict[str, float]:
    """Run the client in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "tests.load.client", what, url, str(count)], capture_output=True, text=True, check=True)
    told: dict[str, float] = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    sys.exit(main())
