"""Cost per step depends on what is new, not on how much there is: counted in lines of code that run, not in time."""

import asyncio

from legato.stores import SQLiteStore
from tests.scale.measure import Passing, crowd, ping_pong, said
from tests.scale.work import Lines


def test_cost_of_handoffs_is_linear(tmp_path):
    marks = []

    async def play():
        async with SQLiteStore(tmp_path / "s.db") as store:
            session = ping_pong(Passing(800, lambda: marks.append(lines.so_far)), store).session("s")
            await session.run("go")
            return said(session)

    with Lines() as lines:
        words = asyncio.run(play())
    first, last = marks[100] - marks[0], marks[800] - marks[700]
    assert last / first < 1.05
    assert (tmp_path / "s.db").stat().st_size / words <= 2


def test_cost_of_opening_is_linear(tmp_path):
    async def record(facts):
        async with SQLiteStore(tmp_path / f"{facts}.db", "process") as store:
            await ping_pong(Passing(facts // 2), store).session("s").run("go")

    async def opened(facts):
        async with SQLiteStore(tmp_path / f"{facts}.db") as store:
            await store.list()  # opening the file is not what is counted
            with Lines() as lines:
                session = await ping_pong(Passing(0), store).session("s").refresh()
            assert session.state.length >= facts
        return lines.count

    for facts in (10, 2_500, 10_000):
        asyncio.run(record(facts))
    asyncio.run(opened(10))  # what is imported at its first use is imported here
    assert asyncio.run(opened(10_000)) / asyncio.run(opened(2_500)) < 4.2


async def test_a_thousand_conversations_at_once_none_sees_anothers_words():
    assert (await crowd())["sessions"] == 1_000
