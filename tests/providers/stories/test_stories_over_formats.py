"""Every story in every format, streaming and not, with each store (C1, C2, C3, C4, C6): nothing is refused, requests have the agents'
views, and streaming changes no facts."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from legato.stores import MemoryStore, SQLiteStore
from tests.providers.stories.odd_stories import STORIES as ODD
from tests.providers.stories.recording_provider import RecordingProvider
from tests.providers.stories.story_formats import FORMATS
from tests.providers.stories.story_player import check_prompt_cache, check_story, count_recorded_facts, play_story
from tests.stories.all_stories import STORIES

pytestmark = pytest.mark.asyncio(loop_scope="session")


ALL_STORIES = {**STORIES, **ODD}
CASES = [(title, wire, "memory") for title in ALL_STORIES for wire in FORMATS]
# tests/stories has every story with every store. Here each story uses SQLite once, in another format than the story before it.
CASES += [(title, wire, "sqlite") for title, wire in zip(ALL_STORIES, cycle(FORMATS), strict=False)]


@pytest.mark.parametrize(("title", "format", "stored"), CASES, ids=map("-".join, CASES))
async def test_story_is_the_same_streamed_or_not(
    title: str, format: str, stored: str, emulated: RecordingProvider, models: dict[tuple[str, bool], Any], folder: Path
) -> None:
    facts = []
    for stream in (False, True):
        async with MemoryStore() if stored == "memory" else SQLiteStore(folder / f"{stream}.db") as store:
            played = await play_story(ALL_STORIES[title], emulated, FORMATS[format], models[format, stream], stream, store)
        check_story(played)
        check_prompt_cache(played)
        facts.append(count_recorded_facts(played))
    assert facts[0] == facts[1]
