"""Measure the latency of deltas and facts between two processes, and the cost of a delta without subscribers.

`python -m tests.runtime.delta_latency`. One process drives and emits timestamps as words; this process follows. Both read one clock.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

from legato import Agent, HandoffBuilder
from legato.core.facts import OutputText
from legato.models import ModelReply
from legato.runtime import deltas
from legato.stores import MemoryStore
from legato.testing.postgres import postgres
from tests.runtime.driver_process import open_store

WORD_COUNT, PAUSE_S = 400, 0.01
DRIVE = """
import asyncio, sys
from tests.runtime.delta_latency import chat
from tests.runtime.driver_process import open_store

async def main():
    async with open_store(sys.argv[1]) as store:
        await chat(store).session("s").run("Hi")

asyncio.run(main())
"""


class TimestampModel:
    """A model whose words are the times at which they are emitted."""

    name = "stamping"

    async def reply(self, request: Any, emit: Any) -> ModelReply:
        timestamps = []
        for _ in range(WORD_COUNT):
            timestamps.append(f"{time.time():.6f} ")
            emit(timestamps[-1])
            await asyncio.sleep(PAUSE_S)
        return ModelReply(items=(OutputText("".join(timestamps)),))


def chat(store: Any) -> Any:
    return HandoffBuilder("chat", [Agent("a", model=TimestampModel())]).with_checkpointing(store).build()


async def measure_latencies(location: str) -> tuple[list[float], list[float]]:
    """Return the seconds that each word and each fact took; no words if the store sends no deltas."""
    words: list[float] = []
    facts: list[tuple[float, int]] = []
    async with open_store(location) as store:
        session = chat(store).session("s")
        driving = subprocess.Popen([sys.executable, "-c", DRIVE, location])
        async with aclosing(session.follow(until_idle=True)) as events:
            async for event in events:
                if event.type == "output" and event.data.delta:
                    words += [time.time() - float(word) for word in event.data.text.split()]
                elif event.cursor:
                    facts.append((time.time(), event.position))
        driving.wait()
        ledger = (await session.refresh()).facts
    return words, [received_at - ledger[position].at / 1000 for received_at, position in facts]


def measure_unheard_delta() -> float:
    """Return the microseconds that a delta without subscribers takes."""
    session = chat(MemoryStore()).session("s")
    publisher = deltas.DeltaPublisher(session._ledger)
    started = time.perf_counter()
    for _ in range(200_000):
        publisher.publish("a", 1, "word ")
    return (time.perf_counter() - started) * 5


def main() -> None:
    print(f"a delta without subscribers: {measure_unheard_delta():.2f} microseconds")
    with tempfile.TemporaryDirectory() as folder, postgres() as dsn:
        for name, location in (("SQLite", str(Path(folder) / "s.db")), ("Postgres", dsn)):
            words, facts = asyncio.run(measure_latencies(location))
            for name_of, seconds in ((f"{len(words)} of {WORD_COUNT} words", words), ("facts", facts)):
                if seconds:
                    parts = statistics.quantiles(seconds, n=100)
                    print(f"{name}: {name_of}, milliseconds: median {parts[49] * 1000:.1f}, 99 % {parts[98] * 1000:.1f}")


if __name__ == "__main__":
    main()
