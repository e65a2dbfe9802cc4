"""Requests depend on the conversation only: not on the process, the order of a set or a hash seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.providers.stories.story_formats import FORMATS

ROOT = Path(__file__).parents[3]
HASH_SEEDS = ("0", "4242")


def run_in_processes() -> list[dict[str, Any]]:
    """Play the same stories in two processes with different hash seeds."""
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.providers.stories.request_digests"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for seed in HASH_SEEDS
    ]
    outputs = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0] * len(HASH_SEEDS), outputs
    return [json.loads(out) for out, _ in outputs]


def test_request_bodies_are_equal_in_every_process() -> None:
    runs = run_in_processes()
    first, *others = runs
    assert len({run["hash"] for run in runs}) == len(HASH_SEEDS)  # the seeds took effect
    assert first["sent"].keys() == FORMATS.keys()
    for format, digests in first["sent"].items():
        assert len(digests) > 30
        assert len(set(digests)) > 20
        assert [other["sent"][format] for other in others] == [digests] * len(others), format
