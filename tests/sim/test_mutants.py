"""A harness that cannot see is worse than none: each deliberate bug must be found by the simulator within a bounded number of seeds."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.sim.administration import simulate
from tests.sim.mutants import MUTANTS, applied
from tests.sim.workflows import random_workflow

SEEDS = 4000
CPU_SECONDS = 60

FIRST_SEEDS = {
    "a prompt to an autonomous agent counts as a user's message": 140,
    "a new driver takes an attempt that was started by a dead one for its own": 120,
    "a driver whose lease was lost goes on starting tools": 240,
    "a message ends a cancel even if a guardrail withholds it": 260,
    "a model is asked while a message is being judged": 160,
    "a cancel stops the caller first, and then the agents that work for it": 5220,
    "the limits of a session do not bind its child sessions": 220,
    "deleting a session leaves its child sessions": 100,
    "a fork keeps the standing approvals of its parent": 240,
    "a fork keeps what was approved in its parent": 500,
    "a standing approval of one agent's tool holds for all agents": 140,
    "what a person declined is cancelled for good: later messages are not heard": 100,
    "nobody looks out for what others append while something runs": 80,
    "a model goes on thinking about words that were erased": 840,
}
"""Where the search begins for mutants that few schedules show: earlier seeds took long and found nothing. The others begin at 0."""

FOUND_BY_KILLS = ("retiring deletes child sessions before their parent",)
"""Mutants that show only where one operation is killed at one point: tests/crash/test_administration.py finds them at once."""


class Hung(BaseException):
    """Not an Exception: a simulated loop would take it for an error of a task."""


@contextmanager
def bounded() -> Iterator[None]:
    """A mutant may well loop for ever."""

    def ring(*_: object) -> None:
        raise Hung

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # not of the clock: a busy machine is no bug
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# What a mutant leaves undone is not the point here.
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("sentence", [each for each in MUTANTS if each not in FOUND_BY_KILLS])
def test_the_simulator_finds_this_bug(sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = FIRST_SEEDS.get(sentence, 0)
    try:
        with applied(sentence), bounded():
            report = simulate(random_workflow, range(first, first + SEEDS), stop_at=1)
    finally:
        gc.collect()  # here, where its warnings are ignored, and not in a test that runs later
    assert report.violations, f"{SEEDS} schedules, and nobody noticed"
    seed, violation = report.violations[0]
    assert not any(error in str(violation) for error in ("TypeError", "AttributeError", "NameError")), f"a broken mutant: {violation}"
    with capsys.disabled():
        print(f"\n  seed {seed:4}: {sentence}\n             {str(violation)[:120]}", end="")


def test_first_seeds_name_mutants() -> None:
    assert FIRST_SEEDS.keys() <= MUTANTS.keys()


def test_there_are_enough_mutants_and_the_package_is_whole_again_after_each() -> None:
    assert len(MUTANTS) >= 30
    assert simulate(random_workflow, range(50)).violations == []
