"""Processes are killed with SIGKILL at random moments and restarted until the story is over; then the file is checked (D1, D2, D3, D4)."""

from __future__ import annotations

import pytest

from tests.crash.process_kills import run_kills

KILLS = 120


# Python 3.12 warns about fork() in a process with threads. pytest may have some; `run_kills` starts none.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_kills_lose_no_facts_and_repeat_no_effects(capsys: pytest.CaptureFixture[str]) -> None:
    report = run_kills(KILLS)
    with capsys.disabled():
        print(f"\n  {report}", end="")
    assert report.violations == []
    assert report.kills >= KILLS
    assert report.effects
