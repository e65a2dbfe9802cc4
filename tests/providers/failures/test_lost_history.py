"""History that the provider lost or never stored is sent by value within the same turn, without a failure (stories 40, 41; C4)."""

from __future__ import annotations

import time
from typing import Any

import httpx2
import openai
import pytest

from legato import Session
from legato.emulator.fake_models.base import ReplyText, ReplyThought
from legato.stores.contract import Store
from tests.providers.cross_provider.test_ten_handoffs import HANDOFF_COUNT, ITEM_ID, SCRIPT, TASK, make_team
from tests.providers.failures.emulator_harness import (
    KEY,
    RESPONSES_FORMATS,
    STORING_FORMATS,
    EmulatorHarness,
    collect_events,
    collect_shown_messages,
    find_conversations,
    find_failed_requests,
    find_replies,
    format_body,
    run_emulator,
)
from tests.providers.failures.test_retries import make_greeter

ANSWERS = ["One.", "Two.", "Three.", "Four.", "Five."]
SCRIPT_OF_FIVE: list[Any] = [[ReplyThought(f"thought {word}"), ReplyText(word)] for word in ANSWERS]
DAY_S = 24 * 60 * 60


async def check_undisturbed_turn(session: Session, words: str) -> None:
    """Run the next turn, and check that it shows no failure."""
    events = await collect_events(session.run("Go on", stream=True))
    assert collect_shown_messages(events) == [words]
    assert not {event.type for event in events} & {"model_failed", "output_reset"}
    assert find_failed_requests(session) == []


async def run_two_turns(harness: EmulatorHarness, name: str, store: Store | None = None, **options: Any) -> Session:
    session = make_greeter(harness.make_model(name, **options)).session("s", store=store)
    for word in ANSWERS[:2]:
        assert (await session.run("Go on")).text == word
    return session


async def check_continues(harness: EmulatorHarness, session: Session, name: str, since: int = 0) -> None:
    """Check that the turn after the loss went by value, and that the next turns continue it."""
    third = (await harness.read_exchanges())[-1]
    assert not third.request_body.keys() & {"previous_response_id"}
    assert len(third.request_body["input"]) >= 5  # three messages of the user, two replies, and reasoning
    await check_undisturbed_turn(session, "Four.")
    await check_undisturbed_turn(session, "Five.")
    fourth, fifth = find_replies(session)[3:]
    assert fifth.base == (fourth.response_id if name != "responses conversation" else fourth.base) != ""
    assert (await harness.read_exchanges())[-1].request_body["input"] == [{"role": "user", "content": "Go on"}]
    await harness.check_sessions(session, refusals=1, since=since)
    assert session.losses == []


@pytest.mark.parametrize("name", ["responses chained", "azure"])
async def test_expired_response_is_replaced_by_value(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    now = time.time()
    async with run_emulator(stream, SCRIPT_OF_FIVE, clock=lambda: now) as harness:
        session = await run_two_turns(harness, name, store)
        now += 31 * DAY_S
        await check_undisturbed_turn(session, "Three.")
        assert [exchange.status for exchange in await harness.read_exchanges()] == [200, 200, 400, 200]
        await check_continues(harness, session, name)


@pytest.mark.parametrize("name", ["responses chained", "azure"])
async def test_deleted_response_is_replaced_by_value(name: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT_OF_FIVE) as harness:
        session = await run_two_turns(harness, name)
        async with openai.AsyncOpenAI(base_url=harness.emulator.openai_url, api_key=KEY) as other:
            await other.responses.delete(find_replies(session)[-1].response_id)
        await check_undisturbed_turn(session, "Three.")
        await check_continues(harness, session, name)


async def test_deleted_conversation_is_replaced_by_value(place: tuple[bool, Store]) -> None:
    stream, store = place
    async with run_emulator(stream, SCRIPT_OF_FIVE) as harness:
        session = await run_two_turns(harness, "responses conversation", store)
        deleted = find_conversations(session)[-1]
        async with openai.AsyncOpenAI(base_url=harness.emulator.openai_url, api_key=KEY) as other:
            await other.conversations.delete(deleted)
        await check_undisturbed_turn(session, "Three.")
        await check_continues(harness, session, "responses conversation")
        assert deleted not in [exchange.request_body.get("conversation") for exchange in (await harness.read_exchanges())[3:]]


@pytest.mark.parametrize("name", STORING_FORMATS)
async def test_history_of_another_account_is_sent_by_value(name: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT_OF_FIVE) as harness:
        options = {"model": "gpt-5.1", "effort": "none"} if name != "azure" else {}
        session = await run_two_turns(harness, name, **options)
        session = make_greeter(harness.make_model(name, key="sk-of-somebody-else", **options)).session("s", store=session.store)
        await check_undisturbed_turn(session, "Three.")
        for word in ANSWERS[3:]:
            await check_undisturbed_turn(session, word)
        assert (await harness.read_exchanges())[-1].request_body["input"] == [{"role": "user", "content": "Go on"}]


@pytest.mark.parametrize("name", STORING_FORMATS)
async def test_another_model_never_continues_stored_history(name: str, stream: bool) -> None:
    """History that one model of the provider stores is not used with another model."""
    async with run_emulator(stream, SCRIPT_OF_FIVE) as harness:
        session = await run_two_turns(harness, name)
        session = make_greeter(harness.make_model(name, model="gpt-5-mini")).session("s", store=session.store)
        for word in ANSWERS[2:]:
            await check_undisturbed_turn(session, word)
        assert await harness.find_refusals() == []
        third = (await harness.read_exchanges())[2].request_body
        assert "previous_response_id" not in third
        assert third.get("conversation") not in {
            exchange.request_body.get("conversation") for exchange in (await harness.read_exchanges())[:2]
        } - {None}
        await harness.check_sessions(session)


@pytest.mark.parametrize("name", STORING_FORMATS)
async def test_server_without_state_gets_history_by_value(name: str, stream: bool) -> None:
    """The server has the same address and keys, and no state: it was moved, or lost its disk."""
    async with run_emulator(stream, SCRIPT_OF_FIVE) as before:
        session = await run_two_turns(before, name)
        port = int(before.emulator.url.rpartition(":")[2])
        await before.close()
        before.emulator.stop()
        async with run_emulator(stream, SCRIPT_OF_FIVE, port=port) as harness:
            session = make_greeter(harness.make_model(name)).session("s", store=session.store)
            await check_undisturbed_turn(session, "Three.")
            await check_continues(harness, session, name, since=2)


# -- accounts without storage ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RESPONSES_FORMATS)
async def test_zero_data_retention_works_without_ids(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    async with run_emulator(stream, SCRIPT, switches={"responses.zero_data_retention": True}) as harness:
        session = make_team(harness.make_model(name)).session("s", store=store)
        result = await session.run(TASK)
        assert (result.error, result.text) == ("", "Here is all about teapots.")
        assert find_failed_requests(session) == []
        for exchange in await harness.read_exchanges():
            assert not exchange.request_body.keys() & {"previous_response_id", "conversation"}
            assert ITEM_ID.findall(format_body(exchange)) == []
        assert [exchange.status for exchange in await harness.read_exchanges()] == [200] * (3 * HANDOFF_COUNT + 1)
        assert not any(fact.stored for fact in find_replies(session))
        assert find_conversations(session) == []
        assert session.losses == []
        await harness.check_sessions(session)
        others = [exchange.status for exchange in await harness.read_all_exchanges() if not exchange.is_model_request]
        assert others == ([400] if name == "responses conversation" else [])  # a conversation is requested once


class NoConversationsTransport(httpx2.AsyncHTTPTransport):
    """A transport to a server that does not know the path of conversations."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(path=request.url.path.replace("/conversations", "/no-such-path"))
        return await super().handle_async_request(request)


async def test_server_without_conversations_uses_stored_responses(stream: bool) -> None:
    """Some servers of this API have no conversations. They may store responses, which are continued."""
    async with run_emulator(stream, SCRIPT_OF_FIVE) as harness:
        model = harness.make_model(
            "responses conversation", http_client=httpx2.AsyncClient(transport=NoConversationsTransport(verify=False))
        )
        session = make_greeter(model).session("s")
        for word in ANSWERS:
            await check_undisturbed_turn(session, word)
        assert find_conversations(session) == []
        assert (await harness.read_exchanges())[-1].request_body["previous_response_id"] == find_replies(session)[-2].response_id
        await harness.check_sessions(session)
