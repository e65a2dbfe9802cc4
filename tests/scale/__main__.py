"""`make scale`: measure the cost of size, and how long each hostile input stalls the event loop. Names select hostile inputs."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.scale import hostile_inputs
from tests.scale.size_measurements import measure_concurrent_sessions, measure_handoffs, measure_opening


def print_figures(label: str, figures: dict[str, float]) -> None:
    print(f"{label}: " + ", ".join(f"{name} {value:,.2f}" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    if not sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            print_figures("800 handoffs in one run on SQLite", asyncio.run(measure_handoffs(Path(folder) / "handoffs.db")))
            print_figures("opening 10,000 facts from SQLite", asyncio.run(measure_opening(Path(folder) / "opening.db")))
            print_figures("1,000 sessions at once, ten handoffs each", asyncio.run(measure_concurrent_sessions()))
    hostile_inputs.main(sys.argv[1:])
