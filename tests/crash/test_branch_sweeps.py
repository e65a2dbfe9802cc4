"""Every story is forked and copied at every fact (S2, D2): by a log outside the ledgers, no consent is used in two branches."""

from __future__ import annotations

import pytest

from legato.testing.branch_sweeps import branch_sweep
from legato.testing.crash_sweeps import SweepReport
from tests.crash.crash_stories import CRASH_STORIES
from tests.crash.test_crash_sweeps import ALL_STORIES, SAMPLE_TITLES
from tests.sim.mutants import MUTANTS, apply_mutant

BRANCH_MUTANTS = [
    "a fork keeps the unused approvals of its parent",
    "a copy keeps the unused approvals of the original",
    "a fork keeps the standing approvals of its parent",
    "a fork leaves the child sessions behind",
    "the text of a session lacks its child sessions",
    "a missing child session is started again without asking",
    "the usage of child sessions is not counted",
    "a failed child session becomes an error of its call",
    "branches share a child session",
]

STANDING_APPROVAL = "approve always: later calls of that tool by that agent record their own approval; another agent's call is asked about"
MUTANT_STORIES = [*CRASH_STORIES, *SAMPLE_TITLES, STANDING_APPROVAL]


@pytest.mark.parametrize("title", ALL_STORIES)
def test_branches_ask_for_consent_again(title: str) -> None:
    report = branch_sweep(ALL_STORIES[title], name=title)
    assert report.violations == []
    assert report.runs > 5


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mutant", BRANCH_MUTANTS)
def test_branch_sweep_finds_mutant(mutant: str) -> None:
    assert mutant in MUTANTS
    report = SweepReport()
    with apply_mutant(mutant):
        for title in MUTANT_STORIES:
            try:
                report.add(branch_sweep(ALL_STORIES[title], name=title))
            except Exception as error:
                pytest.fail(f"{title}: {error!r}")
            if report.violations:
                break
    assert report.violations, f"no violation in {report.runs} branches"
