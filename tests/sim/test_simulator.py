"""Random workflows under random schedules keep every promise (C1, C2, C3, C6, D1, D2, D3, D4, D6, S2).

`make sim` simulates a million.
"""

from __future__ import annotations

import asyncio
import gc

import pytest

from legato import Agent, HandoffBuilder, testing, tool
from legato.testing import ScriptedModel
from legato.testing.simulated_event_loop import Deadlock, SimulatedLoop, StepLimitExceeded, Timeline
from tests.sim.administered_simulator import AdministeredReport, simulate_administered
from tests.sim.mutants import apply_mutant
from tests.sim.random_workflows import SEEDS_PER_WORKFLOW, make_random_workflow

SCHEDULE_COUNT = 1_000
"""The number of schedules for each first seed."""


@pytest.mark.parametrize("first", [0, 500_000], ids=["the first seeds", "later seeds"])
def test_random_schedules_keep_every_promise(first: int, capsys: pytest.CaptureFixture[str]) -> None:
    report = AdministeredReport()
    for seed in range(first, first + SCHEDULE_COUNT, SEEDS_PER_WORKFLOW):
        report.add(simulate_administered(make_random_workflow, range(seed, seed + SEEDS_PER_WORKFLOW)))
    with capsys.disabled():
        print(f"\n  {report}", end="")
    assert report.violations == []
    assert report.distinct_schedules > report.schedules * 0.7
    assert report.deaths > report.schedules / 10


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1_057_035, id="request of a deleted session, with redacted text"),
        pytest.param(5_342, id="child session that started while its parent was exported"),
        pytest.param(6_067_037, id="tool that ran after its moved session was deleted"),
        pytest.param(6_067_316, id="session retired without archive while an older copy was restored"),
        pytest.param(6_069_596, id="session retired without archive that had an older copy"),
        pytest.param(6_208_035, id="agent resumed as its task is redacted"),
        pytest.param(6_233_308, id="store copied just as an answer two levels below is processed"),
        pytest.param(6_338_692, id="second redaction in a target that is ahead"),
        pytest.param(6_454_160, id="copy of a call whose lost attempt had returned late, superseded"),
        pytest.param(9_031_549, id="moved fork whose missing child session was started again"),
        pytest.param(9_023_876, id="request of a deleted session, whose successor begins with the same message"),
        pytest.param(6_456_926, id="copy of a fork, killed before a decision was copied"),
        pytest.param(6_211_325, id="session that got a message while it was half copied"),
        pytest.param(20_763_219, id="usage report of a driver that lost its lease"),
        pytest.param(60_633_884, id="fork restored just as the session that it shares facts with is redacted"),
        pytest.param(60_176_572, id="session archived and restored below a driver without its lease"),
        pytest.param(60_006_914, id="fork whose child session had used less than was reported"),
        pytest.param(20_863_829, id="attempt without a child session that paused since"),
        pytest.param(40_259_014, id="text erased in a fork of an archived session"),
    ],
)
def test_schedule_that_failed_keeps_every_promise(seed: int) -> None:
    """Schedules that once showed a bug; the id names its circumstances."""
    assert simulate_administered(make_random_workflow, [seed]).violations == []


def test_schedule_is_reproduced_from_seed() -> None:
    for seed in (3, 487, 4327):
        first, second = (simulate_administered(make_random_workflow, [seed], trace=True) for _ in range(2))
        assert first.trace == second.trace
        assert first.trace_digests == second.trace_digests


def test_own_workflow_runs_without_real_tools() -> None:
    @tool(needs_approval=True)
    async def launch(code: int) -> str:
        raise SystemExit("the real tool ran")

    model = ScriptedModel([])
    desk = HandoffBuilder("desk", [Agent("triage", model=model), Agent("rockets", model=model, tools=[launch])]).build()
    report = testing.simulate(desk, range(300))
    assert report.violations == []
    assert report.tool_executions > 30
    assert model.requests == []


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "mutant",
    [
        "the receiving agent gets the user's messages twice",
        "other agents' tool outputs are dropped at a handoff",
        "of an append of several facts the last is acknowledged and not written",
        "a tool that is not idempotent is started again after its attempt was lost",
        "a standing approval of one agent's tool holds for all agents",
    ],
)
def test_public_simulator_finds_mutants(mutant: str) -> None:
    """`legato.testing.simulate` has no administrators; test_mutants.py has more mutants, for the simulator with administrators."""
    try:
        with apply_mutant(mutant):
            assert testing.simulate(make_random_workflow, range(1000), max_violations=1).violations
    finally:
        gc.collect()  # in this test, which ignores its warnings
    assert testing.simulate(make_random_workflow, range(20)).violations == []


def test_schedules_differ_between_seeds() -> None:
    """Time is virtual, and the order of tasks depends on the seed alone."""

    def find_task_order(seed: int) -> list[int]:
        order: list[int] = []

        async def run_task(number: int) -> None:
            await asyncio.sleep(0)
            order.append(number)

        async def run_tasks() -> None:
            await asyncio.gather(*(run_task(number) for number in range(6)))

        SimulatedLoop(Timeline(seed)).run_until_complete(run_tasks())
        return order

    assert find_task_order(1) == find_task_order(1)
    assert len({tuple(find_task_order(seed)) for seed in range(20)}) > 10


def test_waiting_without_timer_is_deadlock() -> None:
    loop = SimulatedLoop(Timeline(1))

    async def forever() -> None:
        await loop.create_future()

    with pytest.raises(Deadlock, match="no task can ever continue"):
        loop.run_until_complete(forever())
    loop.discard_tasks()


def test_endless_task_can_be_discarded() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110 - it must never end
            await asyncio.sleep(0)

    loop = SimulatedLoop(Timeline(1))
    task = loop.create_task(spin())
    with pytest.raises(StepLimitExceeded, match="after 20 steps"):
        loop.timeline.run(lambda: False, 20)
    loop.discard_tasks()
    assert task.cancelled()
