"""All stories on every store, streaming and not (C1, C2, C3, C6)."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from legato.core.facts import ModelReplied
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.testing.story import Story, StoryResult
from tests.stories.all_stories import STORIES


@pytest.mark.parametrize("story", [pytest.param(story, id=title) for title, story in STORIES.items()])
async def test_story_keeps_all_promises(story: Story, store: Store, stream: bool) -> None:
    result = await story.run(store, stream)
    # Without a process death, the request behind every reply was sent, and `conversation_checks` has compared the two.
    replies = [fact for fact in result.session.facts if isinstance(fact, ModelReplied)]
    sent = {(request.reply_count, request.upto, request.context_digest) for request in result.requests}
    assert {(number, fact.upto, fact.context_digest) for number, fact in enumerate(replies)} <= sent


@pytest.mark.parametrize("story", [pytest.param(story, id=title) for title, story in STORIES.items()])
async def test_streaming_records_the_same_facts(story: Story) -> None:
    whole, streamed = [await story.run(MemoryStore(), stream) for stream in (False, True)]
    assert count_lasting_facts(whole) == count_lasting_facts(streamed)


def count_lasting_facts(result: StoryResult) -> Counter[str]:
    """Return the facts without times and ids, which differ in each run; parallel tools may end in any order."""
    facts = [
        replace(fact, at=0, **{name: 0 for name in ("duration_ms", "retry_at") if hasattr(fact, name)}) for fact in result.session.facts
    ]
    return Counter(str(fact).replace(result.session.state.ledger_id, "this ledger") for fact in facts)
