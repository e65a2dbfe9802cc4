"""Random workflows under random schedules (C1, C2, C3, C6, D1, D2, D3, D4, D6, S2), every promise checked.

`make sim` plays a million.
"""

from __future__ import annotations

import asyncio
import gc

import pytest

from legato import Agent, HandoffBuilder, testing, tool
from legato.testing import ScriptedModel
from legato.testing.loop import Deadlock, Endless, SimulatedLoop, Timeline
from tests.sim.administration import AdministeredReport, simulate
from tests.sim.mutants import applied
from tests.sim.workflows import SEEDS_EACH, random_workflow

SCHEDULES = 1_000  # in each of the two parts


@pytest.mark.parametrize("first", [0, 500_000], ids=["the first seeds", "later seeds"])
def test_random_workflows_under_random_schedules_keep_every_promise(first: int, capsys: pytest.CaptureFixture[str]) -> None:
    report = AdministeredReport()
    for seed in range(first, first + SCHEDULES, SEEDS_EACH):
        report.add(simulate(random_workflow, range(seed, seed + SEEDS_EACH)))
    with capsys.disabled():
        print(f"\n  {report}", end="")
    assert report.violations == []
    assert report.distinct > report.schedules * 0.7
    assert report.deaths > report.schedules / 10


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1_057_035, id="request of a deleted session, with erased words"),
        pytest.param(5_342, id="child session that began while its parent was written as text"),
        pytest.param(6_067_037, id="tool that ran after its moved session was deleted"),
        pytest.param(6_067_316, id="session retired for good while an older copy of it came back"),
        pytest.param(6_069_596, id="session retired for good that had an older copy"),
        pytest.param(6_208_035, id="agent resumed as its task is erased"),
        pytest.param(6_233_308, id="store copied just as an answer two levels below is gone on with"),
        pytest.param(6_338_692, id="erased again in a target that is ahead"),
        pytest.param(6_454_160, id="copy of a call whose lost attempt had returned late, superseded"),
        pytest.param(9_031_549, id="moved fork whose missing child session people had begun anew"),
        pytest.param(9_023_876, id="request of a deleted session, whose next one begins with the same words"),
        pytest.param(6_456_926, id="copy of a fork, killed before what a person had decided"),
        pytest.param(6_211_325, id="session that was said more to while it was half copied"),
    ],
)
def test_schedule_that_failed_keeps_every_promise(seed: int) -> None:
    assert simulate(random_workflow, [seed]).violations == []


def test_a_schedule_is_the_same_every_time_it_is_played() -> None:
    for seed in (3, 487, 4327):
        first, second = (simulate(random_workflow, [seed], trace=True) for _ in range(2))
        assert first.story == second.story
        assert first.traces == second.traces


def test_a_workflow_of_ones_own_is_simulated_and_its_tools_do_not_really_run() -> None:
    @tool(needs_approval=True)
    async def launch(code: int) -> str:
        raise SystemExit("it ran")

    model = ScriptedModel([])
    desk = HandoffBuilder("desk", [Agent("triage", model=model), Agent("rockets", model=model, tools=[launch])]).build()
    report = testing.simulate(desk, range(300))
    assert report.violations == []
    assert report.deeds > 30
    assert model.requests == []


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "sentence",
    [
        "the receiving agent gets the user's messages twice",
        "other agents' tool outputs are dropped at a handoff",
        "of an append of several facts the last is acknowledged and not written",
        "a tool that is not idempotent is started again after its attempt was lost",
        "a standing approval of one agent's tool holds for all agents",
    ],
)
def test_the_simulator_of_users_finds_this_bug(sentence: str) -> None:
    """It has no administrators; test_mutants.py shows more bugs to the one that has."""
    try:
        with applied(sentence):
            assert testing.simulate(random_workflow, range(1000), stop_at=1).violations
    finally:
        gc.collect()  # here, where its warnings are ignored
    assert testing.simulate(random_workflow, range(20)).violations == []


def test_time_is_virtual_and_schedules_differ_by_seed() -> None:
    def order(seed: int) -> list[int]:
        came: list[int] = []

        async def one(number: int) -> None:
            await asyncio.sleep(0)
            came.append(number)

        async def all_of_them() -> None:
            await asyncio.gather(*(one(number) for number in range(6)))

        SimulatedLoop(Timeline(seed)).run_until_complete(all_of_them())
        return came

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(20)}) > 10


def test_what_nobody_will_ever_wake_is_a_deadlock() -> None:
    loop = SimulatedLoop(Timeline(1))

    async def forever() -> None:
        await loop.create_future()

    with pytest.raises(Deadlock, match="nobody will ever wake"):
        loop.run_until_complete(forever())
    loop.bury()


def test_a_task_without_end_can_be_buried() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110 - what never ends is the point
            await asyncio.sleep(0)

    loop = SimulatedLoop(Timeline(1))
    task = loop.create_task(spin())
    with pytest.raises(Endless, match="20 steps"):
        loop.timeline.run(lambda: False, 20)
    loop.bury()
    assert task.cancelled()
