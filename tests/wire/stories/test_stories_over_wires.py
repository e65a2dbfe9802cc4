"""Every story over every wire, streaming and not, on each store (C1, C2, C3, C4, C6): nothing is refused, and what went over HTTP is
what each agent should have seen."""

from __future__ import annotations

from typing import Any

import pytest

from legato.stores.contract import Store
from legato.testing.story import Story
from tests.stories.all import STORIES
from tests.wire.stories.odd import STORIES as ODD
from tests.wire.stories.telling import check, check_cache, tell
from tests.wire.stories.traffic import Provider
from tests.wire.stories.wires import WIRES

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("story", [pytest.param(story, id=title) for title, story in {**STORIES, **ODD}.items()])
async def test_a_story_is_the_same_over_a_wire(
    story: Story, wire: str, stream: bool, store: Store, emulated: Provider, models: dict[tuple[str, bool], Any]
) -> None:
    told = await tell(story, emulated, WIRES[wire], models[wire, stream], stream, store)
    check(told)
    check_cache(told)
