"""Deciding on calls that wait: once, on what was recorded, and with the caller's context."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.compat.agents import Agent, ContextLeftBehind, Runner, RunState, SQLiteSession, UserError
from legato.compat.agents.conversation_storage import default_store
from legato.errors import CodecError, NotPending
from tests.compat.agents.conftest import Provider
from tests.compat.agents.desk import Shop, desk, fake_model, read, write

SAID = "I want my money back for A-1 and B-2."


async def run_until_approval() -> Any:
    return await Runner.run(desk(), SAID, context=Shop("Ladle & Co"))


async def test_second_decision_changes_nothing(provider: Provider) -> None:
    provider(fake_model)
    result = await run_until_approval()
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
    provider(fake_model)
    mine, other = await run_until_approval(), await run_until_approval()
    state = mine.to_state()
    with pytest.raises(NotPending):
        state.approve(other.interruptions[0])
    with pytest.raises(UserError, match="interruptions"):
        state.approve("call_1")
    assert len(state.get_interruptions()) == 1


async def test_string_loaded_twice_is_one_conversation(provider: Provider) -> None:
    provider(fake_model)
    text = (await run_until_approval()).to_state().to_string(context_serializer=write)
    first = await RunState.from_string(desk(), text, context_deserializer=read)
    second = await RunState.from_string(desk(), text, context_deserializer=read)
    (item,) = second.get_interruptions()
    first.approve(first.get_interruptions()[0])
    with pytest.raises(NotPending):
        second.reject(item)
    assert second.get_interruptions() == []


async def test_unserializable_context_is_refused_or_warned_about(provider: Provider) -> None:
    provider(fake_model)
    state = (await run_until_approval()).to_state()
    with pytest.raises(UserError, match="context_serializer"):
        state.to_string(strict_context=True)
    with pytest.warns(ContextLeftBehind):
        text = state.to_string()
    assert "Ladle" not in text.replace("of Ladle", "").replace("Ladle & Co refunded", "")
    found = await RunState.from_string(desk(), text, context_override=Shop("Spoon Ltd"), strict_context=True)
    assert found.wrapper.context == Shop("Spoon Ltd")


async def test_resuming_without_its_context_is_reported(provider: Provider) -> None:
    """A context that was left behind is reported where the run continues."""
    provider(fake_model)
    state = (await run_until_approval()).to_state()
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


async def test_serialized_context_needs_a_deserializer(provider: Provider) -> None:
    provider(fake_model)
    written = (await run_until_approval()).to_state().to_string(context_serializer=write)
    with pytest.raises(UserError, match="context_deserializer"):
        await RunState.from_string(desk(), written, strict_context=True)
    with pytest.warns(ContextLeftBehind, match="context_deserializer"):
        found = await RunState.from_string(desk(), written)
    assert found.wrapper.context == {"name": "Ladle & Co"}


async def test_mapping_context_is_stored_unchanged(provider: Provider) -> None:
    """A mapping is stored unchanged, and `from_json` reads the same as `from_string`."""
    provider(["Hello!"])
    result = await Runner.run(Agent(name="clerk"), "Hi", context={"user": "ada"})
    found = await RunState.from_json(Agent(name="clerk"), result.to_state().to_json(strict_context=True), strict_context=True)
    assert found.wrapper.context == {"user": "ada"}
    assert (await Runner.run(Agent(name="clerk"), found)).final_output == "Hello!"


@pytest.mark.parametrize("context", [5, None, [], {}, "x", {"by": "itself"}, {"by": 3, "value": 1}, {"by": [], "value": 1}])
async def test_a_context_that_somebody_else_wrote_is_refused(provider: Provider, context: object) -> None:
    provider(fake_model)
    state = (await run_until_approval()).to_state()
    changed = {**state.to_json(context_serializer=write), "context": context, "session": "another"}
    with pytest.raises(CodecError, match="was not written by"):
        await RunState.from_json(desk(), changed)
    assert await default_store().read("another") == []


async def test_what_is_no_state_is_refused() -> None:
    for text in ("{}", "not json", '{"$schemaVersion": "1.9"}'):
        with pytest.raises(CodecError):
            await RunState.from_string(Agent(name="clerk"), text)


async def test_run_found_by_session_takes_input(provider: Provider) -> None:
    """A run is found by its session, and takes additional input."""
    emulator = provider(fake_model)
    session = SQLiteSession("customer")
    await Runner.run(desk(), SAID, context=Shop("Ladle & Co"), session=session)
    state = await RunState.from_session(desk(), session, Shop("Ladle & Co"))
    state.add_input("And thank you!")
    state.reject(state.get_interruptions()[0], rejection_message="Not today.")
    result = await Runner.run(desk(), state)
    assert result.final_output == "You are welcome."
    *_, last = [each.request_body for each in emulator.exchanges if each.is_model_request]
    assert [item.get("type", item.get("role")) for item in last["input"]] == [*["function_call_output"] * 3, "user"]


async def test_context_reports_approval_decisions(provider: Provider) -> None:
    provider(fake_model)
    result = await run_until_approval()
    (item,) = result.interruptions
    context, which = result.context_wrapper, (item.name, item.call_id)
    assert context.get_approval_status(*which) is None
    state = result.to_state()
    state.reject(item, rejection_message="Not today.")
    result = await Runner.run(desk(), state)
    context = result.context_wrapper
    assert (context.is_tool_approved(*which), context.get_rejection_message(*which)) == (False, "Not today.")
