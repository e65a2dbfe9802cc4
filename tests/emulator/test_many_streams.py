"""Two hundred streams at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from legato.emulator import serve

ROOT = Path(__file__).parents[2]
STREAMS = 200


def test_two_hundred_streams_at_once_are_all_read_to_their_end() -> None:
    # The client is another process, so that it shares no interpreter with the server.
    with serve(keep=STREAMS) as emulator:
        command = [sys.executable, "-m", "tests.load.client", "streams", emulator.openai_url, str(STREAMS)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True, timeout=120)
        told = json.loads(done.stdout)
        assert (told["whole"], told["failed"]) == (STREAMS, 0)
        assert emulator.summary() == f"{STREAMS} requests: 200 x{STREAMS}"
        assert all(exchange.whole for exchange in emulator.exchanges)
