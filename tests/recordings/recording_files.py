"""Recordings: files of what was sent and of what was recorded, and the first difference between two of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.recordings.models import KINDS
from tests.recordings.plays import WAYS, Played, play, stories, ways_of
from tests.recordings.random_stories import random_story
from tests.recordings.simulated import digests

REQUESTS, FACTS = ".requests", ".facts"
CONTEXT_BYTES = 60
"""How many bytes are shown on either side of a difference."""

RANDOM_EACH = 30
"""How many random stories, or seeds, share a file."""


@dataclass(frozen=True)
class Job:
    """A part of the recordings: one story over every model, some random stories, or some seeds of the simulator."""

    title: str
    numbers: tuple[int, ...] = ()
    simulated: bool = False


def jobs(random_stories: int, seeds: int) -> list[Job]:
    """Everything that is recorded, if so many random stories and seeds of the simulator are."""
    return [
        *(Job(title) for title in stories()),
        *(Job(f"random stories {each[0]} to {each[-1]}", each) for each in _chunks(random_stories)),
        *(Job(f"seeds {each[0]} to {each[-1]}", each, simulated=True) for each in _chunks(seeds)),
    ]


def _chunks(count: int) -> list[tuple[int, ...]]:
    return [tuple(range(start, min(start + RANDOM_EACH, count))) for start in range(0, count, RANDOM_EACH)]


def record(job: Job) -> dict[str, bytes]:
    """The files of one part, by their names: requests and facts apart, so that a difference in one is told from one in the other."""
    files: dict[str, bytes] = {}
    if job.simulated:
        for kind, found in zip((REQUESTS, FACTS), digests(job.numbers), strict=True):
            text = "".join(f"==== seed {seed}\n{digest}\n" for seed, digest in found.items())
            files[f"simulated/{job.numbers[0]:05}{kind}"] = text.encode()
        return files
    if job.numbers:
        like = next(iter(stories().values()))
        sections = []
        for number in job.numbers:
            way = WAYS[number % len(WAYS)]
            sections.append((f"number {number}, {way}", play(random_story(number, like), None, way, f"random {number}")))
        _put(files, f"random/{job.numbers[0]:05}", sections)
        return files
    story = stories()[job.title]
    for name, kind in KINDS.items():
        told = [(str(way), play(story, kind, way, f"{job.title} {name} {way}")) for way in ways_of(kind)]
        _put(files, f"{_slug(job.title)}/{name}", told)
    return files


def _put(files: dict[str, bytes], name: str, sections: list[tuple[str, Played]]) -> None:
    requests, facts = [], []
    for title, played in sections:
        requests.append(f"==== {title}\n".encode())
        for number, request in enumerate(played.requests, 1):
            requests += [f"---- request {number}\n".encode(), request, b"\n"]
        lines = [line.replace("\n", "\\n") for line in (*played.facts, f"error: {played.error}")]
        facts.append("\n".join([f"==== {title}", *lines, ""]).encode())
    files[name + REQUESTS] = b"".join(requests)
    files[name + FACTS] = b"".join(facts)


def _slug(title: str) -> str:
    """A story's title as the name of a folder."""
    return f"{re.sub(r'[^a-z0-9]+', '-', title.lower())[:60].strip('-')}-{hashlib.blake2b(title.encode(), digest_size=3).hexdigest()}"


def write_files(files: dict[str, bytes], folder: Path) -> None:
    """Write the files of one part."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def differences(files: dict[str, bytes], folder: Path) -> Iterator[str]:
    """What is otherwise than in these files of a folder: the first difference of each."""
    for name, content in files.items():
        path = folder / name
        if not path.exists():
            yield f"{name}: was not recorded before"
        elif (before := path.read_bytes()) != content:
            yield f"{name}: {first_difference(before, content)}"


def first_difference(before: bytes, now: bytes) -> str:
    """Where two recordings part, in words: the way of telling, the request or fact, and the bytes around it."""
    at = next((index for index, (one, other) in enumerate(zip(before, now, strict=False)) if one != other), min(len(before), len(now)))
    way = before.rfind(b"==== ", 0, at + 5)
    request = before.rfind(b"---- request ", 0, at + 13)
    places = [before[place : before.find(b"\n", place)].decode()[5:] for place in (way, request) if place >= 0 and place >= way]
    begin = max(0, at - CONTEXT_BYTES)
    start = max(before.rfind(b"\n", 0, at), request, way) + 1
    return (
        f"{', '.join(places)}, byte {at - start} of its line:\n"
        f"    before ...{before[begin : at + CONTEXT_BYTES]!r}\n    now    ...{now[begin : at + CONTEXT_BYTES]!r}"
    )
