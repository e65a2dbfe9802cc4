"""Providers that do what they should not, and users who do what nobody thought of: nothing is lost, doubled, stuck or given away."""

from __future__ import annotations

from typing import Any

import pytest

from legato import Agent, Middleware
from legato.core.facts import ConversationClaimed, ModelReplied, ModelRequestFailed
from legato.emulator import serve
from legato.history import custom
from legato.models import Anthropic, FallbackModel, OpenAIChat, OpenAIResponses, Price, Usage
from legato.models.prices import cost_of, published_cost
from legato.providers.formats.sse import EventReader
from legato.testing import ScriptedModel
from tests.models.providers import Provider


def said(text: str, *before: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]}
    return {"id": "resp_1", "status": "completed", "model": "gpt-5", "output": [*before, message], "store": False, **more}


def spoken(*content: dict[str, Any], stop: str = "end_turn", used: tuple[int, int] = (10, 5)) -> dict[str, Any]:
    usage = {"input_tokens": used[0], "output_tokens": used[1]}
    return {"type": "message", "role": "assistant", "content": list(content), "stop_reason": stop, "usage": usage}


HELLO = {"type": "text", "text": "Hello."}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "tea"}}


class AsksTwice(Middleware):
    async def around_model(self, request: Any, proceed: Any) -> Any:
        await proceed(request)
        return await proceed(request)


async def test_middleware_that_asks_twice_doubles_nothing_in_a_conversation_that_the_provider_keeps() -> None:
    async with serve() as emulator:
        model = OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="any", memory="conversation")
        session = Agent("a", model=model, middleware=[AsksTwice()])._workflow().session("s")
        for message in ("One", "Two", "Three"):
            await session.run(message)
        await model.close()
    held: dict[str, list[str]] = {}
    for exchange in sorted((each for each in emulator.exchanges if each.asks), key=lambda each: each.number):
        body = exchange.request
        before = list(held.get(body.get("previous_response_id", ""), []))
        told = held.setdefault(body.get("conversation", f"none {exchange.number}"), before)
        told += [item["content"] for item in body["input"] if item.get("role") == "user"]
        held[exchange.reply["id"]] = list(told)
        assert len(told) == len(set(told)), f"{told} was heard"
    assert session.status == "waiting"


@pytest.mark.parametrize(
    "odd",
    [{**SEARCH, "action": [1]}, {**SEARCH, "status": {}}, {"type": "mcp_call", "id": "mcp_1", "x": 1}],
    ids=["a list for an object", "an object for a word", "half a call"],
)
async def test_something_the_provider_did_in_an_unknown_form_is_a_loss_and_no_dead_end(odd: dict[str, Any]) -> None:
    provider = Provider(said("Here.", odd), said("Gladly."))
    session = (await Agent("a", model=provider.responses()).run("Search")).session
    assert (await session.run("Thanks")).text == "Gladly."
    assert [item.get("type") for item in provider.asked[1]["input"]] == [None, None, None]
    assert session.losses == [f"{odd['type']} of a: only the provider that ran it can take it back"]


async def test_a_new_member_of_an_item_stays_behind() -> None:
    provider = Provider(said("Here.", {**SEARCH, "new_in_2027": 1}), said("Gladly."))
    session = (await Agent("a", model=provider.responses()).run("Search")).session
    assert (await session.run("Thanks")).text == "Gladly."
    assert provider.asked[1]["input"][1] == {**SEARCH, "id": "ws_2_0"}
    assert session.losses == []


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}, "new_in_2027": 1},
        {"type": "text", "text": "As it is written", "citations": [None]},
    ],
    ids=["a new member", "a citation that is none"],
)
async def test_the_same_holds_for_anthropic(odd: dict[str, Any]) -> None:
    provider = Provider(spoken(odd, HELLO), spoken({"type": "text", "text": "Gladly."}))
    session = (await Agent("a", model=provider.claude()).run("Search")).session
    assert (await session.run("Thanks")).text == "Gladly."
    assert session.losses


async def test_an_error_in_odd_letters_is_recorded_and_another_model_is_asked() -> None:
    provider = Provider((400, b'{"error": {"message": "bad", "code": "\\ud800"}}'))
    result = await Agent("a", model=FallbackModel(provider.responses(), ScriptedModel(["I am here."]))).run("Hello")
    assert result.text == "I am here."


async def test_a_long_error_is_recorded_in_short() -> None:
    provider = Provider((400, {"error": {"message": "x" * 1_000_000, "code": "y" * 1_000_000}}))
    session = (await Agent("a", model=provider.responses()).run("Hello")).session
    attempt = next(fact for fact in session.facts if isinstance(fact, ModelRequestFailed))
    assert len(attempt.error) + len(attempt.code) < 5000


async def test_a_turn_that_was_paused_and_then_failed_has_cost_what_it_cost() -> None:
    overloaded = 529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    provider = Provider(spoken(HELLO, stop="pause_turn", used=(1000, 500)), overloaded, spoken(HELLO))
    result = await Agent("a", model=provider.claude()).run("Hello")
    assert (result.usage.input, result.usage.output) == (1010, 505)


async def test_a_pause_in_a_form_that_the_provider_would_not_take_is_not_gone_on_from() -> None:
    provider = Provider(spoken({"type": "text", "text": 7}, stop="pause_turn"), spoken(HELLO))
    result = await Agent("a", model=provider.claude()).run("Hello")
    assert result.status == "failed"
    assert "would not go on from" in result.error
    assert len(provider.asked) == 1


@pytest.mark.parametrize("wire", ["responses", "chained", "chat", "anthropic"])
async def test_an_agent_that_sees_nothing_is_asked_all_the_same(wire: str) -> None:
    async with serve() as emulator:
        kinds: dict[str, Any] = {
            "responses": lambda: OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="any"),
            "chained": lambda: OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="any", memory="chained"),
            "chat": lambda: OpenAIChat("gpt-5", base_url=emulator.openai_url, api_key="any"),
            "anthropic": lambda: Anthropic("claude-sonnet-5", base_url=emulator.url, api_key="any"),
        }
        model = kinds[wire]()
        result = await Agent("a", model=model, history=custom(lambda groups: [])).run("Hello")
        await model.close()
        assert result.status == "waiting"
        assert emulator.summary() == "1 requests: 200 x1"


@pytest.mark.parametrize("status", ["in_progress", "queued", "cancelled"])
async def test_half_a_reply_is_no_reply(status: str) -> None:
    provider = Provider(said("Half of", status=status), said("All of it."))
    session = (await Agent("a", model=provider.responses()).run("Hello")).session
    assert [message.text for message in session.messages] == ["Hello", "All of it."]


def test_a_server_that_counts_its_cache_beside_the_rest_makes_nothing_cheaper_than_nothing() -> None:
    usage = Usage(input=10, cached=1000, written=1000, output=1)
    assert cost_of(usage, Price(2.0, 10.0, cached=0.2)) == 10 * 200 + 10_000
    assert published_cost(usage, "gpt-5.1", "openai") == 10 * 125 + 10_000


SECRET = "sk-very-secret-0123456789"


async def test_no_secret_of_a_model_reaches_the_ledger_or_an_error() -> None:
    refusal = 401, {"error": {"message": f"Incorrect API key provided: {SECRET}.", "code": "invalid_api_key"}}
    provider = Provider(refusal, said("Hello."))
    hosted = [{"type": "mcp", "server_label": "shop", "server_url": "https://shop.example", "authorization": SECRET}]
    extra: dict[str, Any] = {"metadata": {"api_key": SECRET}}
    model = provider.responses(SECRET, f"http://user:{SECRET}@provider/v1?key={SECRET}", hosted=hosted, extra=extra)
    result = await Agent("a", model=model).run("Hello")
    assert "***" in result.error
    await result.session.resume()
    kept = await result.session.to_string()
    frames = [await result.session.store.content(result.session.id, f.frame) for f in result.session.facts if isinstance(f, ModelReplied)]
    assert provider.asked[1]["tools"][0]["authorization"] == SECRET
    for place in (kept, str(result.session.facts), str(frames), result.error, repr(model), str(result.session.state.failed)):
        assert SECRET not in place
    shown = repr(OpenAIChat("gpt-5", base_url=f"http://user:{SECRET}@server/v1?key={SECRET}"))
    assert shown == "<OpenAIChat gpt-5 at http://server/v1>"


async def test_a_lock_says_nothing_of_a_conversation_that_was_broken_before() -> None:
    async with serve() as emulator:
        keeps = OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="any", memory="conversation")
        inline = OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="any")
        emulator.fault("cut event=3")
        emulator.fault("locked")
        emulator.fault("locked")
        emulator.fault("locked")
        session = (await Agent("a", model=FallbackModel(keeps, inline)).run("Hello")).session
        await session.resume()
        for model in (keeps, inline):
            await model.close()
    asked = [fact.conversation for fact in session.facts if isinstance(fact, ConversationClaimed)]
    assert len(asked) == len(set(asked)), "a conversation of which nobody knows what it holds was used again"


def test_a_long_event_in_small_pieces_costs_what_it_weighs() -> None:
    reader, copied = EventReader(), 0
    piece = b"x" * 1000
    assert list(reader.feed(b"data: ")) == []
    for _ in range(2000):
        assert list(reader.feed(piece)) == []
        copied = max(copied, len(reader._rest))
    assert [len(event.data) for event in reader.feed(b"\n\n")] == [2_000_000]
    assert copied == 2001  # the pieces lie side by side until the event is whole
