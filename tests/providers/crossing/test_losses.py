"""What cannot be carried over is told, once, and never in silence: searches, citations, reasoning (story 16)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from legato import Session
from legato.core.facts import Hosted
from legato.core.facts import Words as Said
from legato.emulator.minds.base import Use, Words
from tests.providers.crossing.searching import FOUND, Searching
from tests.providers.crossing.test_two_providers import ONE_MODEL, desk
from tests.providers.failures.wires import HELD, WIRES, Line, answers, body_text, line

SCRIPT: list[Any] = [
    [Words("I found one."), Use("handoff_to_back")],
    [Words("I see."), Use("handoff_to_front")],
    [Words("So there is one.")],
    [Words("Yes.")],
]
SEARCHES = {"anthropic": ["server_tool_use", "web_search_tool_result"]}


def searching(wire: Line, name: str) -> Any:
    return wire.model(name, http_client=httpx2.AsyncClient(transport=Searching(verify=False)))


def kinds(session: Session, agent: str) -> list[str]:
    return [item.kind for fact in answers(session) if fact.agent == agent for item in fact.items if isinstance(item, Hosted)]


def searches_of(name: str) -> list[str]:
    return [] if name.startswith("chat") else SEARCHES.get(name, ["web_search_call"])


@pytest.mark.parametrize("front", WIRES)
async def test_what_a_provider_searched_and_cited_is_recorded(front: str, stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        session = desk(searching(wire, front), wire.model("chat")).session("s")
        await session.run("Find me a teapot")
        assert kinds(session, "front")[: len(searches_of(front))] == searches_of(front)
        words = [item for fact in answers(session) if fact.agent == "front" for item in fact.items if isinstance(item, Said)]
        assert [FOUND in item.notes for item in words] == [True, True]


BACKS = ("responses inline", "responses chained", "chat", "anthropic")
PAIRS = [(front, back) for front in WIRES for back in BACKS if front != back and not {front, back} <= ONE_MODEL]


@pytest.mark.parametrize(("front", "back"), PAIRS, ids=[f"{front} to {back}" for front, back in PAIRS])
async def test_searches_and_citations_that_another_provider_does_not_take_are_told_once(front: str, back: str, stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        session = desk(searching(wire, front), wire.model(back)).session("s")
        assert (await session.run("Find me a teapot")).text == "So there is one."
        second = next(fact for fact in answers(session) if fact.agent == "back")
        of_front = [loss.partition(":")[0] for loss in second.losses]
        assert [loss for loss in of_front if not loss.startswith("reasoning")] == [
            *(f"{kind} of front" for kind in searches_of(front)),
            "citations of front",
        ]
        exchange = next(exchange for exchange in await wire.exchanges() if (exchange.reply or {}).get("id") == second.response_id)
        assert FOUND not in body_text(exchange)
        assert await wire.refused() == []
        await session.run("Is that so?")
        assert len(set(session.losses)) == len(session.losses)


@pytest.mark.parametrize("name", HELD)
async def test_what_the_provider_holds_is_not_lost(name: str, stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        model = searching(wire, name)
        session = desk(model, model).session("s")
        await session.run("Find me a teapot")
        await session.run("Is that so?")
        assert kinds(session, "front")[:1] == ["web_search_call"]
        assert session.losses == []
        assert await wire.refused() == []


async def test_at_home_searches_and_citations_go_back_by_value(stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        model = searching(wire, "responses inline")
        session = desk(model, model).session("s")
        await session.run("Find me a teapot")
        await session.run("Is that so?")
        assert await wire.refused() == []
        sent = body_text((await wire.exchanges())[1])
        assert "web_search_call" in sent
        assert "url_citation" in sent
        assert session.losses == []


async def test_anthropic_takes_its_own_searches_and_citations_back_as_they_were(stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        session = desk(searching(wire, "anthropic"), wire.model("chat")).session("s")
        await session.run("Find me a teapot")
        first, _, third = await wire.exchanges()
        blocks = [block for message in third.request["messages"] for block in message["content"] if message["role"] == "assistant"]
        assert [block["type"] for block in blocks][:3] == ["server_tool_use", "web_search_tool_result", "text"]
        assert FOUND in str(blocks[2]["citations"])
        assert FOUND not in body_text(first)
        assert await wire.refused() == []


@pytest.mark.parametrize(("front", "back"), [("anthropic", "chat"), ("responses chained", "anthropic"), ("azure", "responses inline")])
async def test_a_loss_is_told_in_an_event_at_the_reply_that_went_without(front: str, back: str, stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        session = desk(searching(wire, front), wire.model(back)).session("s")
        events = [event async for event in session.run("Find me a teapot")]
        told = [(event.position, event.data) for event in events if event.type == "loss"]
        assert told == [(position, loss) for position, fact in enumerate(session.facts) for loss in getattr(fact, "losses", ())]
        assert [loss for _, loss in told] == session.losses != []
