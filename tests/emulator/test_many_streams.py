"""Two hundred concurrent streams."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from legato.emulator import serve

ROOT = Path(__file__).parents[2]
STREAMS = 200


def test_two_hundred_concurrent_streams_are_complete() -> None:
    # The client is another process, so that it shares no interpreter with the server.
    with serve(max_exchanges=STREAMS) as emulator:
        command = [sys.executable, "-m", "tests.load.load_client", "streams", emulator.openai_url, str(STREAMS)]
        process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True, timeout=120)
        result = json.loads(process.stdout)
        assert (result["whole"], result["failed"]) == (STREAMS, 0)
        assert emulator.summary() == f"{STREAMS} requests: 200 x{STREAMS}"
        assert all(exchange.is_complete for exchange in emulator.exchanges)
