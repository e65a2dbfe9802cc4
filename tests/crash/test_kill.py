"""Real processes, really killed (D1, D2, D3, D4): SIGKILL at random moments, restart until the story is over, check the file."""

from __future__ import annotations

import pytest

from tests.crash.kills import kill_until

KILLS = 120


# Python 3.12 warns of fork() where there are threads. pytest may have some; the zygote starts none.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_hundred_kills_lose_no_acknowledged_fact_and_repeat_no_deed(capsys: pytest.CaptureFixture[str]) -> None:
    report = kill_until(KILLS)
    with capsys.disabled():
        print(f"\n  {report}", end="")
    assert report.violations == []
    assert report.kills >= KILLS
    assert report.deeds
