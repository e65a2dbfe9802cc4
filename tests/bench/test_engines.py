"""The comparison of engines: its bare loop appends the facts of a conversation, and its table shows the measured ratios."""

from __future__ import annotations

from pathlib import Path

from bench.engines.__main__ import (
    CONCURRENT_CONVERSATIONS,
    SYSTEM_NAMES,
    TURNS_PER_CONVERSATION,
    EngineFigures,
    MeasuredSystem,
    measure_system,
    render_table,
    run_bare_loop,
    run_in_process,
)
from bench.engines.bare_loop import BarePostgres, BareSQLite, record_appends
from bench.engines.desk import desk
from bench.workloads import QUESTION
from legato.core.codec import encode_fact
from legato.stores import MemoryStore


async def test_bare_loop_appends_the_same_facts() -> None:
    """The bare loop appends the facts of a conversation with tools."""
    turns = await record_appends(TURNS_PER_CONVERSATION)
    session = desk.session(store=MemoryStore())
    for _ in range(TURNS_PER_CONVERSATION):
        await session.run(QUESTION)
    bodies = [body for turn in turns for append in turn for body in append.bodies if body.startswith(b'{"fact"')]
    assert len(bodies) == len(session.facts)
    assert abs(sum(map(len, bodies)) - sum(len(encode_fact(fact)) for fact in session.facts)) < 200  # names and times differ
    assert sum(append.is_durable for turn in turns for append in turn) == TURNS_PER_CONVERSATION  # three tools start together in each


async def test_rows_without_engine_can_be_measured(tmp_path: Path, database: str) -> None:
    turns = await record_appends(TURNS_PER_CONVERSATION)
    file, server = BareSQLite(tmp_path / "bare.sqlite"), await BarePostgres.connect(database, CONCURRENT_CONVERSATIONS)
    for begin in (run_bare_loop(file, turns), run_bare_loop(server, turns), run_in_process(MemoryStore())):
        assert (await measure_system(MeasuredSystem(begin), 0.05)).per_second > 0
    await file.close()
    await server.close()


def test_table_rows_are_ratios_to_the_bare_loop() -> None:
    """Each row is compared with the bare loop on the same database."""
    found = {name: [EngineFigures(100 / (index + 1), index + 1, index + 1, 0, 0)] for index, name in enumerate(SYSTEM_NAMES)}
    rows = [line.split(" | ") for line in render_table(found).splitlines()[2:]]
    assert [row[0].removeprefix("| ") for row in rows] == list(SYSTEM_NAMES)
    assert [row[2] for row in rows] == ["1", "2.0", "1", "1.3", "1.7", "2.0"]
    assert [row[4] for row in rows] == ["1", "2.0", "1", "1.3", "1.7", "2.0"]
