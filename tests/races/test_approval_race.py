"""Promise D3: two processes approve one request at the same time. One wins, and the tool runs once."""

import multiprocessing

import pytest

from legato.core.facts import CallStarted, Decided
from tests.races.desk import approve_all, build_desk, open_store

TIMES = 200


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_approval_from_two_processes_runs_tool_once(kind, tmp_path, request):
    book = tmp_path / "book"
    database = str(tmp_path / "desk.db") if kind == "sqlite" else request.getfixturevalue("database")
    store = open_store(database)
    desk = build_desk(book, store)
    for number in range(TIMES):
        result = await desk.session(f"s{number}").run(f"order-{number}")
        assert result.status == "pending"

    processes = multiprocessing.get_context("spawn")
    together = processes.Barrier(2)
    results = [tmp_path / "first", tmp_path / "second"]
    racers = [processes.Process(target=approve_all, args=(database, book, TIMES, together, result)) for result in results]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0

    (won, lost), (also_won, also_lost) = ([int(number) for number in result.read_text().split()] for result in results)
    assert (won + also_won, lost + also_lost) == (TIMES, TIMES), "each approval wins once and loses once"
    assert sorted(book.read_text().split()) == sorted(f"order-{number}" for number in range(TIMES)), "each order is paid once"
    for number in range(TIMES):
        facts = await store.read(f"s{number}")
        assert sum(isinstance(fact, Decided) for fact in facts) == sum(isinstance(fact, CallStarted) for fact in facts) == 1
    await store.close()
