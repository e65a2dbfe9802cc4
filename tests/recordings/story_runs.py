"""Conversations, told over a model: what was sent, and what was recorded in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import msgspec

from legato.stores import MemoryStore
from legato.testing.failing_store import FailingStore
from tests.recordings.models import Kind, scripts_spoken_by
from tests.recordings.provider import Provider, Trouble, in_place_of_connections
from tests.recordings.virtual_time import Endless, Stopped, VirtualLoop, run_virtually

MAX_RESUMES = 12
"""The number of model failures after which the user of a story resumes."""

MAX_STEPS = 300
"""The number of steps that a user takes in one life of the process."""

MAX_LIVES = 40
"""How often a process may be killed and started again."""


@dataclass(frozen=True)
class Way:
    """One way to tell a story: whether replies are streamed to Legato, and what goes wrong."""

    stream: bool
    trouble: Trouble = "none"

    def __str__(self) -> str:
        return f"{'streamed' if self.stream else 'whole'}, {self.trouble}"


WAYS: tuple[Way, ...] = (
    Way(True),
    Way(False),
    Way(True, "busy"),
    Way(True, "broken"),
    Way(False, "killed"),
    Way(False, "forgetful"),
    Way(False, "busy"),
)


def ways_of(kind: Kind) -> tuple[Way, ...]:
    """The ways to tell a story over a kind of model. Only what is named by an id, or was thought, can be forgotten."""
    return WAYS[:6] if kind.leans else WAYS[:5]


@dataclass
class Played:
    """A story that was played: its requests, the facts of all its sessions, and the error that ended it, if any."""

    requests: list[bytes]
    facts: list[str]
    error: str = ""


def play(story: Any, kind: Kind | None, way: Way, seed: str) -> Played:
    """Tell a story once, in virtual time. Without a kind, its agents have models of their own."""
    provider, store = Provider(way.trouble), MemoryStore()
    telling = _StoryPlay(story, kind, way, store, provider)
    error, now = "", 0.0
    with in_place_of_connections(provider):
        for life in range(MAX_LIVES):
            loop = VirtualLoop(now)
            try:
                error = run_virtually(partial(telling.live, loop), f"{seed} {life}", loop)
                break
            except Stopped:
                now, error = loop.time(), f"killed {life + 1} times"
            except Endless as endless:
                error = f"Endless: {endless}"
                break
    return Played(provider.requests, facts_of(store), error)


class _StoryPlay:
    """One story, played in as many lives of a process as it takes."""

    def __init__(self, story: Any, kind: Kind | None, way: Way, store: MemoryStore, provider: Provider) -> None:
        user = replace(story.user, max_resumes=max(story.user.max_resumes, MAX_RESUMES), max_steps=MAX_STEPS)
        self._story = replace(story, user=user, build=self._build, check=lambda told: None)
        self._real_build = story.build
        self._kind = kind
        self._way = way
        self._store = store
        self._provider = provider
        self._world: Any = None  # it outlives the process
        self._process: FailingStore | None = None

    def _build(self, store: Any, world: Any) -> Any:
        self._world = world
        return self._real_build(store, world)

    async def live(self, loop: VirtualLoop) -> str:
        """Play the story until it is over, or the process is. The error that ended it, if any."""
        store: Any = self._store
        if self._way.trouble == "killed":
            if self._process is not None:
                await self._process.release_leases()
            store = self._process = FailingStore(self._store)
            store.on_death = loop.stop
            self._provider.kill = store.die
        kind = self._kind
        with scripts_spoken_by(kind.make(self._way.stream), kind.thinks) if kind is not None else nullcontext():
            try:
                await self._story.run(store, self._way.stream, self._world)
            except (Exception, asyncio.CancelledError) as raised:
                return f"{type(raised).__name__}: {raised}"
        return ""


left_out: set[str] = set()
"""Members of facts that are not recorded, such as one that an older version does not have."""


def facts_of(store: MemoryStore) -> list[str]:
    """The facts of every session, one line each: the members that are not as they are by default."""
    lines: list[str] = []

    async def read() -> None:
        for info in sorted(await store.list(), key=lambda info: info.ledger):
            for position, fact in enumerate(await store.read(info.ledger)):
                lines.append(f"{info.ledger} {position} {as_line(fact, left_out)}")

    asyncio.run(read())
    return lines


def as_line(fact: Any, leave_out: Collection[str] = ()) -> str:
    """A fact as text; a member that has its default value is left out, so that a new one changes nothing where it says nothing."""
    parts = []
    for name, default in _members(type(fact)):
        value = getattr(fact, name)
        if name not in leave_out and value != default:
            parts.append(f"{name}={value!r}")
    return f"{type(fact).__name__}({', '.join(parts)})"


@cache
def _members(kind: type[Any]) -> list[tuple[str, Any]]:
    """The members of a kind of facts, each with its default value."""
    members = msgspec.structs.fields(kind)
    return [(each.name, each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory()) for each in members]


def stories() -> dict[str, Any]:
    """Every story of the crash sweep, by its sentence."""
    from tests.crash.crash_stories import CRASH_STORIES
    from tests.stories.all_stories import STORIES

    return {**CRASH_STORIES, **STORIES}
