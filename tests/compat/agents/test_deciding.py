"""Deciding on calls that wait: once, on what was recorded, and with the caller's context."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.compat.agents import Agent, ContextLeftBehind, Runner, RunState, SQLiteSession, UserError
from legato.compat.agents.places import default_store
from legato.errors import CodecError, NotPending
from tests.compat.agents.conftest import Provider
from tests.compat.agents.desk import Shop, desk, mind, read, write

SAID = "I want my money back for A-1 and B-2."


async def waiting() -> Any:
    return await Runner.run(desk(), SAID, context=Shop("Ladle & Co"))


async def test_a_decision_is_made_once_and_a_second_changes_nothing(provider: Provider) -> None:
    provider(mind)
    result = await waiting()
    (item,) = result.interruptions
    assert (item.name, item.agent.name, json.loads(item.arguments)) == ("refund", "Refunds", {"order": "A-1", "cents": 900})
    state = result.to_state()
    state.approve(item)
    for again in (state.approve, state.reject):
        before = await default_store().read(state.id)
        with pytest.raises(NotPending):
            again(item)
        assert await default_store().read(state.id) == before
    assert (await Runner.run(desk(), state)).final_output


async def test_an_item_of_another_run_decides_nothing(provider: Provider) -> None:
    provider(mind)
    mine, other = await waiting(), await waiting()
    state = mine.to_state()
    with pytest.raises(NotPending):
        state.approve(other.interruptions[0])
    with pytest.raises(UserError, match="interruptions"):
        state.approve("call_1")
    assert len(state.get_interruptions()) == 1


async def test_the_same_string_read_twice_is_the_same_conversation(provider: Provider) -> None:
    provider(mind)
    text = (await waiting()).to_state().to_string(context_serializer=write)
    first = await RunState.from_string(desk(), text, context_deserializer=read)
    second = await RunState.from_string(desk(), text, context_deserializer=read)
    (item,) = second.get_interruptions()
    first.approve(first.get_interruptions()[0])
    with pytest.raises(NotPending):
        second.reject(item)
    assert second.get_interruptions() == []


async def test_a_context_that_cannot_go_along_is_refused_or_told(provider: Provider) -> None:
    provider(mind)
    state = (await waiting()).to_state()
    with pytest.raises(UserError, match="context_serializer"):
        state.to_string(strict_context=True)
    with pytest.warns(ContextLeftBehind):
        text = state.to_string()
    assert "Ladle" not in text.replace("of Ladle", "").replace("Ladle & Co refunded", "")
    found = await RunState.from_string(desk(), text, context_override=Shop("Spoon Ltd"), strict_context=True)
    assert found.wrapper.context == Shop("Spoon Ltd")


async def test_a_context_that_was_left_behind_is_missed_where_the_run_goes_on(provider: Provider) -> None:
    provider(mind)
    state = (await waiting()).to_state()
    with pytest.warns(ContextLeftBehind):
        text = state.to_string()
    with pytest.warns(ContextLeftBehind, match=r"a Shop: pass context_override") as caught:
        found = await RunState.from_string(desk(), text)
    assert found.wrapper.context is None
    assert caught[0].filename == __file__
    with pytest.raises(UserError, match=r"a Shop: pass context_override"):
        await RunState.from_string(desk(), text, strict_context=True)
    with pytest.raises(UserError, match=r"a Shop: pass context_override"):
        await RunState.from_string(desk(), text, strict_context=True, context_deserializer=read)


async def test_a_context_that_a_serializer_wrote_wants_a_deserializer(provider: Provider) -> None:
    provider(mind)
    written = (await waiting()).to_state().to_string(context_serializer=write)
    with pytest.raises(UserError, match="context_deserializer"):
        await RunState.from_string(desk(), written, strict_context=True)
    with pytest.warns(ContextLeftBehind, match="context_deserializer"):
        found = await RunState.from_string(desk(), written)
    assert found.wrapper.context == {"name": "Ladle & Co"}


async def test_a_mapping_goes_along_as_it_is_and_a_dict_is_as_good_as_a_string(provider: Provider) -> None:
    provider(["Hello!"])
    result = await Runner.run(Agent(name="clerk"), "Hi", context={"user": "ada"})
    found = await RunState.from_json(Agent(name="clerk"), result.to_state().to_json(strict_context=True), strict_context=True)
    assert found.wrapper.context == {"user": "ada"}
    assert (await Runner.run(Agent(name="clerk"), found)).final_output == "Hello!"


@pytest.mark.parametrize("context", [5, None, [], {}, "x", {"by": "itself"}, {"by": 3, "value": 1}, {"by": [], "value": 1}])
async def test_a_context_that_somebody_else_wrote_is_refused(provider: Provider, context: object) -> None:
    provider(mind)
    state = (await waiting()).to_state()
    changed = {**state.to_json(context_serializer=write), "context": context, "session": "another"}
    with pytest.raises(CodecError, match="was not written by"):
        await RunState.from_json(desk(), changed)
    assert await default_store().read("another") == []


async def test_what_is_no_state_is_refused() -> None:
    for text in ("{}", "not json", '{"$schemaVersion": "1.9"}'):
        with pytest.raises(CodecError):
            await RunState.from_string(Agent(name="clerk"), text)


async def test_a_run_is_found_in_its_session_and_hears_what_is_added(provider: Provider) -> None:
    emulator = provider(mind)
    session = SQLiteSession("customer")
    await Runner.run(desk(), SAID, context=Shop("Ladle & Co"), session=session)
    state = await RunState.from_session(desk(), session, Shop("Ladle & Co"))
    state.add_input("And thank you!")
    state.reject(state.get_interruptions()[0], rejection_message="Not today.")
    result = await Runner.run(desk(), state)
    assert result.final_output == "You are welcome."
    *_, last = [each.request_body for each in emulator.exchanges if each.is_model_request]
    assert [item.get("type", item.get("role")) for item in last["input"]] == [*["function_call_output"] * 3, "user"]


async def test_what_was_decided_can_be_asked_of_the_context(provider: Provider) -> None:
    provider(mind)
    result = await waiting()
    (item,) = result.interruptions
    context, which = result.context_wrapper, (item.name, item.call_id)
    assert context.get_approval_status(*which) is None
    state = result.to_state()
    state.reject(item, rejection_message="Not today.")
    result = await Runner.run(desk(), state)
    context = result.context_wrapper
    assert (context.is_tool_approved(*which), context.get_rejection_message(*which)) == (False, "Not today.")
