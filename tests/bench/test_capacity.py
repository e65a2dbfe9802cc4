"""The simulation of docs/capacity.md agrees with the estimates below the limit of a database, and shows the queues beyond it."""

import pytest

from bench.capacity.simulation import Database, Habits, calculate_load, simulate_load

HABITS = Habits(think_s=60, steps=6, latency_s=1.0)
DATABASE = Database(parallel_appends=4, service_s=0.004)


@pytest.mark.parametrize("busy", [0.1, 0.5, 0.8])
def test_simulated_load_equals_the_arithmetic_below_limits(busy: float) -> None:
    conversations = round(busy * DATABASE.max_appends_per_s * (HABITS.think_s + HABITS.get_run_seconds(DATABASE.service_s)) / HABITS.steps)
    estimated, simulated = (
        calculate_load(conversations, HABITS, DATABASE),
        simulate_load(conversations, HABITS, DATABASE, duration_s=40, warmup_s=10),
    )
    assert estimated.utilization == pytest.approx(busy, rel=0.01)
    assert simulated.appends_per_s == pytest.approx(estimated.appends_per_s, rel=0.05)
    assert simulated.active_conversations == pytest.approx(estimated.active_conversations, rel=0.05)
    assert simulated.utilization == pytest.approx(busy, rel=0.05)


def test_appends_queue_beyond_the_limit() -> None:
    most = round(DATABASE.max_appends_per_s * (HABITS.think_s + HABITS.get_run_seconds(DATABASE.service_s)) / HABITS.steps)
    below, beyond = (simulate_load(round(share * most), HABITS, DATABASE, duration_s=20, warmup_s=20) for share in (0.8, 1.3))
    assert beyond.appends_per_s == pytest.approx(DATABASE.max_appends_per_s, rel=0.02)
    assert beyond.mean_wait_s > 100 * below.mean_wait_s


def test_two_databases_carry_twice_the_conversations() -> None:
    """The queues stay as long as with one database."""
    one, two = (simulate_load(6_000 * shards, HABITS, DATABASE, duration_s=40, warmup_s=10, shards=shards) for shards in (1, 2))
    assert two.appends_per_s == pytest.approx(2 * one.appends_per_s, rel=0.05)
    assert two.utilization == pytest.approx(one.utilization, rel=0.1)
    assert two.wait_p99_s == pytest.approx(one.wait_p99_s, rel=0.5)


def test_same_seed_gives_the_same_simulation() -> None:
    assert simulate_load(500, HABITS, DATABASE, 10, seed=3) == simulate_load(500, HABITS, DATABASE, 10, seed=3)
