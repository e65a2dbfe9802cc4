"""Providers and users that do what they should not: nothing is lost, doubled, stuck or disclosed."""

from __future__ import annotations

from typing import Any

import pytest

from legato import Agent, Middleware
from legato.core.facts import ConversationClaimed, ModelReplied, ModelRequestFailed
from legato.emulator import serve
from legato.history import custom
from legato.models import Anthropic, FallbackModel, OpenAIChat, OpenAIResponses, Price, Usage
from legato.models.prices import compute_cost, compute_published_cost
from legato.providers.formats.sse_decoder import SSEDecoder
from legato.testing import ScriptedModel
from tests.models.fake_providers import ScriptedProvider


def response_body(text: str, *before: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]}
    return {"id": "resp_1", "status": "completed", "model": "gpt-5", "output": [*before, message], "store": False, **more}


def message_body(*content: dict[str, Any], stop: str = "end_turn", used: tuple[int, int] = (10, 5)) -> dict[str, Any]:
    usage = {"input_tokens": used[0], "output_tokens": used[1]}
    return {"type": "message", "role": "assistant", "content": list(content), "stop_reason": stop, "usage": usage}


HELLO = {"type": "text", "text": "Hello."}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "tea"}}


class RequestTwice(Middleware):
    async def around_model(self, request: Any, proceed: Any) -> Any:
        await proceed(request)
        return await proceed(request)


async def test_repeated_requests_double_nothing_at_the_provider() -> None:
    """Middleware may send a request twice; the provider's conversation stays usable."""
    async with serve() as emulator:
        model = OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="any", memory="conversation")
        session = Agent("a", model=model, middleware=[RequestTwice()])._as_workflow().session("s")
        for message in ("One", "Two", "Three"):
            await session.run(message)
        await model.close()
    stored_items: dict[str, list[str]] = {}
    for exchange in sorted((each for each in emulator.exchanges if each.is_model_request), key=lambda each: each.number):
        body = exchange.request_body
        before = list(stored_items.get(body.get("previous_response_id", ""), []))
        reported = stored_items.setdefault(body.get("conversation", f"none {exchange.number}"), before)
        reported += [item["content"] for item in body["input"] if item.get("role") == "user"]
        stored_items[exchange.reply_body["id"]] = list(reported)
        assert len(reported) == len(set(reported)), f"the provider stores {reported}"
    assert session.status == "waiting"


@pytest.mark.parametrize(
    "odd",
    [{**SEARCH, "action": [1]}, {**SEARCH, "status": {}}, {"type": "mcp_call", "id": "mcp_1", "x": 1}],
    ids=["a list for an object", "an object for a word", "half a call"],
)
async def test_unknown_hosted_item_is_only_a_loss(odd: dict[str, Any]) -> None:
    provider = ScriptedProvider(response_body("Here.", odd), response_body("Gladly."))
    session = (await Agent("a", model=provider.make_responses_model()).run("Search")).session
    assert (await session.run("Thanks")).text == "Gladly."
    assert [item.get("type") for item in provider.requests[1]["input"]] == [None, None, None]
    assert session.losses == [f"{odd['type']} of a: only the provider that ran it accepts it back"]


async def test_a_new_member_of_an_item_stays_behind() -> None:
    provider = ScriptedProvider(response_body("Here.", {**SEARCH, "new_in_2027": 1}), response_body("Gladly."))
    session = (await Agent("a", model=provider.make_responses_model()).run("Search")).session
    assert (await session.run("Thanks")).text == "Gladly."
    assert provider.requests[1]["input"][1] == {**SEARCH, "id": "ws_2_0"}
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
    provider = ScriptedProvider(message_body(odd, HELLO), message_body({"type": "text", "text": "Gladly."}))
    session = (await Agent("a", model=provider.make_anthropic_model()).run("Search")).session
    assert (await session.run("Thanks")).text == "Gladly."
    assert session.losses


async def test_error_with_odd_characters_is_recorded() -> None:
    provider = ScriptedProvider((400, b'{"error": {"message": "bad", "code": "\\ud800"}}'))
    result = await Agent("a", model=FallbackModel(provider.make_responses_model(), ScriptedModel(["I am here."]))).run("Hello")
    assert result.text == "I am here."


async def test_a_long_error_is_recorded_in_short() -> None:
    provider = ScriptedProvider((400, {"error": {"message": "x" * 1_000_000, "code": "y" * 1_000_000}}))
    session = (await Agent("a", model=provider.make_responses_model()).run("Hello")).session
    attempt = next(fact for fact in session.facts if isinstance(fact, ModelRequestFailed))
    assert len(attempt.error) + len(attempt.code) < 5000


async def test_failed_paused_turn_keeps_its_usage() -> None:
    overloaded = 529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    provider = ScriptedProvider(message_body(HELLO, stop="pause_turn", used=(1000, 500)), overloaded, message_body(HELLO))
    result = await Agent("a", model=provider.make_anthropic_model()).run("Hello")
    assert (result.usage.input, result.usage.output) == (1010, 505)


async def test_pause_with_illegal_content_fails_the_turn() -> None:
    provider = ScriptedProvider(message_body({"type": "text", "text": 7}, stop="pause_turn"), message_body(HELLO))
    result = await Agent("a", model=provider.make_anthropic_model()).run("Hello")
    assert result.status == "failed"
    assert "would refuse its continuation" in result.error
    assert len(provider.requests) == 1


@pytest.mark.parametrize("api", ["responses", "chained", "chat", "anthropic"])
async def test_empty_view_still_makes_a_request(api: str) -> None:
    async with serve() as emulator:
        kinds: dict[str, Any] = {
            "responses": lambda: OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="any"),
            "chained": lambda: OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="any", memory="chained"),
            "chat": lambda: OpenAIChat("gpt-5", base_url=emulator.openai_url, api_key="any"),
            "anthropic": lambda: Anthropic("claude-sonnet-5", base_url=emulator.url, api_key="any"),
        }
        model = kinds[api]()
        result = await Agent("a", model=model, history=custom(lambda groups: [])).run("Hello")
        await model.close()
        assert result.status == "waiting"
        assert emulator.summary() == "1 requests: 200 x1"


@pytest.mark.parametrize("status", ["in_progress", "queued", "cancelled"])
async def test_half_a_reply_is_no_reply(status: str) -> None:
    provider = ScriptedProvider(response_body("Half of", status=status), response_body("All of it."))
    session = (await Agent("a", model=provider.make_responses_model()).run("Hello")).session
    assert [message.text for message in session.messages] == ["Hello", "All of it."]


def test_separately_counted_cache_never_costs_less_than_nothing() -> None:
    usage = Usage(input=10, cached=1000, written=1000, output=1)
    assert compute_cost(usage, Price(2.0, 10.0, cached=0.2)) == 10 * 200 + 10_000
    assert compute_published_cost(usage, "gpt-5.1", "openai") == 10 * 125 + 10_000


SECRET = "sk-very-secret-0123456789"


async def test_secrets_reach_neither_ledger_nor_errors() -> None:
    refusal = 401, {"error": {"message": f"Incorrect API key provided: {SECRET}.", "code": "invalid_api_key"}}
    provider = ScriptedProvider(refusal, response_body("Hello."))
    hosted = [{"type": "mcp", "server_label": "shop", "server_url": "https://shop.example", "authorization": SECRET}]
    extra: dict[str, Any] = {"metadata": {"api_key": SECRET}}
    model = provider.make_responses_model(SECRET, f"http://user:{SECRET}@provider/v1?key={SECRET}", hosted=hosted, extra=extra)
    result = await Agent("a", model=model).run("Hello")
    assert "***" in result.error
    await result.session.resume()
    exported = await result.session.to_string()
    contexts = [
        await result.session.store.content(result.session.id, f.context_digest) for f in result.session.facts if isinstance(f, ModelReplied)
    ]
    assert provider.requests[1]["tools"][0]["authorization"] == SECRET
    for place in (exported, str(result.session.facts), str(contexts), result.error, repr(model), str(result.session.state.failed_request)):
        assert SECRET not in place
    shown = repr(OpenAIChat("gpt-5", base_url=f"http://user:{SECRET}@server/v1?key={SECRET}"))
    assert shown == "<OpenAIChat gpt-5 at http://server/v1>"


async def test_lock_does_not_restore_a_broken_conversation() -> None:
    async with serve() as emulator:
        storing = OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="any", memory="conversation")
        inline = OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="any")
        emulator.fault("cut event=3")
        emulator.fault("locked")
        emulator.fault("locked")
        emulator.fault("locked")
        session = (await Agent("a", model=FallbackModel(storing, inline)).run("Hello")).session
        await session.resume()
        for model in (storing, inline):
            await model.close()
    claimed = [fact.conversation for fact in session.facts if isinstance(fact, ConversationClaimed)]
    assert len(claimed) == len(set(claimed)), "a conversation of which nobody knows what it holds was used again"


def test_long_event_in_pieces_costs_linear_work() -> None:
    reader, copied = SSEDecoder(), 0
    piece = b"x" * 1000
    assert list(reader.feed(b"data: ")) == []
    for _ in range(2000):
        assert list(reader.feed(piece)) == []
        copied = max(copied, len(reader._line_pieces))
    assert [len(event.data) for event in reader.feed(b"\n\n")] == [2_000_000]
    assert copied == 2001  # the pieces lie side by side until the event is whole
