"""`make scale`: what size costs, and how long each hostile input holds the event loop, measured now. Names choose hostile inputs."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.scale import hostile
from tests.scale.measure import crowd, handoffs, opening


def show(what: str, figures: dict[str, float]) -> None:
    print(f"{what}: " + ", ".join(f"{name} {value:,.2f}" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    if not sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            show("800 handoffs in one run on SQLite", asyncio.run(handoffs(Path(folder) / "handoffs.db")))
            show("opening 10,000 facts from SQLite", asyncio.run(opening(Path(folder) / "opening.db")))
            show("1,000 sessions at once, ten handoffs each", asyncio.run(crowd()))
    hostile.main(sys.argv[1:])
