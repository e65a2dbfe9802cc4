"""The comparison of engines: what its bare loop appends is what a conversation appends, and its table says what was measured."""

from __future__ import annotations

from pathlib import Path

from bench.engines.__main__ import AT_ONCE, NAMES, TURNS, Figures, System, bare, driven, measured, table
from bench.engines.bare import BarePostgres, BareSQLite, appends_of
from bench.engines.desk import desk
from bench.workloads import QUESTION
from legato.core.codec import encode_fact
from legato.stores import MemoryStore


async def test_bare_loop_appends_the_same_facts() -> None:
    """The bare loop appends the facts of a conversation with tools."""
    turns = await appends_of(TURNS)
    session = desk.session(store=MemoryStore())
    for _ in range(TURNS):
        await session.run(QUESTION)
    bodies = [body for turn in turns for append in turn for body in append.bodies if body.startswith(b'{"fact"')]
    assert len(bodies) == len(session.facts)
    assert abs(sum(map(len, bodies)) - sum(len(encode_fact(fact)) for fact in session.facts)) < 200  # names and times differ
    assert sum(append.durable for turn in turns for append in turn) == TURNS  # three tools start together in each


async def test_every_row_without_an_engine_can_be_measured(tmp_path: Path, database: str) -> None:
    turns = await appends_of(TURNS)
    file, server = BareSQLite(tmp_path / "bare.sqlite"), await BarePostgres.on(database, AT_ONCE)
    for begin in (bare(file, turns), bare(server, turns), driven(MemoryStore())):
        assert (await measured(System(begin), 0.05)).per_second > 0
    await file.close()
    await server.close()


def test_table_rows_are_ratios_to_the_bare_loop() -> None:
    """Each row is compared with the bare loop on the same database."""
    found = {name: [Figures(100 / (index + 1), index + 1, index + 1, 0, 0)] for index, name in enumerate(NAMES)}
    rows = [line.split(" | ") for line in table(found).splitlines()[2:]]
    assert [row[0].removeprefix("| ") for row in rows] == list(NAMES)
    assert [row[2] for row in rows] == ["1", "2.0", "1", "1.3", "1.7", "2.0"]
    assert [row[4] for row in rows] == ["1", "2.0", "1", "1.3", "1.7", "2.0"]
