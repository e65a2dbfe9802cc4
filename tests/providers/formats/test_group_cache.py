"""The cache of encoded groups lives exactly as long as the groups."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from legato.core.groups import Group
from legato.providers.formats.group_cache import clear_group_caches, get_group_cache
from legato.runtime.session_cache import SESSION_CACHE
from legato.stores import MemoryStore
from tests.providers.formats.test_incremental_encoder import InProcessModel
from tests.providers.long_conversation import make_desk, make_question
from tests.providers.sweep.format_variants import VARIANTS, FormatVariant


def test_cache_lives_as_long_as_group() -> None:
    group = Group("said", 1)
    cache = ref(get_group_cache(group).setdefault("key", Group("said", 2)))
    assert cache() is not None
    del group
    gc.collect()
    assert cache() is None


def test_cleared_cache_is_empty() -> None:
    group = Group("said", 1)
    get_group_cache(group)["key"] = "value"
    clear_group_caches([group, Group("said", 2)])
    assert get_group_cache(group) == {}


@pytest.mark.parametrize("line", VARIANTS, ids=lambda line: line.name)
async def test_caches_are_freed_with_their_session(line: FormatVariant) -> None:
    """No cache keeps a conversation or itself alive after its session and state are gone."""
    store = MemoryStore()
    session = make_desk(InProcessModel(line)).session("s", store=store)
    for number in range(1, 6):
        await session.run(make_question(number))
    groups = [ref(group) for group in session.state.groups]
    assert any(get_group_cache(group) for group in session.state.groups)
    del session
    SESSION_CACHE.remove_store(store)
    gc.collect()
    assert not any(group() is not None for group in groups)
