"""Every story on every store, streaming and not (C1, C2, C3, C6): the same facts either way."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from legato.core.facts import ModelReplied
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.testing.story import Story, Told
from tests.stories.all import STORIES


@pytest.mark.parametrize("story", [pytest.param(story, id=title) for title, story in STORIES.items()])
async def test_story(story: Story, store: Store, stream: bool) -> None:
    told = await story.tell(store, stream)
    # Told without a death, every reply has a request that was really asked, and `checking` has compared the two.
    replies = [fact for fact in told.session.facts if isinstance(fact, ModelReplied)]
    asked = {(request.turn, request.upto, request.frame_digest) for request in told.requests}
    assert {(number, fact.upto, fact.frame) for number, fact in enumerate(replies)} <= asked


@pytest.mark.parametrize("story", [pytest.param(story, id=title) for title, story in STORIES.items()])
async def test_streaming_and_not_streaming_record_the_same_facts(story: Story) -> None:
    whole, streamed = [await story.tell(MemoryStore(), stream) for stream in (False, True)]
    assert _lasting(whole) == _lasting(streamed)


def _lasting(told: Told) -> Counter[str]:
    """The facts, without what differs from telling to telling; parallel tools may end in any order."""
    facts = [replace(fact, at=0, **{name: 0 for name in ("took", "retry_at") if hasattr(fact, name)}) for fact in told.session.facts]
    return Counter(str(fact).replace(told.session.state.ledger, "this ledger") for fact in facts)
