"""Every story survives a death at every append and every effect, with every promise kept (D1, D2, D3, D4, C1, C2, C3, C6).

Deaths during the recovery and broken stores are tested at some points only. `make crash` sweeps all of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from legato.stores import SQLiteStore
from legato.testing.crash_sweeps import SweepMode, SweepReport, crash_sweep
from legato.testing.story import Story
from tests.crash.crash_stories import CRASH_STORIES
from tests.stories.all_stories import STORIES

ALL_STORIES: dict[str, Story] = {**CRASH_STORIES, **STORIES}

FIRST_FAULT_MODES: tuple[SweepMode, ...] = ("death", "error", "broken")

SAMPLE_TITLES = [
    "a tool call and a handoff in one reply: the tool's output is in the next agent's request",
    "two handoffs, the first gated and rejected: the second is taken",
    "three parallel calls, gated, open, gated: approve the first and edit the last, all three are answered in order",
    "a message while an approval is pending is kept, and seen after the batch is answered",
    "an agent as a tool asks people: approve, reject and edit in the outer session, and both conversations go on",
]


@pytest.fixture(scope="module")
def total_report(request: pytest.FixtureRequest) -> Iterator[SweepReport]:
    report = SweepReport()
    yield report
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n  {report}", end="")


@pytest.mark.parametrize("title", ALL_STORIES)
def test_story_survives_death_at_every_point(title: str, total_report: SweepReport) -> None:
    report = SweepReport()
    for mode in FIRST_FAULT_MODES:
        report.add(crash_sweep(ALL_STORIES[title], name=title, modes=(mode,), stride=1 if mode == "death" else 3))
    assert report.violations == []
    assert report.deaths >= report.points / 4  # `points` counts the points of each mode, so an empty sweep would fail here
    total_report.add(report)


@pytest.mark.parametrize("title", SAMPLE_TITLES)
def test_story_survives_second_death_during_recovery(title: str) -> None:
    report = crash_sweep(ALL_STORIES[title], name=title, modes=("second death",), recovery_points=2, stream=True)
    assert report.violations == []
    assert report.deaths > report.points


@pytest.mark.parametrize("title", [*SAMPLE_TITLES[:3], SAMPLE_TITLES[-1]])
def test_story_in_file_survives_deaths(title: str, tmp_path: Path) -> None:
    report = crash_sweep(ALL_STORIES[title], name=title, modes=("death",), stride=2, store=FileStoreFactory(tmp_path), simulated=False)
    assert report.violations == []
    assert report.deaths >= report.points // 2


class FileStoreFactory:
    """Creates a new SQLite file for each run, and removes the one before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def __call__(self) -> SQLiteStore:
        shutil.rmtree(self._folder / str(self._count), ignore_errors=True)
        self._count += 1
        (self._folder / str(self._count)).mkdir()
        return SQLiteStore(self._folder / str(self._count) / "ledger.db")


def test_sweep_reaches_every_point() -> None:
    report = crash_sweep(ALL_STORIES[SAMPLE_TITLES[0]], name="it", modes=("death",))
    assert {point for _, point, mode in report.cases if mode == "death"} == {str(number) for number in range(1, report.points + 1)}
    assert report.deaths == report.points
