"""Recordings of requests: the same twice, and a seeded bug of one byte is found and named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from legato.models.openai import OpenAIResponses
from tests.recordings.models import KINDS
from tests.recordings.plays import WAYS, play, stories, ways_of
from tests.recordings.recordings import Job, differences, first_difference, record, write_files

ROOT = Path(__file__).parents[2]
STORY = "a tool call and a handoff in one reply: the tool's output is in the next agent's request"


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_is_asked_over_http(kind: str) -> None:
    for way in ways_of(KINDS[kind])[::2]:
        played = play(stories()[STORY], KINDS[kind], way, "test")
        assert played.error == ""
        assert len([request for request in played.requests if b"order 7 was sent on Monday" in request]) >= 1


def test_troubles_take_further_requests() -> None:
    counts = {way.trouble: len(play(stories()[STORY], KINDS["responses-chained-thinking"], way, "test").requests) for way in WAYS}
    assert counts["busy"] > counts["none"]
    assert counts["broken"] > counts["none"]


@pytest.mark.parametrize("only", ["hand back and forth", "seeds 0 to 7"])
def test_recordings_are_equal_in_other_processes(tmp_path: Path, only: str) -> None:
    command = [sys.executable, "-m", "tests.recordings", str(tmp_path), "--only", only, "--seeds", "8", "--processes", "1"]
    for seed, more in (("0", []), ("4242", ["--compare"])):
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONHASHSEED": seed}
        done = subprocess.run([*command, *more], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "files that differ: 0 of requests, 0 of facts" in done.stdout
    assert len(list(tmp_path.rglob("*.requests"))) in (1, len(KINDS))


def test_random_stories_are_equal_twice(tmp_path: Path) -> None:
    job = Job("random", tuple(range(28)))
    files = record(job)
    write_files(files, tmp_path)
    assert list(differences(record(job), tmp_path)) == []
    assert all(content.count(b"==== number") == 28 for content in files.values())


def test_one_byte_in_a_view_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(STORY)
    write_files(record(job), tmp_path)
    real = OpenAIResponses.reply

    async def spoiled(self: OpenAIResponses, request, emit):
        frame = replace(request.turn_context, instructions=request.turn_context.instructions + " ")
        return await real(self, replace(request, turn_context=frame), emit)

    monkeypatch.setattr(OpenAIResponses, "reply", spoiled)
    found = list(differences(record(job), tmp_path))
    names = {each.partition(":")[0].rpartition("/")[2] for each in found}
    assert names == {f"{kind}.requests" for kind in KINDS if kind.startswith(("responses", "azure"))}
    assert all("streamed, none, request " in each for each in found)  # the first may be for a conversation


def test_first_difference_names_its_request() -> None:
    before = b"==== whole, none\n---- request 1\n{}\n---- request 2\nabcdef\n"
    told = first_difference(before, before.replace(b"abc", b"abX"))
    assert told.startswith("whole, none, request 2, byte 2 of its line")
    assert "abX" in told


def test_a_file_that_ends_early_differs() -> None:
    assert "request 1" in first_difference(b"==== a\n---- request 1\nab\n", b"==== a\n---- request 1\n")
