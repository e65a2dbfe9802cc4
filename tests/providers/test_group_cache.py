"""What wires keep of groups: for as long as the groups live, and no longer."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from legato.core.groups import Group
from legato.providers.formats.group_cache import cache_of, clear_cache
from legato.runtime.session_cache import SESSIONS
from legato.stores import MemoryStore
from tests.providers.longtalk import desk, question
from tests.providers.sweep.lines import LINES, Line
from tests.providers.test_work import InProcess


def test_cache_lives_as_long_as_group() -> None:
    group = Group("said", 1)
    cache = ref(cache_of(group).setdefault("key", Group("said", 2)))
    assert cache() is not None
    del group
    gc.collect()
    assert cache() is None


def test_cleared_cache_is_empty() -> None:
    group = Group("said", 1)
    cache_of(group)["key"] = "value"
    clear_cache([group, Group("said", 2)])
    assert cache_of(group) == {}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
async def test_session_takes_its_cache_along(line: Line) -> None:
    """Nothing that was made of a conversation keeps it, or itself, once its session and state are gone."""
    store = MemoryStore()
    session = desk(InProcess(line)).session("s", store=store)
    for number in range(1, 6):
        await session.run(question(number))
    groups = [ref(group) for group in session.state.groups]
    assert any(cache_of(group) for group in session.state.groups)
    del session
    SESSIONS.clear(store)
    gc.collect()
    assert not any(group() is not None for group in groups)
