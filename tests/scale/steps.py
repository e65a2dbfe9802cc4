"""`python -m tests.scale.steps 150`: so many handoffs in memory, for valgrind to count. `... append`: the parts of an append to SQLite."""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from legato.core.facts import Answered, AnyFact, Call, CallRef, HandedOff, Opened, Words
from legato.stores import MemoryStore, SQLiteStore
from legato.stores import sqlite_ledgers as ledgers
from legato.stores.sqlite_shorthand import shorthand
from tests.scale.measure import REPLY, Passing, ping_pong

TIMES = 2_000
NOW = 1_700_000_000_000
HANDOFF: list[AnyFact] = [
    Answered(at=NOW, agent="ann", frame="f" * 32, upto=1, items=(Words(REPLY), Call("handoff_to_bob", "{}", "call_1"))),
    HandedOff(at=NOW, call=CallRef(2, 1), source="ann", target="bob"),
]


async def handoffs(times: int) -> None:
    gc.disable()
    assert (await ping_pong(Passing(times), MemoryStore()).session("s").run("go")).text == "done: go"


async def appending(path: Path) -> None:
    async with SQLiteStore(path) as store:
        length = await store.append("s", 0, [Opened(at=NOW, ledger="l", workflow="w")], born="l")
        begun = time.process_time()
        for _ in range(TIMES):
            length = await store.append("s", length, HANDOFF, born="l")
        show("an append of two facts", begun)
    connection = ledgers.sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=NORMAL")
    bodies, row = [shorthand(fact) for fact in HANDOFF], ledgers.find(connection, "s")
    assert row is not None
    place = iter(range(0, 10**9, 2))

    def rows(entry: bool) -> None:
        connection.execute("BEGIN IMMEDIATE")
        ledgers._record(connection, 99, next(place), bodies)
        if entry:
            ledgers._save(connection, row._replace(touched=ledgers._touch()))
        connection.execute("COMMIT")

    parts: dict[str, Callable[[], object]] = {
        "its two rows alone": lambda: rows(False),
        "its two rows and the ledger's entry": lambda: rows(True),
        "finding the entry": lambda: ledgers.find(connection, "s"),
        "writing the facts in shorthand": lambda: [shorthand(fact) for fact in HANDOFF],
    }
    for what, part in parts.items():
        begun = time.process_time()
        for _ in range(TIMES):
            part()
        show(what, begun)
    connection.close()


def show(what: str, begun: float) -> None:
    print(f"{what}: {(time.process_time() - begun) / TIMES * 1e6:.0f} us")


if __name__ == "__main__":
    if sys.argv[1:] == ["append"]:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(appending(Path(folder) / "s.db"))
    else:
        asyncio.run(handoffs(int(sys.argv[1])))
