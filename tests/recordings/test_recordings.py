"""Recordings are equal in two runs, and a seeded bug of one byte is found and named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from legato.models.openai import OpenAIResponses
from tests.recordings.models import MODEL_KINDS
from tests.recordings.recording_files import Job, describe_first_difference, find_differences, record_job, write_files
from tests.recordings.story_runs import RUN_MODES, collect_stories, list_run_modes, record_story

ROOT = Path(__file__).parents[2]
STORY = "a tool call and a handoff in one reply: the tool's output is in the next agent's request"


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_every_model_kind_sends_http_requests(kind: str) -> None:
    for mode in list_run_modes(MODEL_KINDS[kind])[::2]:
        recording = record_story(collect_stories()[STORY], MODEL_KINDS[kind], mode, "test")
        assert recording.error == ""
        assert len([request for request in recording.requests if b"order 7 was sent on Monday" in request]) >= 1


def test_faults_cause_further_requests() -> None:
    counts = {
        mode.fault_mode: len(record_story(collect_stories()[STORY], MODEL_KINDS["responses-chained-thinking"], mode, "test").requests)
        for mode in RUN_MODES
    }
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
    assert len(list(tmp_path.rglob("*.requests"))) in (1, len(MODEL_KINDS))


def test_random_stories_are_equal_twice(tmp_path: Path) -> None:
    job = Job("random", tuple(range(28)))
    files = record_job(job)
    write_files(files, tmp_path)
    assert list(find_differences(record_job(job), tmp_path)) == []
    assert all(content.count(b"==== number") == 28 for content in files.values())
    (requests,) = (content for name, content in files.items() if name.endswith(".requests"))
    assert requests.count(b"---- request") > 5 * 28, "random stories request models"


def test_one_changed_request_byte_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(STORY)
    write_files(record_job(job), tmp_path)
    real = OpenAIResponses.reply

    async def reply_to_changed_request(self: OpenAIResponses, request, emit):
        turn_context = replace(request.turn_context, instructions=request.turn_context.instructions + " ")
        return await real(self, replace(request, turn_context=turn_context), emit)

    monkeypatch.setattr(OpenAIResponses, "reply", reply_to_changed_request)
    found = list(find_differences(record_job(job), tmp_path))
    names = {each.partition(":")[0].rpartition("/")[2] for each in found}
    assert names == {f"{kind}.requests" for kind in MODEL_KINDS if kind.startswith(("responses", "azure"))}
    assert all("streamed, none, request " in each for each in found)  # the first may be for a conversation


def test_first_difference_names_its_request() -> None:
    before = b"==== whole, none\n---- request 1\n{}\n---- request 2\nabcdef\n"
    description = describe_first_difference(before, before.replace(b"abc", b"abX"))
    assert description.startswith("whole, none, request 2, byte 2 of its line")
    assert "abX" in description


def test_a_file_that_ends_early_differs() -> None:
    assert "request 1" in describe_first_difference(b"==== a\n---- request 1\nab\n", b"==== a\n---- request 1\n")
