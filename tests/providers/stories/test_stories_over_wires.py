"""Every story over every wire, on each store, streaming and not (C1, C2, C3, C4, C6): nothing is refused, what went over HTTP is what
each agent should have seen, and the same is recorded either way."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from legato.stores import MemoryStore, SQLiteStore
from tests.providers.stories.odd import STORIES as ODD
from tests.providers.stories.telling import check, check_cache, recorded, tell
from tests.providers.stories.traffic import Provider
from tests.providers.stories.wires import WIRES
from tests.stories.all import STORIES

pytestmark = pytest.mark.asyncio(loop_scope="session")


ALL = {**STORIES, **ODD}
CASES = [(title, wire, "memory") for title in ALL for wire in WIRES]
# tests/stories has every story on every store. Here each story is on SQLite once, over another wire than the story before it.
CASES += [(title, wire, "sqlite") for title, wire in zip(ALL, cycle(WIRES), strict=False)]


@pytest.mark.parametrize(("title", "wire", "stored"), CASES, ids=map("-".join, CASES))
async def test_a_story_is_the_same_over_a_wire_streaming_and_not(
    title: str, wire: str, stored: str, emulated: Provider, models: dict[tuple[str, bool], Any], folder: Path
) -> None:
    facts = []
    for stream in (False, True):
        async with MemoryStore() if stored == "memory" else SQLiteStore(folder / f"{stream}.db") as store:
            told = await tell(ALL[title], emulated, WIRES[wire], models[wire, stream], stream, store)
        check(told)
        check_cache(told)
        facts.append(recorded(told))
    assert facts[0] == facts[1]
