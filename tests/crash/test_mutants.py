"""The crash sweep and the kills must find these deliberate bugs, which show when a process dies at the wrong moment."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import pytest

from legato.core.facts import AnyFact
from legato.stores import SQLiteStore
from legato.testing.crash_sweeps import crash_sweep
from tests.crash import killed_program
from tests.crash.process_kills import run_kills
from tests.crash.test_crash_sweeps import ALL_STORIES, SAMPLE_TITLES
from tests.sim.mutants import apply_mutant

IGNORE_MUTANT_WARNINGS = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

PAYMENTS = "two payments, an audit and a handoff in one reply: each payment is made once"
TWO_HANDOFFS = "two handoff calls in one reply: the first is taken, the second answered truthfully"

SWEEP_MUTANTS = {
    "other agents' tool outputs are dropped at a handoff": PAYMENTS,
    "the second handoff of a batch is left unanswered": TWO_HANDOFFS,
    "a handoff is taken before the rest of its batch is answered": PAYMENTS,
    "every process gets the lease, and no attempt is ever lost": PAYMENTS,
    "a new driver treats a dead driver's attempt as its own": PAYMENTS,
    "a tool that is not idempotent is started again after its attempt was lost": PAYMENTS,
    "a lost attempt is answered as failed without asking": PAYMENTS,
    "a call that needs approval runs without it": PAYMENTS,
    "an edited call runs with the arguments the model wrote": SAMPLE_TITLES[2],
}
"""Mutants, each with a story that shows it."""


@IGNORE_MUTANT_WARNINGS
@pytest.mark.parametrize("mutant", SWEEP_MUTANTS)
def test_crash_sweep_finds_mutant(mutant: str, capsys: pytest.CaptureFixture[str]) -> None:
    title = SWEEP_MUTANTS[mutant]
    with apply_mutant(mutant):
        report = crash_sweep(ALL_STORIES[title], name=title, modes=("death", "error"))
    assert report.violations, f"no violation in {report.runs} runs"
    (_, point, mode), violation = report.violations[0]
    with capsys.disabled():
        print(f"\n  {mode} at point {point:>3}: {mutant}\n                      {str(violation)[:120]}", end="")


def kills_find_violation(promise: str) -> bool:
    """Return True if up to 180 kills show that a promise is broken."""
    return any(promise == violation.promise for seed in range(0, 60, 10) for _, violation in run_kills(30, seed).violations)


@IGNORE_MUTANT_WARNINGS
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_kills_find_restarted_tool() -> None:
    with apply_mutant("a tool that is not idempotent is started again after its attempt was lost"):
        assert kills_find_violation("D2")


@IGNORE_MUTANT_WARNINGS
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_kills_find_too_early_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    class HastyStore(killed_program.AcknowledgingStore):
        async def append(self, ledger: str, expected: int, facts: Sequence[AnyFact], **more: Any) -> int:
            names = ",".join(type(fact).__name__ for fact in facts)
            os.write(self.pipe, f"{expected} {expected + len(facts)} {names}\n".encode())
            await asyncio.sleep(0.002)  # the write comes only after the acknowledgement
            return await SQLiteStore.append(self, ledger, expected, facts, **more)

    monkeypatch.setattr(killed_program, "AcknowledgingStore", HastyStore)
    assert kills_find_violation("D1")
