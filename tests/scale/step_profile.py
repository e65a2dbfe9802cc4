"""Programs for a profiler, such as valgrind: `python -m tests.scale.step_profile 150` runs 150 handoffs in memory.

`... 150 file` runs them in a SQLite file, `... 150 chat` runs turns of a chat with three tools each, in memory. `... append` measures the
parts of an append to SQLite.
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
from legato.core.codec import encode_fact
from legato.core.facts import AnyFact, Call, CallRef, HandedOff, ModelReplied, Opened, OutputText
from legato.core.view import ModelRequest
from legato.models import ModelReply
from legato.models.model import Emit
from legato.stores import MemoryStore, SQLiteStore
from legato.stores.contract import Store
from legato.stores.sqlite import ledgers
from tests.scale.size_measurements import REPLY, PassingModel, build_ping_pong

REPETITION_COUNT = 2_000
NOW_MS = 1_700_000_000_000
HANDOFF_FACTS: list[AnyFact] = [
    ModelReplied(
        at=NOW_MS, agent="ann", context_digest="f" * 32, upto=1, items=(OutputText(REPLY), Call("handoff_to_bob", "{}", "call_1"))
    ),
    HandedOff(at=NOW_MS, call=CallRef(2, 1), source="ann", target="bob"),
]


async def run_handoffs(times: int, store: Store) -> None:
    assert (await build_ping_pong(PassingModel(times), store).session("s").run("go")).text == "done: go"


class ToolCallingModel:
    """A model that calls three tools for each message, then answers."""

    name = "asking"

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        if request.groups[-1].kind == "said":
            return ModelReply(
                items=(OutputText(REPLY), *(Call(f"look_{number}", '{"key": "A-7"}', f"call_{number}") for number in range(3)))
            )
        return ModelReply(items=(OutputText(REPLY),))


async def run_chat(times: int, store: Store) -> None:
    async def look(key: str) -> str:
        return f"found {key}"

    tools = [tool(name=f"look_{number}")(look) for number in range(3)]
    session = HandoffBuilder("chat", [Agent("clerk", "You are a clerk.", ToolCallingModel(), tools)]).build().session("s", store=store)
    for _ in range(times):
        assert (await session.run("go")).text == REPLY


async def measure_appends(path: Path) -> None:
    async with SQLiteStore(path) as store:
        length = await store.append("s", 0, [Opened(at=NOW_MS, ledger_id="l", workflow="w")], ledger_id="l")
        begun = time.process_time()
        for _ in range(REPETITION_COUNT):
            length = await store.append("s", length, HANDOFF_FACTS, ledger_id="l")
        print_cost("an append of two facts", begun)
    connection = ledgers.sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=NORMAL")
    bodies, row = [encode_fact(fact) for fact in HANDOFF_FACTS], ledgers.find_row(connection, "s")
    assert row is not None
    positions = iter(range(0, 10**9, 2))

    def write_rows(entry: bool) -> None:
        connection.execute("BEGIN IMMEDIATE")
        ledgers._insert_facts(connection, 99, next(positions), bodies)
        if entry:
            ledgers._save_row(connection, row._replace(touched=ledgers._next_touch()))
        connection.execute("COMMIT")

    parts: dict[str, Callable[[], object]] = {
        "its two rows alone": lambda: write_rows(False),
        "its two rows and the ledger's entry": lambda: write_rows(True),
        "finding the entry": lambda: ledgers.find_row(connection, "s"),
        "writing the facts as JSON": lambda: [encode_fact(fact) for fact in HANDOFF_FACTS],
    }
    for name, part in parts.items():
        begun = time.process_time()
        for _ in range(REPETITION_COUNT):
            part()
        print_cost(name, begun)
    connection.close()


def print_cost(label: str, started_at: float) -> None:
    print(f"{label}: {(time.process_time() - started_at) / REPETITION_COUNT * 1e6:.0f} us")


if __name__ == "__main__":
    if sys.argv[1:] == ["append"]:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure_appends(Path(folder) / "s.db"))
    else:
        gc.disable()
        with tempfile.TemporaryDirectory() as folder:
            file = SQLiteStore(Path(folder) / "s.db") if "file" in sys.argv else MemoryStore()
            asyncio.run((run_chat if "chat" in sys.argv else run_handoffs)(int(sys.argv[1]), file))
