"""Every story forked and copied at every fact (S2, D2): no consent is used in two branches, checked by a log outside of the ledgers."""

from __future__ import annotations

import pytest

from legato.testing.branches import branch_sweep
from legato.testing.crash import SweepReport
from tests.crash.own_stories import OWN
from tests.crash.test_sweep import ALL, SAMPLE
from tests.sim.mutants import MUTANTS, applied

SEEN_IN_BRANCHES = [
    "a fork keeps what was approved in its parent",
    "a copy keeps what was approved in the original",
    "a fork keeps the standing approvals of its parent",
    "a fork leaves the child sessions behind",
    "a string holds a session without its child sessions",
    "a missing child session is begun again, and nobody is asked",
    "what a child session uses is not counted",
    "a child session that failed is an error of its call",
    "branches share the conversation of an agent that works as a tool",
]

ALWAYS = "approve always: later calls of that tool by that agent record their own approval; another agent's call is asked about"
STORIES = [*OWN, *SAMPLE, ALWAYS]


@pytest.mark.parametrize("title", ALL)
def test_branches_ask_for_consent_again(title: str) -> None:
    report = branch_sweep(ALL[title], name=title)
    assert report.violations == []
    assert report.runs > 5


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("sentence", SEEN_IN_BRANCHES)
def test_branch_sweep_finds_mutant(sentence: str) -> None:
    assert sentence in MUTANTS
    found = SweepReport()
    with applied(sentence):
        for title in STORIES:
            try:
                found.add(branch_sweep(ALL[title], name=title))
            except Exception as error:
                pytest.fail(f"{title}: {error!r}")
            if found.violations:
                break
    assert found.violations, f"{found.runs} branches, and nothing was found"
