"""The cost of a step depends on the new facts, not on their total: counted in lines of code that run, not in time."""

import asyncio

from legato.stores import SQLiteStore
from tests.scale.size_measurements import PassingModel, build_ping_pong, count_conversation_bytes, measure_concurrent_sessions
from tests.scale.work_counters import LineCounter


def test_cost_of_handoffs_is_linear(tmp_path):
    marks = []

    async def run():
        async with SQLiteStore(tmp_path / "s.db") as store:
            session = build_ping_pong(PassingModel(800, lambda: marks.append(lines.current_count)), store).session("s")
            await session.run("go")
            return count_conversation_bytes(session)

    with LineCounter() as lines:
        text_bytes = asyncio.run(run())
    first, last = marks[100] - marks[0], marks[800] - marks[700]
    assert last / first < 1.05
    assert (tmp_path / "s.db").stat().st_size / text_bytes <= 2


def test_cost_of_opening_is_linear(tmp_path):
    async def record(facts):
        async with SQLiteStore(tmp_path / f"{facts}.db", "process") as store:
            await build_ping_pong(PassingModel(facts // 2), store).session("s").run("go")

    async def count_opening_lines(facts):
        async with SQLiteStore(tmp_path / f"{facts}.db") as store:
            await store.list()  # opening the file is not counted
            with LineCounter() as lines:
                session = await build_ping_pong(PassingModel(0), store).session("s").refresh()
            assert session.state.length >= facts
        return lines.count

    for facts in (10, 2_500, 10_000):
        asyncio.run(record(facts))
    asyncio.run(count_opening_lines(10))  # so that imports of the first use are not counted
    assert asyncio.run(count_opening_lines(10_000)) / asyncio.run(count_opening_lines(2_500)) < 4.2


async def test_concurrent_sessions_keep_their_own_messages():
    assert (await measure_concurrent_sessions())["sessions"] == 1_000
