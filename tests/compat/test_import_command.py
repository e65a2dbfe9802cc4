"""`legato import`: what a file is taken for, what is said of it, and where it goes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from legato.core.facts import HandedOff
from legato.stores import SQLiteStore

SAMPLES = Path(__file__).parent / "samples"


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "legato.cli", "import", *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        ("checkpoint-1.0.0.json", "checkpoint"),
        ("run-state-0.24.0-handoff.json", "RunState 1.21"),
        ("session-0.13.3.db", "SQLiteSession 'customer-42'"),
    ],
)
def test_without_a_store_it_only_reports(sample: str, kind: str) -> None:
    """Without a store the command reports the file's content and imports nothing."""
    done = command(SAMPLES / sample)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(kind)
    whose = "your HandoffBuilder" if kind == "checkpoint" else "openai-agents"
    assert re.search(rf"nothing was imported: give --store, --session and --workflow \(.*{whose}.*\)\n$", done.stdout)


async def test_with_a_store_it_becomes_a_session_once(tmp_path: Path) -> None:
    where = ["--store", f"sqlite:{tmp_path / 'desk.sqlite'}", "--session", "customer-42", "--workflow", "bank"]
    done = command(SAMPLES / "session-0.13.3.db", *where, "--agent", "front", "--rename", "specialist=accounts", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["report"]["messages"] == 2
    assert json.loads(done.stdout)["agents"] == ["front", "accounts"]
    async with SQLiteStore(tmp_path / "desk.sqlite") as store:
        facts = await store.read("customer-42")
        assert {(fact.source, fact.target) for fact in facts if isinstance(fact, HandedOff)} == {("front", "accounts")}
    again = command(SAMPLES / "session-0.13.3.db", *where)
    assert again.returncode == 2
    assert "already" in again.stderr
    async with SQLiteStore(tmp_path / "desk.sqlite") as store:
        assert list(await store.read("customer-42")) == list(facts)


@pytest.mark.parametrize(
    "arguments",
    [
        ["none.json"],
        ["text.txt"],
        ["object.json"],
        [SAMPLES / "checkpoint-1.0.0.json", "--kind", "run-state"],
        [SAMPLES / "checkpoint-1.0.0.json", "--kind", "nonsense"],
        [SAMPLES / "checkpoint-1.0.0.json", "--session", "s"],
        [SAMPLES / "checkpoint-1.0.0.json", "--session", "s", "--workflow", "w", "--store", "redis:x"],
        [SAMPLES / "checkpoint-1.0.0.json", "--session", "s", "--workflow", "w", "--store", "sqlite:s.db", "--rename", "a"],
        [SAMPLES / "checkpoint-1.0.0.json", "--session", "s", "--workflow", "w", "--store", "sqlite:s.db", "--rename", "nobody=b"],
        [SAMPLES / "checkpoint-1.0.0.json", "--session", "a\nb", "--workflow", "w", "--store", "sqlite:s.db"],
        [SAMPLES / "session-0.13.3.db", "--of", "nobody"],
    ],
)
def test_errors_create_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("hello")
    Path("object.json").write_text("{}")
    before = sorted(tmp_path.iterdir())
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before
