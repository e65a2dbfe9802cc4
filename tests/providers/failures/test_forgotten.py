"""What the provider no longer has, or never kept, goes by value within the same turn, and nobody notices (stories 40 and 41; C4)."""

from __future__ import annotations

import time
from typing import Any

import httpx2
import openai
import pytest

from legato import Session
from legato.emulator.minds.base import Thought, Words
from legato.stores.contract import Store
from tests.providers.crossing.test_ten_handoffs import ASKED, ITEM_ID, SCRIPT, TIMES, team
from tests.providers.failures.test_retries import greeter
from tests.providers.failures.wires import HELD, KEY, RESPONSES, Line, answers, attempts, body_text, conversations, events_of, line, shown

WORDS = ["One.", "Two.", "Three.", "Four.", "Five."]
MIND: list[Any] = [[Thought(f"thought {word}"), Words(word)] for word in WORDS]
DAY = 24 * 60 * 60


async def unnoticed(session: Session, words: str) -> None:
    """The next turn, as if nothing had happened."""
    events = await events_of(session.run("Go on", stream=True))
    assert shown(events) == [words]
    assert not {event.type for event in events} & {"model_failed", "output_reset"}
    assert attempts(session) == []


async def two_turns(wire: Line, name: str, store: Store | None = None, **options: Any) -> Session:
    session = greeter(wire.model(name, **options)).session("s", store=store)
    for word in WORDS[:2]:
        assert (await session.run("Go on")).text == word
    return session


async def check_goes_on(wire: Line, session: Session, name: str, since: int = 0) -> None:
    """The turn that found nothing went by value; the one after it goes on from there again."""
    third = (await wire.exchanges())[-1]
    assert not third.request.keys() & {"previous_response_id"}
    assert len(third.request["input"]) >= 5  # three messages of the user, two replies; and reasoning
    await unnoticed(session, "Four.")
    await unnoticed(session, "Five.")
    fourth, fifth = answers(session)[3:]
    assert fifth.base == (fourth.response_id if name != "responses conversation" else fourth.base) != ""
    assert (await wire.exchanges())[-1].request["input"] == [{"role": "user", "content": "Go on"}]
    await wire.check(session, refusals=1, since=since)
    assert session.losses == []


@pytest.mark.parametrize("name", ["responses chained", "azure"])
async def test_a_response_that_has_expired(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    now = time.time()
    async with line(stream, MIND, clock=lambda: now) as wire:
        session = await two_turns(wire, name, store)
        now += 31 * DAY
        await unnoticed(session, "Three.")
        assert [exchange.status for exchange in await wire.exchanges()] == [200, 200, 400, 200]
        await check_goes_on(wire, session, name)


@pytest.mark.parametrize("name", ["responses chained", "azure"])
async def test_a_response_that_somebody_deleted(name: str, stream: bool) -> None:
    async with line(stream, MIND) as wire:
        session = await two_turns(wire, name)
        async with openai.AsyncOpenAI(base_url=wire.emulator.openai_url, api_key=KEY) as other:
            await other.responses.delete(answers(session)[-1].response_id)
        await unnoticed(session, "Three.")
        await check_goes_on(wire, session, name)


async def test_a_conversation_that_somebody_deleted(place: tuple[bool, Store]) -> None:
    stream, store = place
    async with line(stream, MIND) as wire:
        session = await two_turns(wire, "responses conversation", store)
        gone = conversations(session)[-1]
        async with openai.AsyncOpenAI(base_url=wire.emulator.openai_url, api_key=KEY) as other:
            await other.conversations.delete(gone)
        await unnoticed(session, "Three.")
        await check_goes_on(wire, session, "responses conversation")
        assert gone not in [exchange.request.get("conversation") for exchange in (await wire.exchanges())[3:]]


@pytest.mark.parametrize("name", HELD)
async def test_an_account_that_is_another_one_now(name: str, stream: bool) -> None:
    async with line(stream, MIND) as wire:
        options = {"model": "gpt-5.1", "effort": "none"} if name != "azure" else {}
        session = await two_turns(wire, name, **options)
        session = greeter(wire.model(name, key="sk-of-somebody-else", **options)).session("s", store=session.store)
        await unnoticed(session, "Three.")
        for word in WORDS[3:]:
            await unnoticed(session, word)
        assert (await wire.exchanges())[-1].request["input"] == [{"role": "user", "content": "Go on"}]


@pytest.mark.parametrize("name", HELD)
async def test_a_deployment_that_is_another_one_now_is_not_even_asked(name: str, stream: bool) -> None:
    """What one model of the provider's was asked is not what another holds."""
    async with line(stream, MIND) as wire:
        session = await two_turns(wire, name)
        session = greeter(wire.model(name, model="gpt-5-mini")).session("s", store=session.store)
        for word in WORDS[2:]:
            await unnoticed(session, word)
        assert await wire.refused() == []
        third = (await wire.exchanges())[2].request
        assert "previous_response_id" not in third
        assert third.get("conversation") not in {exchange.request.get("conversation") for exchange in (await wire.exchanges())[:2]} - {None}
        await wire.check(session)


@pytest.mark.parametrize("name", HELD)
async def test_a_server_that_has_forgotten_everything(name: str, stream: bool) -> None:
    """It was moved, or lost its disk: the same address, and no state. Its seal it kept."""
    async with line(stream, MIND) as before:
        session = await two_turns(before, name)
        port = int(before.emulator.url.rpartition(":")[2])
        await before.close()
        before.emulator.stop()
        async with line(stream, MIND, port=port) as wire:
            session = greeter(wire.model(name)).session("s", store=session.store)
            await unnoticed(session, "Three.")
            await check_goes_on(wire, session, name, since=2)


# -- an account that keeps nothing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RESPONSES)
async def test_an_account_with_zero_data_retention_has_the_same_conversation_without_ids(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    async with line(stream, SCRIPT, switches={"responses.zero_data_retention": True}) as wire:
        session = team(wire.model(name)).session("s", store=store)
        result = await session.run(ASKED)
        assert (result.error, result.text) == ("", "Here is all about teapots.")
        assert attempts(session) == []
        for exchange in await wire.exchanges():
            assert not exchange.request.keys() & {"previous_response_id", "conversation"}
            assert ITEM_ID.findall(body_text(exchange)) == []
        assert [exchange.status for exchange in await wire.exchanges()] == [200] * (3 * TIMES + 1)
        assert not any(fact.stored for fact in answers(session))
        assert conversations(session) == []
        assert session.losses == []
        await wire.check(session)
        others = [exchange.status for exchange in await wire.all() if not exchange.asks]
        assert others == ([400] if name == "responses conversation" else [])  # whether it keeps conversations is asked once


class WithoutConversations(httpx2.AsyncHTTPTransport):
    """The way to a server that does not know the path."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(path=request.url.path.replace("/conversations", "/no-such-path"))
        return await super().handle_async_request(request)


async def test_a_server_that_has_no_conversations_is_told_what_it_does_not_hold(stream: bool) -> None:
    """Not every server that speaks this API has them. Responses may be stored all the same, and are gone on from."""
    async with line(stream, MIND) as wire:
        model = wire.model("responses conversation", http_client=httpx2.AsyncClient(transport=WithoutConversations(verify=False)))
        session = greeter(model).session("s")
        for word in WORDS:
            await unnoticed(session, word)
        assert conversations(session) == []
        assert (await wire.exchanges())[-1].request["previous_response_id"] == answers(session)[-2].response_id
        await wire.check(session)
