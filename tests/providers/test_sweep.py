"""A sample of `make wires`: random conversations over every wire and memory mode, judged by the law books (C1, C2, C3, C4, C5, C6)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.providers.sweep.bugs import BUGS, seeded
from tests.providers.sweep.lines import LINES
from tests.providers.sweep.play import sweep

ROOT = Path(__file__).parents[2]
SAMPLE = (range(22), range(22, 44), range(48, 70))
SEEN = {
    **{f"ids of ours, {line.name}": 5 for line in LINES},
    **{f"reasoning back, {line.name}": 1 for line in LINES if line.name != "chat"},
    "responses chained, chained": 20,
    "responses chained, by value": 30,
    "responses conversation, gone on with": 30,
    "responses conversation, begun": 30,
    "hosted, responses": 3,
    "hosted, anthropic": 3,
    "refusal, chat": 2,
    "pictures and files": 100,
    "answers lost on their way": 8,
    "chains that the provider forgot": 1,
    "reasoning that the provider would not have": 3,
    "finish length": 6,
    "finish filter": 3,
}
"""What each part of the sample must have met, and how often at least: else its silence says nothing."""


@pytest.mark.parametrize("numbers", SAMPLE, ids=str)
def test_every_request_of_random_conversations_is_legal_and_tells_what_the_agent_should_see(numbers: range) -> None:
    found = sweep(numbers)
    assert found.wrong == []
    assert found.requests.total() > 800
    assert {kind.removesuffix(", mixed") for kind in found.requests} == {line.name for line in LINES}
    assert {what: least for what, least in SEEN.items() if found.saw[what] < least} == {}


@pytest.mark.parametrize("sentence", BUGS)
def test_a_bug_is_found(sentence: str) -> None:
    with seeded(sentence):
        for number in (*range(60), *range(170, 200), *range(240, 250)):  # the rarest shows itself once in a hundred conversations
            if sweep([number]).wrong:
                return
    pytest.fail("the sweep does not see it")


def test_the_bodies_are_the_same_in_every_run_and_under_every_hash_seed() -> None:
    program = "from tests.providers.sweep.play import sweep; found = sweep(range(5)); print(found.requests.total(), found.digest)"
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stdout.split()
        for seed in ("0", "1", "random", "random")
    ]
    assert int(runs[0][0]) > 200
    assert len({digest for _, digest in runs}) == 1
