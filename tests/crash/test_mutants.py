"""The sweep and the kills must see, too: each of these deliberate bugs shows when a process dies in the wrong moment, and is found."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import pytest

from legato.core.facts import AnyFact
from legato.stores import SQLiteStore
from legato.testing.crash import crash_sweep
from tests.crash import victim
from tests.crash.kills import kill_until
from tests.crash.test_sweep import ALL, SAMPLE
from tests.sim.mutants import applied

UNWARNED = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

PAYMENTS = "two payments, an audit and a handoff in one reply: each payment is made once"
TWO_HANDOFFS = "two handoff calls in one reply: the first is taken, the second answered truthfully"

SEEN_BY_THE_SWEEP = {
    "other agents' tool outputs are dropped at a handoff": PAYMENTS,
    "the second handoff of a batch is left unanswered": TWO_HANDOFFS,
    "a handoff is taken before the rest of its batch is answered": PAYMENTS,
    "everybody may drive, and nobody's attempt is ever lost": PAYMENTS,
    "a new driver takes an attempt that was started by a dead one for its own": PAYMENTS,
    "a tool that is not idempotent is started again after its attempt was lost": PAYMENTS,
    "an attempt whose outcome is unknown is answered as failed, and nobody is asked": PAYMENTS,
    "what needs approval runs without it": PAYMENTS,
    "an edited call runs with the arguments the model wrote": SAMPLE[2],
}
"""The story that shows each."""


@UNWARNED
@pytest.mark.parametrize("sentence", SEEN_BY_THE_SWEEP)
def test_the_sweep_finds_this_bug(sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    title = SEEN_BY_THE_SWEEP[sentence]
    with applied(sentence):
        found = crash_sweep(ALL[title], name=title, modes=("death", "error"))
    assert found.violations, f"{found.runs} runs, and nobody noticed"
    (_, point, mode), violation = found.violations[0]
    with capsys.disabled():
        print(f"\n  {mode} at point {point:>3}: {sentence}\n                      {str(violation)[:120]}", end="")


def kills_find(promise: str) -> bool:
    """Whether up to 180 kills show that a promise is broken."""
    return any(promise == violation.promise for seed in range(0, 60, 10) for _, violation in kill_until(30, seed).violations)


@UNWARNED
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_the_kills_find_a_tool_that_is_started_again_unasked() -> None:
    with applied("a tool that is not idempotent is started again after its attempt was lost"):
        assert kills_find("D2")


@UNWARNED
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_the_kills_find_a_store_that_acknowledges_before_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hasty(victim.TellingStore):
        async def append(self, ledger: str, expected: int, facts: Sequence[AnyFact], **more: Any) -> int:
            names = ",".join(type(fact).__name__ for fact in facts)
            os.write(self.acks, f"{expected} {expected + len(facts)} {names}\n".encode())
            await asyncio.sleep(0.002)  # it will write in a moment
            return await SQLiteStore.append(self, ledger, expected, facts, **more)

    monkeypatch.setattr(victim, "TellingStore", Hasty)
    assert kills_find("D1")
