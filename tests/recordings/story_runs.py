"""Runs of stories over a kind of model: their requests, and their facts in the end."""

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
from tests.recordings.fake_provider import FakeProvider, FaultMode, connect_clients_to
from tests.recordings.models import ModelKind, replace_scripted_models
from tests.recordings.virtual_time import EndlessConversation, LoopStopped, VirtualLoop, run_in_virtual_time

MAX_RESUMES = 12
"""How many times the user of a story resumes after a model failure."""

MAX_STEPS_PER_LIFE = 300
"""How many steps a user takes before the process counts as stuck."""

MAX_LIVES = 40
"""How many times a process may be killed and started again."""


@dataclass(frozen=True)
class RunMode:
    """The conditions of a run: whether replies are streamed to Legato, and which faults occur."""

    stream: bool
    fault_mode: FaultMode = "none"

    def __str__(self) -> str:
        return f"{'streamed' if self.stream else 'whole'}, {self.fault_mode}"


RUN_MODES: tuple[RunMode, ...] = (
    RunMode(True),
    RunMode(False),
    RunMode(True, "busy"),
    RunMode(True, "broken"),
    RunMode(False, "killed"),
    RunMode(False, "forgetful"),
    RunMode(False, "busy"),
)


def list_run_modes(model_kind: ModelKind) -> tuple[RunMode, ...]:
    """Return the run modes for a kind of model. A provider can only forget ids and reasoning."""
    return RUN_MODES[:6] if model_kind.needs_provider_state else RUN_MODES[:5]


@dataclass
class StoryRecording:
    """The result of a run: its requests, the facts of all its sessions, and the error that ended it, if any."""

    requests: list[bytes]
    facts: list[str]
    error: str = ""


def record_story(story: Any, model_kind: ModelKind | None, mode: RunMode, seed: str) -> StoryRecording:
    """Run a story once, in virtual time. Without a kind, its agents have models of their own."""
    provider, store = FakeProvider(mode.fault_mode), MemoryStore()
    story_run = _StoryRun(story, model_kind, mode, store, provider)
    error, now = "", 0.0
    with connect_clients_to(provider):
        for life in range(MAX_LIVES):
            loop = VirtualLoop(now)
            try:
                error = run_in_virtual_time(partial(story_run.run_process, loop), f"{seed} {life}", loop)
                break
            except LoopStopped:
                now, error = loop.time(), f"killed {life + 1} times"
            except EndlessConversation as endless:
                error = f"Endless: {endless}"
                break
    return StoryRecording(provider.requests, read_facts(store), error)


class _StoryRun:
    """A run of one story, in as many lives of a process as it takes."""

    def __init__(self, story: Any, model_kind: ModelKind | None, mode: RunMode, store: MemoryStore, provider: FakeProvider) -> None:
        user = replace(story.user, max_resumes=max(story.user.max_resumes, MAX_RESUMES), max_steps=MAX_STEPS_PER_LIFE)
        self._story = replace(story, user=user, build=self._build, check=lambda outcome: None)
        self._real_build = story.build
        self._model_kind = model_kind
        self._mode = mode
        self._store = store
        self._provider = provider
        self._world: Any = None  # it outlives the process
        self._process: FailingStore | None = None

    def _build(self, store: Any, world: Any) -> Any:
        self._world = world
        return self._real_build(store, world)

    async def run_process(self, loop: VirtualLoop) -> str:
        """Run the story until it ends, or the process is killed; return the error that ended it, if any."""
        store: Any = self._store
        if self._mode.fault_mode == "killed":
            if self._process is not None:
                await self._process.release_leases()
            store = self._process = FailingStore(self._store)
            store.on_death = loop.stop
            self._provider.kill_process = store.die
        kind = self._model_kind
        with replace_scripted_models(kind.make_model(self._mode.stream), kind.has_reasoning) if kind is not None else nullcontext():
            try:
                await self._story.run(store, self._mode.stream, self._world)
            except (Exception, asyncio.CancelledError) as raised:
                return f"{type(raised).__name__}: {raised}"
        return ""


omitted_fields: set[str] = set()
"""Fields of facts that are not recorded, such as one that an older version does not have."""


def read_facts(store: MemoryStore) -> list[str]:
    """Return the facts of every session, one line each, without the fields that have their default values."""
    lines: list[str] = []

    async def read() -> None:
        for info in sorted(await store.list(), key=lambda info: info.ledger):
            for position, fact in enumerate(await store.read(info.ledger)):
                lines.append(f"{info.ledger} {position} {render_fact(fact, omitted_fields)}")

    asyncio.run(read())
    return lines


def render_fact(fact: Any, omitted: Collection[str] = ()) -> str:
    """Render a fact as text. Fields with their default values are left out, so that a new field changes nothing where it is not used."""
    parts = []
    for name, default in _list_fields(type(fact)):
        value = getattr(fact, name)
        if name not in omitted and value != default:
            parts.append(f"{name}={value!r}")
    return f"{type(fact).__name__}({', '.join(parts)})"


@cache
def _list_fields(kind: type[Any]) -> list[tuple[str, Any]]:
    """Return the fields of a kind of facts, each with its default value."""
    fields = msgspec.structs.fields(kind)
    return [(each.name, each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory()) for each in fields]


def collect_stories() -> dict[str, Any]:
    """Return every story of the crash sweep, by its title."""
    from tests.crash.crash_stories import CRASH_STORIES
    from tests.stories.all_stories import STORIES

    return {**CRASH_STORIES, **STORIES}
