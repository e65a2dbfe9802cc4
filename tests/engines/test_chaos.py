"""Chaos in small: a sample of `make chaos`, and bugs on purpose that it must find."""

from __future__ import annotations

import pytest

from tests.chaos.mutants import RESTARTS
from tests.chaos.races import race
from tests.chaos.running import ENGINES, Plan, run

ANYWHERE = "the store appends wherever the ledger ends, whatever position was expected"
FOUND = {
    RESTARTS: "D2",
    "a model is sent the user's first message twice": "C1",
    "steps come to nothing, and say that all is well": "D4",
}
"""Each bug, and the promise that it breaks. A store that appends anywhere is for the races: chaos in small meets it by luck only."""


@pytest.mark.parametrize("engine", ENGINES)
def test_conversations_come_to_their_end_whatever_dies_and_none_is_lost_or_doubled(engine: str) -> None:
    """All promises at once, over processes that are killed: see `tests/chaos/`."""
    deck = ["worker killed", "worker stopped", "postgres killed", "server killed", "worker killed"]
    report = run(Plan(engine, seed=1, conversations=6, turns=6, minutes=2, deck=deck, rounds=1, pause=(0.3, 1.0), acts=0, durable=False))
    assert not report.broken, str(report)
    assert report.done["ended"] == 6
    assert sum(report.blows.values()) >= 3, str(report)


@pytest.mark.parametrize("engine", ENGINES)
def test_of_answers_raced_from_several_processes_exactly_one_wins_before_any_tool_starts(engine: str) -> None:
    found = race(engine, 25)
    assert not found.broken, str(found)
    assert sum(found.won.values()) == 25


def test_the_races_find_a_store_that_does_not_look_at_the_expected_position() -> None:
    assert race("restate", 10, mutant=ANYWHERE).broken


@pytest.mark.parametrize("sentence", FOUND)
def test_chaos_finds_workers_with_this_bug(sentence: str) -> None:
    deck = ["worker killed"] if sentence == RESTARTS else []
    few = {"conversations": 6, "turns": 4, "minutes": 0.4, "calm": 4.0, "pause": (0.1, 0.3), "acts": 0, "durable": False}
    report = run(Plan("restate", seed=2, deck=deck, mutant=sentence, **few))
    assert any(each.promise == FOUND[sentence] for each in report.broken), str(report)
