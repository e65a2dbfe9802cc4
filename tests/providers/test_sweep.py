"""A sample of `make wires`: random conversations in every format and memory mode, checked against the rules (C1, C2, C3, C4, C5, C6)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.providers.sweep.format_variants import VARIANTS
from tests.providers.sweep.seeded_bugs import BUGS, seed_bug
from tests.providers.sweep.sweep_runner import run_sweep

ROOT = Path(__file__).parents[2]
SAMPLES = (range(22), range(22, 44), range(48, 70))
MIN_OCCURRENCES = {
    **{f"ids made by Legato, {variant.name}": 5 for variant in VARIANTS},
    **{f"replayed reasoning, {variant.name}": 1 for variant in VARIANTS if variant.name != "chat"},
    "responses chained, chained": 20,
    "responses chained, by value": 30,
    "responses conversation, continued": 30,
    "responses conversation, started": 30,
    "hosted, responses": 3,
    "hosted, anthropic": 3,
    "refusal, chat": 2,
    "pictures and files": 100,
    "answers lost on their way": 8,
    "chains that the provider forgot": 1,
    "reasoning that the provider refused": 3,
    "finish length": 6,
    "finish filter": 3,
}
"""The occurrences that each sample must have at least; otherwise its success proves little."""


@pytest.mark.parametrize("numbers", SAMPLES, ids=str)
def test_random_requests_are_legal_and_complete(numbers: range) -> None:
    """Every request is legal, and its contents are what the agent should see."""
    findings = run_sweep(numbers)
    assert findings.problems == []
    assert findings.requests.total() > 800
    assert {kind.removesuffix(", mixed") for kind in findings.requests} == {variant.name for variant in VARIANTS}
    assert {kind: minimum for kind, minimum in MIN_OCCURRENCES.items() if findings.occurrences[kind] < minimum} == {}


@pytest.mark.parametrize("sentence", BUGS)
def test_seeded_bug_is_found_by_sweep(sentence: str) -> None:
    with seed_bug(sentence):
        for number in (*range(60), *range(170, 200), *range(240, 250)):  # the rarest one shows in one of a hundred conversations
            if run_sweep([number]).problems:
                return
    pytest.fail("the sweep does not detect the bug")


def test_bodies_do_not_depend_on_hash_seeds() -> None:
    program = (
        "from tests.providers.sweep.sweep_runner import run_sweep; findings = run_sweep(range(5));"
        "print(findings.requests.total(), findings.digest)"
    )
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
