"""Story 31: die at every append and every effect of every story, restart, and every promise holds (D1, D2, D3, D4, C1, C2, C3, C6).

Every first death at every point of every story is here; deaths during the recovery, and a broken store, at some points. `make crash` sweeps
those at all of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from legato.stores import SQLiteStore
from legato.testing.crash import Mode, SweepReport, crash_sweep
from legato.testing.story import Story
from tests.crash.own_stories import OWN
from tests.stories.all import STORIES

ALL: dict[str, Story] = {**OWN, **STORIES}

MODES: tuple[Mode, ...] = ("death", "error", "broken")

SAMPLE = [
    "a tool call and a handoff in one reply: the tool's output is in the next agent's request",
    "two handoffs, the first gated and rejected: the second is taken",
    "three parallel calls, gated, open, gated: approve the first and edit the last, all three are answered in order",
    "a message while an approval is pending is kept, and seen after the batch is answered",
    "an agent as a tool asks people: approve, reject and edit in the outer session, and both conversations go on",
]


@pytest.fixture(scope="module")
def total(request: pytest.FixtureRequest) -> Iterator[SweepReport]:
    report = SweepReport()
    yield report
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n  {report}", end="")


@pytest.mark.parametrize("title", ALL)
def test_a_story_survives_a_death_at_every_point(title: str, total: SweepReport) -> None:
    report = SweepReport()
    for mode in MODES:
        report.add(crash_sweep(ALL[title], name=title, modes=(mode,), stride=1 if mode == "death" else 3))
    assert report.violations == []
    assert report.deaths >= report.points / 4  # points counts each mode's whole run: a sweep of nothing would show here
    total.add(report)


@pytest.mark.parametrize("title", SAMPLE)
def test_a_story_survives_a_second_death_while_it_recovers(title: str) -> None:
    report = crash_sweep(ALL[title], name=title, modes=("second death",), second=2, stream=True)
    assert report.violations == []
    assert report.deaths > report.points


@pytest.mark.parametrize("title", [*SAMPLE[:3], SAMPLE[-1]])
def test_a_story_survives_deaths_on_a_file(title: str, tmp_path: Path) -> None:
    report = crash_sweep(ALL[title], name=title, modes=("death",), stride=2, store=Files(tmp_path), simulated=False)
    assert report.violations == []
    assert report.deaths >= report.points // 2


class Files:
    """A new SQLite file for each run; the one before is removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def __call__(self) -> SQLiteStore:
        shutil.rmtree(self._folder / str(self._count), ignore_errors=True)
        self._count += 1
        (self._folder / str(self._count)).mkdir()
        return SQLiteStore(self._folder / str(self._count) / "ledger.db")


def test_a_sweep_reaches_every_append_and_every_effect() -> None:
    report = crash_sweep(ALL[SAMPLE[0]], name="it", modes=("death",))
    assert {point for _, point, mode in report.triples if mode == "death"} == {str(number) for number in range(1, report.points + 1)}
    assert report.deaths == report.points
