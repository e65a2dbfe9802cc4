"""`python -m tests.scale.steps 150`: so many handoffs in memory, for valgrind to count; `... 150 file`: in a SQLite file; `... 150 chat`:
turns of a chat with three tools in each, in memory. `... append`: the parts of an append to SQLite.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from legato import Agent, HandoffBuilder, tool
from legato.core.codec import encode
from legato.core.facts import AnyFact, Call, CallRef, HandedOff, ModelReplied, Opened, Words
from legato.core.view import Request
from legato.models import Reply
from legato.models.base import Emit
from legato.stores import MemoryStore, SQLiteStore
from legato.stores import sqlite_ledgers as ledgers
from legato.stores.contract import Store
from tests.scale.measure import REPLY, Passing, ping_pong

TIMES = 2_000
NOW = 1_700_000_000_000
HANDOFF: list[AnyFact] = [
    ModelReplied(at=NOW, agent="ann", frame="f" * 32, upto=1, items=(Words(REPLY), Call("handoff_to_bob", "{}", "call_1"))),
    HandedOff(at=NOW, call=CallRef(2, 1), source="ann", target="bob"),
]


async def handoffs(times: int, store: Store) -> None:
    assert (await ping_pong(Passing(times), store).session("s").run("go")).text == "done: go"


class Asking:
    """Calls three tools for each message, then answers."""

    name = "asking"

    async def reply(self, request: Request, emit: Emit) -> Reply:
        if request.groups[-1].kind == "said":
            return Reply(items=(Words(REPLY), *(Call(f"look_{number}", '{"key": "A-7"}', f"call_{number}") for number in range(3))))
        return Reply(items=(Words(REPLY),))


async def chat(times: int, store: Store) -> None:
    async def look(key: str) -> str:
        return f"found {key}"

    tools = [tool(name=f"look_{number}")(look) for number in range(3)]
    session = HandoffBuilder("chat", [Agent("clerk", "You are a clerk.", Asking(), tools)]).build().session("s", store=store)
    for _ in range(times):
        assert (await session.run("go")).text == REPLY


async def appending(path: Path) -> None:
    async with SQLiteStore(path) as store:
        length = await store.append("s", 0, [Opened(at=NOW, ledger="l", workflow="w")], born="l")
        begun = time.process_time()
        for _ in range(TIMES):
            length = await store.append("s", length, HANDOFF, born="l")
        show("an append of two facts", begun)
    connection = ledgers.sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=NORMAL")
    bodies, row = [encode(fact) for fact in HANDOFF], ledgers.find(connection, "s")
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
        "writing the facts as JSON": lambda: [encode(fact) for fact in HANDOFF],
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
        gc.disable()
        with tempfile.TemporaryDirectory() as folder:
            file = SQLiteStore(Path(folder) / "s.db") if "file" in sys.argv else MemoryStore()
            asyncio.run((chat if "chat" in sys.argv else handoffs)(int(sys.argv[1]), file))
