"""The simulation behind docs/capacity.md: it agrees with the arithmetic where that holds, and shows where it ends."""

import pytest

from bench.capacity.simulation import Database, Habits, expected, simulate

HABITS = Habits(think=60, steps=6, latency=1.0)
DATABASE = Database(at_once=4, service=0.004)


@pytest.mark.parametrize("busy", [0.1, 0.5, 0.8])
def test_simulated_load_equals_the_arithmetic_below_limits(busy: float) -> None:
    conversations = round(busy * DATABASE.most * (HABITS.think + HABITS.run(DATABASE.service)) / HABITS.steps)
    told, seen = expected(conversations, HABITS, DATABASE), simulate(conversations, HABITS, DATABASE, seconds=40, warm=10)
    assert told.busy == pytest.approx(busy, rel=0.01)
    assert seen.appends == pytest.approx(told.appends, rel=0.05)
    assert seen.active == pytest.approx(told.active, rel=0.05)
    assert seen.busy == pytest.approx(busy, rel=0.05)


def test_appends_queue_beyond_the_limit() -> None:
    most = round(DATABASE.most * (HABITS.think + HABITS.run(DATABASE.service)) / HABITS.steps)
    below, beyond = (simulate(round(share * most), HABITS, DATABASE, seconds=20, warm=20) for share in (0.8, 1.3))
    assert beyond.appends == pytest.approx(DATABASE.most, rel=0.02)
    assert beyond.wait > 100 * below.wait


def test_two_databases_carry_twice_the_conversations() -> None:
    """The queues stay as long as with one database."""
    one, two = (simulate(6_000 * shards, HABITS, DATABASE, seconds=40, warm=10, shards=shards) for shards in (1, 2))
    assert two.appends == pytest.approx(2 * one.appends, rel=0.05)
    assert two.busy == pytest.approx(one.busy, rel=0.1)
    assert two.wait_99 == pytest.approx(one.wait_99, rel=0.5)


def test_same_seed_gives_the_same_simulation() -> None:
    assert simulate(500, HABITS, DATABASE, 10, seed=3) == simulate(500, HABITS, DATABASE, 10, seed=3)
