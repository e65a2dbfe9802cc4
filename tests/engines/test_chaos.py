"""A small sample of `make chaos`, and deliberate bugs that it must find."""

from __future__ import annotations

import pytest

from tests.chaos.answer_races import run_races
from tests.chaos.chaos_run import ENGINES, ChaosPlan, run_chaos
from tests.chaos.mutants import RESTARTS

APPENDS_ANYWHERE = "the store appends wherever the ledger ends, whatever position was expected"
BROKEN_PROMISES = {
    RESTARTS: "D2",
    "a model is sent the user's first message twice": "C1",
    "steps come to nothing, and say that all is well": "D4",
}
"""The promise that each bug breaks. A store that appends anywhere is found by the races: small chaos meets it by luck only."""


@pytest.mark.parametrize("engine", ENGINES)
def test_no_conversation_is_lost_in_chaos(engine: str) -> None:
    """All promises at once, over processes that are killed: see `tests/chaos/`."""
    deck = ["worker killed", "worker stopped", "postgres killed", "server killed", "worker killed"]
    report = run_chaos(
        ChaosPlan(
            engine,
            seed=1,
            conversations=6,
            turns=6,
            minutes=2,
            fault_kinds=deck,
            rounds=1,
            pause=(0.3, 1.0),
            min_activities=0,
            durable=False,
        )
    )
    assert not report.violations, str(report)
    assert report.event_counts["ended"] == 6
    assert sum(report.fault_counts.values()) >= 3, str(report)


@pytest.mark.parametrize("engine", ENGINES)
def test_exactly_one_raced_answer_wins(engine: str) -> None:
    """Several processes answer at once; exactly one answer wins, before any tool starts."""
    found = run_races(engine, 25)
    assert not found.violations, str(found)
    assert sum(found.wins.values()) == 25


def test_races_find_unchecked_positions() -> None:
    assert run_races("restate", 10, mutant=APPENDS_ANYWHERE).violations


@pytest.mark.parametrize("sentence", BROKEN_PROMISES)
def test_chaos_finds_buggy_workers(sentence: str) -> None:
    deck = ["worker killed"] if sentence == RESTARTS else []
    few = {
        "conversations": 6,
        "turns": 4,
        "minutes": 0.4,
        "idle_timeout_s": 4.0,
        "pause": (0.1, 0.3),
        "min_activities": 0,
        "durable": False,
    }
    report = run_chaos(ChaosPlan("restate", seed=2, fault_kinds=deck, mutant=sentence, **few))
    assert any(each.promise == BROKEN_PROMISES[sentence] for each in report.violations), str(report)
