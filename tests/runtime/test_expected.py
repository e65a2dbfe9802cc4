"""Saying something only if nothing has happened since one looked."""

from __future__ import annotations

import pytest

from legato import Agent, HandoffBuilder
from legato.errors import LedgerConflict
from legato.stores import MemoryStore
from legato.testing import ScriptedModel


async def test_it_is_said_if_there_are_as_many_facts_as_expected_and_else_nothing_is() -> None:
    store = MemoryStore()
    workflow = HandoffBuilder("chat", [Agent("ada", model=ScriptedModel(["one"]))]).build()
    session = workflow.session("c", store=store)
    await session.say("first", expected=0)
    length = session.state.length
    await workflow.session("c", store=store).resume()
    with pytest.raises(LedgerConflict, match="first") as refused:
        await session.say("second", expected=length)
    assert refused.value.found_position == session.state.length > length
    await session.say("second", expected=session.state.length)
    assert [message.text for message in session.messages] == ["first", "one", "second"]


async def test_what_was_delivered_before_is_not_refused_for_what_has_happened_since() -> None:
    session = HandoffBuilder("chat", [Agent("ada", model=ScriptedModel(["one"]))]).build().session("c", store=MemoryStore())
    for _ in range(2):
        await session.say("first", key="k", expected=0)
    assert [message.text for message in session.messages] == ["first"]
