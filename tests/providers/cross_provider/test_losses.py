"""Content that another provider cannot take is reported once, never dropped silently: searches, citations, reasoning (story 16)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from legato import Session
from legato.core.facts import HostedToolUse
from legato.core.facts import OutputText as Said
from legato.emulator.fake_models.base import ReplyCall, ReplyText
from tests.providers.cross_provider.test_two_providers import ONE_MODEL, make_desk
from tests.providers.cross_provider.web_search_transport import FOUND_URL, WebSearchTransport
from tests.providers.failures.emulator_harness import FORMATS, STORING_FORMATS, EmulatorHarness, find_replies, format_body, run_emulator

SCRIPT: list[Any] = [
    [ReplyText("I found one."), ReplyCall("handoff_to_back")],
    [ReplyText("I see."), ReplyCall("handoff_to_front")],
    [ReplyText("So there is one.")],
    [ReplyText("Yes.")],
]
SEARCHES = {"anthropic": ["server_tool_use", "web_search_tool_result"]}


def make_searching_model(harness: EmulatorHarness, name: str) -> Any:
    return harness.make_model(name, http_client=httpx2.AsyncClient(transport=WebSearchTransport(verify=False)))


def list_hosted_kinds(session: Session, agent: str) -> list[str]:
    return [item.kind for fact in find_replies(session) if fact.agent == agent for item in fact.items if isinstance(item, HostedToolUse)]


def list_search_kinds(name: str) -> list[str]:
    return [] if name.startswith("chat") else SEARCHES.get(name, ["web_search_call"])


@pytest.mark.parametrize("front", FORMATS)
async def test_searches_and_citations_are_recorded(front: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_desk(make_searching_model(harness, front), harness.make_model("chat")).session("s")
        await session.run("Find me a teapot")
        assert list_hosted_kinds(session, "front")[: len(list_search_kinds(front))] == list_search_kinds(front)
        words = [item for fact in find_replies(session) if fact.agent == "front" for item in fact.items if isinstance(item, Said)]
        assert [FOUND_URL in item.citations for item in words] == [True, True]


BACK_FORMATS = ("responses inline", "responses chained", "chat", "anthropic")
FORMAT_PAIRS = [(front, back) for front in FORMATS for back in BACK_FORMATS if front != back and not {front, back} <= ONE_MODEL]


@pytest.mark.parametrize(("front", "back"), FORMAT_PAIRS, ids=[f"{front} to {back}" for front, back in FORMAT_PAIRS])
async def test_untranslatable_searches_and_citations_are_reported_once(front: str, back: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_desk(make_searching_model(harness, front), harness.make_model(back)).session("s")
        assert (await session.run("Find me a teapot")).text == "So there is one."
        second = next(fact for fact in find_replies(session) if fact.agent == "back")
        of_front = [loss.partition(":")[0] for loss in second.losses]
        assert [loss for loss in of_front if not loss.startswith("reasoning")] == [
            *(f"{kind} of front" for kind in list_search_kinds(front)),
            "citations of front",
        ]
        exchange = next(
            exchange for exchange in await harness.read_exchanges() if (exchange.reply_body or {}).get("id") == second.response_id
        )
        assert FOUND_URL not in format_body(exchange)
        assert await harness.find_refusals() == []
        await session.run("Is that so?")
        assert len(set(session.losses)) == len(session.losses)


@pytest.mark.parametrize("name", STORING_FORMATS)
async def test_stored_searches_are_no_loss(name: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        model = make_searching_model(harness, name)
        session = make_desk(model, model).session("s")
        await session.run("Find me a teapot")
        await session.run("Is that so?")
        assert list_hosted_kinds(session, "front")[:1] == ["web_search_call"]
        assert session.losses == []
        assert await harness.find_refusals() == []


async def test_searches_and_citations_are_replayed_by_value(stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        model = make_searching_model(harness, "responses inline")
        session = make_desk(model, model).session("s")
        await session.run("Find me a teapot")
        await session.run("Is that so?")
        assert await harness.find_refusals() == []
        body = format_body((await harness.read_exchanges())[1])
        assert "web_search_call" in body
        assert "url_citation" in body
        assert session.losses == []


async def test_searches_are_replayed_unchanged_to_anthropic(stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_desk(make_searching_model(harness, "anthropic"), harness.make_model("chat")).session("s")
        await session.run("Find me a teapot")
        first, _, third = await harness.read_exchanges()
        blocks = [block for message in third.request_body["messages"] for block in message["content"] if message["role"] == "assistant"]
        assert [block["type"] for block in blocks][:3] == ["server_tool_use", "web_search_tool_result", "text"]
        assert FOUND_URL in str(blocks[2]["citations"])
        assert FOUND_URL not in format_body(first)
        assert await harness.find_refusals() == []


@pytest.mark.parametrize(("front", "back"), [("anthropic", "chat"), ("responses chained", "anthropic"), ("azure", "responses inline")])
async def test_loss_event_comes_with_its_reply(front: str, back: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_desk(make_searching_model(harness, front), harness.make_model(back)).session("s")
        events = [event async for event in session.run("Find me a teapot")]
        reported = [(event.position, event.data) for event in events if event.type == "loss"]
        assert reported == [(position, loss) for position, fact in enumerate(session.facts) for loss in getattr(fact, "losses", ())]
        assert [loss for _, loss in reported] == session.losses != []
