"""How long words and facts take from one process to another, and what words cost that nobody hears: `python -m tests.streaming`.

A process drives and writes down when it said each word; this one follows. Both are on one machine and read one clock.
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
from legato.core.facts import Words
from legato.models import Reply
from legato.runtime import deltas
from legato.stores import MemoryStore
from legato.testing.postgres import postgres
from tests.streaming.machines import opened

WORDS, PAUSE = 400, 0.01
DRIVE = """
import asyncio, sys
from tests.streaming.__main__ import chat
from tests.streaming.machines import opened

async def main():
    async with opened(sys.argv[1]) as store:
        await chat(store).session("s").run("Hi")

asyncio.run(main())
"""


class Stamping:
    """Every word is the time at which it is said."""

    name = "stamping"

    async def reply(self, request: Any, emit: Any) -> Reply:
        said = []
        for _ in range(WORDS):
            said.append(f"{time.time():.6f} ")
            emit(said[-1])
            await asyncio.sleep(PAUSE)
        return Reply(items=(Words("".join(said)),))


def chat(store: Any) -> Any:
    return HandoffBuilder("chat", [Agent("a", model=Stamping())]).with_checkpointing(store).build()


async def latencies(where: str) -> tuple[list[float], list[float]]:
    """Seconds that each word and each fact took; no words where they come whole."""
    words: list[float] = []
    facts: list[tuple[float, int]] = []
    async with opened(where) as store:
        session = chat(store).session("s")
        driving = subprocess.Popen([sys.executable, "-c", DRIVE, where])
        async with aclosing(session.follow(until_rest=True)) as events:
            async for event in events:
                if event.type == "output" and event.data.delta:
                    words += [time.time() - float(word) for word in event.data.text.split()]
                elif event.cursor:
                    facts.append((time.time(), event.position))
        driving.wait()
        recorded = (await session.refresh()).facts
    return words, [came - recorded[position].at / 1000 for came, position in facts]


def unheard() -> float:
    """Microseconds for a piece that nobody listens to."""
    session = chat(MemoryStore()).session("s")
    speaks = deltas.Voice(session._ledger)
    begun = time.perf_counter()
    for _ in range(200_000):
        speaks.say("a", 1, "word ")
    return (time.perf_counter() - begun) * 5


def main() -> None:
    print(f"a piece that nobody listens to: {unheard():.2f} microseconds")
    with tempfile.TemporaryDirectory() as folder, postgres() as dsn:
        for name, where in (("SQLite", str(Path(folder) / "s.db")), ("Postgres", dsn)):
            words, facts = asyncio.run(latencies(where))
            for what, took in ((f"{len(words)} of {WORDS} words", words), ("facts", facts)):
                if took:
                    parts = statistics.quantiles(took, n=100)
                    print(f"{name}: {what}, milliseconds: median {parts[49] * 1000:.1f}, 99 % {parts[98] * 1000:.1f}")


if __name__ == "__main__":
    main()
