"""Recording files: the requests and the facts of each part, and the first difference between two recordings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.recordings.models import MODEL_KINDS
from tests.recordings.random_stories import make_random_story
from tests.recordings.simulator_digests import digest_simulations
from tests.recordings.story_runs import RUN_MODES, StoryRecording, collect_stories, list_run_modes, record_story

REQUESTS, FACTS = ".requests", ".facts"
CONTEXT_BYTES = 60
"""The number of bytes shown on either side of a difference."""

MAX_RUNS_PER_FILE = 30
"""The number of random stories, or seeds, in one file."""


@dataclass(frozen=True)
class Job:
    """A part of the recordings: one story over every model, some random stories, or some seeds of the simulator."""

    title: str
    numbers: tuple[int, ...] = ()
    simulated: bool = False


def list_jobs(random_stories: int, seeds: int) -> list[Job]:
    """Return the parts of a recording with this many random stories and simulator seeds."""
    return [
        *(Job(title) for title in collect_stories()),
        *(Job(f"random stories {each[0]} to {each[-1]}", each) for each in _split_numbers(random_stories)),
        *(Job(f"seeds {each[0]} to {each[-1]}", each, simulated=True) for each in _split_numbers(seeds)),
    ]


def _split_numbers(count: int) -> list[tuple[int, ...]]:
    return [tuple(range(start, min(start + MAX_RUNS_PER_FILE, count))) for start in range(0, count, MAX_RUNS_PER_FILE)]


def record_job(job: Job) -> dict[str, bytes]:
    """Record one part; return its files by name. Requests and facts have files of their own, so that it is clear which of them differ."""
    files: dict[str, bytes] = {}
    if job.simulated:
        for suffix, found in zip((REQUESTS, FACTS), digest_simulations(job.numbers), strict=True):
            text = "".join(f"==== seed {seed}\n{digest}\n" for seed, digest in found.items())
            files[f"simulated/{job.numbers[0]:05}{suffix}"] = text.encode()
        return files
    if job.numbers:
        template = next(iter(collect_stories().values()))
        sections = []
        for number in job.numbers:
            mode = RUN_MODES[number % len(RUN_MODES)]
            sections.append((f"number {number}, {mode}", record_story(make_random_story(number, template), None, mode, f"random {number}")))
        _add_files(files, f"random/{job.numbers[0]:05}", sections)
        return files
    story = collect_stories()[job.title]
    for name, kind in MODEL_KINDS.items():
        sections = [(str(mode), record_story(story, kind, mode, f"{job.title} {name} {mode}")) for mode in list_run_modes(kind)]
        _add_files(files, f"{_make_folder_name(job.title)}/{name}", sections)
    return files


def _add_files(files: dict[str, bytes], name: str, sections: list[tuple[str, StoryRecording]]) -> None:
    requests, facts = [], []
    for title, recording in sections:
        requests.append(f"==== {title}\n".encode())
        for number, request in enumerate(recording.requests, 1):
            requests += [f"---- request {number}\n".encode(), request, b"\n"]
        lines = [line.replace("\n", "\\n") for line in (*recording.facts, f"error: {recording.error}")]
        facts.append("\n".join([f"==== {title}", *lines, ""]).encode())
    files[name + REQUESTS] = b"".join(requests)
    files[name + FACTS] = b"".join(facts)


def _make_folder_name(title: str) -> str:
    """Return a folder name for a story's title."""
    return f"{re.sub(r'[^a-z0-9]+', '-', title.lower())[:60].strip('-')}-{hashlib.blake2b(title.encode(), digest_size=3).hexdigest()}"


def write_files(files: dict[str, bytes], folder: Path) -> None:
    """Write the files of one part."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def find_differences(files: dict[str, bytes], folder: Path) -> Iterator[str]:
    """Yield the first difference of each file from the file of the same name in a folder."""
    for name, content in files.items():
        path = folder / name
        if not path.exists():
            yield f"{name}: was not recorded before"
        elif (before := path.read_bytes()) != content:
            yield f"{name}: {describe_first_difference(before, content)}"


def describe_first_difference(before: bytes, now: bytes) -> str:
    """Describe the first difference of two recordings: the run mode, the request or fact, and the bytes around it."""
    at = next((index for index, (one, other) in enumerate(zip(before, now, strict=False)) if one != other), min(len(before), len(now)))
    section = before.rfind(b"==== ", 0, at + 5)
    request = before.rfind(b"---- request ", 0, at + 13)
    places = [before[place : before.find(b"\n", place)].decode()[5:] for place in (section, request) if place >= 0 and place >= section]
    begin = max(0, at - CONTEXT_BYTES)
    start = max(before.rfind(b"\n", 0, at), request, section) + 1
    return (
        f"{', '.join(places)}, byte {at - start} of its line:\n"
        f"    before ...{before[begin : at + CONTEXT_BYTES]!r}\n    now    ...{now[begin : at + CONTEXT_BYTES]!r}"
    )
