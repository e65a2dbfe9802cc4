"""Messages that are recorded only if the session has the expected length."""

from __future__ import annotations

import pytest

from legato import Agent, HandoffBuilder
from legato.errors import LedgerConflict
from legato.stores import MemoryStore
from legato.testing import ScriptedModel


async def test_message_with_unexpected_length_is_refused() -> None:
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


async def test_repeated_delivery_ignores_expected_length() -> None:
    session = HandoffBuilder("chat", [Agent("ada", model=ScriptedModel(["one"]))]).build().session("c", store=MemoryStore())
    for _ in range(2):
        await session.say("first", key="k", expected=0)
    assert [message.text for message in session.messages] == ["first"]
