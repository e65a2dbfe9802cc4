"""What is sent follows from what was said, and from nothing else: not from the process, not from the order of a set or a hash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.providers.stories.wires import WIRES

ROOT = Path(__file__).parents[3]
SEEDS = ("0", "4242")


def in_processes() -> list[dict[str, Any]]:
    """The same stories in two processes, each with another seed of hashes."""
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.providers.stories.digests"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for seed in SEEDS
    ]
    told = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0] * len(SEEDS), told
    return [json.loads(out) for out, _ in told]


def test_the_bodies_of_every_wire_are_the_same_bytes_in_every_process_whatever_the_seed_of_hashes() -> None:
    runs = in_processes()
    first, *others = runs
    assert len({run["hash"] for run in runs}) == len(SEEDS)  # the seeds took effect
    assert first["sent"].keys() == WIRES.keys()
    for wire, sent in first["sent"].items():
        assert len(sent) > 30
        assert len(set(sent)) > 20
        assert [other["sent"][wire] for other in others] == [sent] * len(others), wire
