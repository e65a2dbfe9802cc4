"""What Anthropic's models do when something goes wrong, and how they are made."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest
from pydantic import BaseModel

from legato.core.facts import ModelRequestFailed
from legato.core.turn_context import Frame, ToolSpec
from legato.emulator import serve
from legato.emulator.minds.base import Thought, Use, Words
from legato.errors import BadInput, IllegalRequest, ModelFailed
from legato.models.anthropic import Anthropic
from legato.models.prices import Price
from tests.models.anthropics import (
    answers,
    desk,
    exchanges,
    message,
    model_at,
    refusals,
    request_of,
    saying,
    scripted,
    talking,
    thoughts,
    to,
)
from tests.providers.anthropic.talks import asked, said, search, words

DEFAULT_VERSION = anthropic.Anthropic(api_key="x").default_headers["anthropic-version"]


class Order(BaseModel):
    name: str
    count: int


@pytest.fixture(params=[False, True], ids=["whole", "streaming"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    ["rate_limit retry_after=0.01", "overloaded", "server_error", "server_error status=502", "hang_up", "timeout seconds=0.01"],
)
async def test_a_failure_that_passes_is_tried_again_and_the_turn_is_whole(fault: str, stream: bool) -> None:
    async with serve(mind=saying([Words("Hi.")])) as emulator, talking(model_at(emulator, stream=stream)) as model:
        emulator.fault(fault)
        session = desk(model).session("s")
        assert (await session.run("Hello")).text == "Hi."
        (attempt,) = [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
        assert not attempt.final
        assert len(answers(session)) == 1


@pytest.mark.parametrize(
    "fault", ["cut event=1", "cut event=4", "cut byte=700", "error_event after=3", "error_event kind=overloaded after=4"]
)
async def test_a_broken_stream_is_tried_again(fault: str) -> None:
    replies = [[Words("Hello, it is good to see you here.")]] * 2
    async with serve(mind=saying(*replies)) as emulator, talking(model_at(emulator)) as model:
        emulator.fault(fault)
        session = desk(model).session("s")
        assert (await session.run("Hello")).text.startswith("Hello")
        assert len([fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]) == 1
        assert len(answers(session)) == 1


async def test_how_long_to_wait_the_code_and_the_request_are_told() -> None:
    async with serve() as emulator, talking(model_at(emulator)) as model:
        emulator.fault("rate_limit retry_after=7")
        with pytest.raises(ModelFailed, match=r"429 .*\(request req_") as failure:
            await model.reply(request_of(), lambda text: None)
        assert (failure.value.retryable, failure.value.retry_after, failure.value.reason) == (True, 7.0, "rate_limit_error")


@pytest.mark.parametrize("fault", ["unauthorized", "context_length"])
async def test_a_failure_that_does_not_pass_is_not_tried_again(fault: str, stream: bool) -> None:
    async with serve() as emulator, talking(model_at(emulator, stream=stream)) as model:
        emulator.fault(fault)
        result = await desk(model).session("s").run("Hello")
        assert result.status == "failed"
        assert len(await exchanges(emulator)) == 1


async def test_a_provider_that_cannot_be_reached_may_be_tried_again() -> None:
    async with talking(Anthropic("claude-sonnet-5", base_url="http://127.0.0.1:9", api_key="x")) as model:
        with pytest.raises(ModelFailed, match="could not be reached") as failure:
            await model.reply(request_of(), lambda text: None)
        assert failure.value.retryable


@pytest.mark.parametrize("fault", ["constant_call_ids id=call_0", "duplicate_call_ids", "unknown_tool", "broken_arguments"])
async def test_calls_that_are_not_as_they_should_be_make_no_illegalrequest_of(fault: str, stream: bool) -> None:
    both = [Use("look_up", '{"order": "1"}'), Use("look_up", '{"order": "2"}')]
    replies = [[Thought("a"), *both], [Thought("b"), *both], [Thought("c"), to("front")], [Words("Done.")]]
    async with serve(mind=saying([to("back")], *replies)) as emulator, talking(model_at(emulator, effort="low", stream=stream)) as model:
        emulator.fault("slow delay=0")
        emulator.fault(fault)
        emulator.fault(fault)
        result = await desk(model).session("s").run("Go")
        assert result.text == "Done."
        assert await refusals(emulator) == []


@pytest.mark.parametrize(("fault", "finish"), [("incomplete", "length"), ("refusal", "filter"), ("content_filter", "filter")])
async def test_a_reply_that_was_stopped_is_recorded_as_such_and_the_conversation_goes_on(fault: str, finish: str, stream: bool) -> None:
    replies = [[Thought("Hm."), Words("I would")], [Thought("So."), Words("Fine.")]]
    async with serve(mind=saying(*replies)) as emulator, talking(model_at(emulator, effort="low", stream=stream)) as model:
        emulator.fault(fault)
        session = desk(model).session("s")
        await session.run("Hello")
        assert (await session.run("Go on")).text == "Fine."
        assert [fact.finish for fact in answers(session)] == [finish, "stop"]
        assert await refusals(emulator) == []


async def test_thinking_that_the_provider_will_not_take_back_is_left_out_from_then_on(stream: bool) -> None:
    replies = [[Thought("before"), Words("One.")], [Thought("after"), Words("Two.")], [Words("Three.")]]
    mind = saying(*replies)
    async with serve(mind=mind, seed=1) as first:
        port = first.options.port or int(first.url.rpartition(":")[2])
        model = model_at(first, effort="low", stream=stream)
        session = desk(model).session("s")
        await session.run("Hello")
        await model.close()
    async with serve(mind=mind, seed=2, port=port) as second, talking(model):  # the same address, but it knows no signature of the first
        assert (await session.run("Go on")).text == "Two."
        assert (await session.run("Go on")).text == "Three."
        assert [exchange.status for exchange in await exchanges(second)] == [400, 200, 200]
        assert [thoughts(exchange.request) for exchange in await exchanges(second)] == [["before"], [], ["after"]]
        assert session.losses == ["reasoning of front: the provider would not take it back"]
        assert not any(isinstance(fact, ModelRequestFailed) for fact in session.facts)


# -- what only a provider of paper does ---------------------------------------------------------------------------------


async def test_a_turn_that_the_provider_pauses_is_gone_on_with_until_it_is_whole() -> None:
    client, seen = scripted(message(*search(), stop="pause_turn"), message(*search("srv_2"), stop="pause_turn"), message(words("Found.")))
    async with talking(Anthropic("claude-sonnet-5", client=client, stream=False)) as model:
        reply = await model.reply(request_of(), lambda text: None)
    assert [message["role"] for message in seen[2]["messages"]] == ["user", "assistant"]
    assert seen[2]["messages"][1]["content"] == [*search(), *search("srv_2")]
    assert [type(item).__name__ for item in reply.items] == ["Hosted"] * 4 + ["Words"]
    assert (reply.finish, reply.usage.input, reply.usage.output) == ("stop", 9, 6)


async def test_a_reply_that_stops_after_its_summary_is_gone_on_with() -> None:
    summary = {"type": "compaction", "content": "They said hello."}
    edits = {"context_management": {"edits": [{"type": "compact_20260112", "pause_after_compaction": True}]}}
    client, seen = scripted(message(summary, stop="compaction"), message(words("Hi.")))
    async with talking(Anthropic("claude-sonnet-5", client=client, stream=False, extra=edits)) as model:
        reply = await model.reply(request_of(), lambda text: None)
    assert seen[1]["messages"][-1] == {"role": "assistant", "content": [summary]}
    assert [type(item).__name__ for item in reply.items] == ["Hosted", "Words"]


async def test_a_summary_that_was_asked_for_is_the_whole_reply() -> None:
    client, seen = scripted(message({"type": "compaction", "content": "They said hello."}, stop="compaction"))
    async with talking(Anthropic("claude-sonnet-5", client=client, stream=False, extra={"compaction": {"type": "summarize"}})) as model:
        await model.reply(request_of(), lambda text: None)
    assert len(seen) == 1


async def test_what_another_model_sampled_for_a_reply_is_billed_at_its_own_price() -> None:
    advice = {"type": "advisor_message", "model": "dear", "input_tokens": 10, "output_tokens": 1}
    answer = message(words("So."))
    answer["usage"]["iterations"] = [advice]
    client, _ = scripted(answer)
    prices = {"claude-sonnet-5": Price(1, 1), "dear": Price(100, 100)}
    async with talking(Anthropic("claude-sonnet-5", client=client, stream=False, prices=prices)) as model:
        reply = await model.reply(request_of(), lambda text: None)
    assert (reply.usage.input, reply.usage.output, reply.usage.cost) == (13, 3, 5 * 1_000 + 11 * 100_000)


@pytest.mark.parametrize(("status", "words_of_it"), [(400, "container: container_1 has expired"), (500, "Internal server error")])
async def test_a_container_that_is_gone_is_not_asked_for_again(status: int, words_of_it: str) -> None:
    seen: list[dict[str, Any]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(json.loads(request.content))
        if "container" in seen[-1]:
            kind = "invalid_request_error" if status == 400 else "api_error"
            return httpx2.Response(status, json={"type": "error", "error": {"type": kind, "message": words_of_it}})
        return httpx2.Response(200, json=message(words("Fresh.")) | {"container": {"id": "container_2"}})

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = anthropic.AsyncAnthropic(api_key="x", base_url="https://provider.example", http_client=http, max_retries=0)
    code = {"type": "code_execution_20260120", "name": "code_execution"}
    async with talking(Anthropic("claude-sonnet-5", client=client, stream=False, hosted=[code])) as model:
        session = desk(model).session("s")
        await session.run("Hello")
        assert (await session.run("Go on")).text == "Fresh."
        assert session.losses == ["container of front: the provider would not take it back"]
        assert not any(isinstance(fact, ModelRequestFailed) for fact in session.facts)
    assert [body.get("container") for body in seen] == [None, "container_2", None]


async def test_a_provider_that_pauses_for_ever_is_not_waited_for() -> None:
    client, seen = scripted(*[message(words("So"), stop="pause_turn")] * 20)
    async with talking(Anthropic("claude-sonnet-5", client=client, stream=False)) as model:
        reply = await model.reply(request_of(), lambda text: None)
    assert len(seen) == 9
    assert reply.finish == "length"


async def test_a_model_that_enforces_no_schema_is_told_it_instead() -> None:
    refused = {"type": "error", "error": {"type": "invalid_request_error", "message": "output_config.format: not supported by this model"}}
    client, seen = scripted(refused, message(words('{"name":"teapot","count":2}')))
    schema = json.dumps(Order.model_json_schema())
    async with talking(Anthropic("claude-old", client=client, stream=False)) as model:
        reply = await model.reply(request_of(Frame("a", "You help.", output=schema)), lambda text: None)
    assert "output_config" in seen[0]
    assert "output_config" not in seen[1]
    assert schema in seen[1]["system"][0]["text"]
    assert len(reply.items) == 1


@pytest.mark.parametrize(
    ("options", "version"),
    [({}, DEFAULT_VERSION), ({"temperature": 0.5}, "2023-06-01"), ({"extra": {"top_k": 5}}, "2023-06-01")],
)
async def test_betas_are_asked_for_in_a_header_and_so_is_the_version_that_knows_the_options(options: dict[str, Any], version: str) -> None:
    asked_for: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked_for.extend((request.headers["anthropic-beta"], request.headers["anthropic-version"]))
        return httpx2.Response(200, json=message(words("Hi.")))

    transport = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = anthropic.AsyncAnthropic(api_key="x", http_client=transport)
    async with talking(Anthropic("claude-haiku-4-5", client=client, stream=False, betas=["one", "two"], **options)) as model:
        await model.reply(request_of(), lambda text: None)
    assert asked_for == ["one,two", version]


# -- how it is made ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seed": 7}, "has no option 'seed'"),
        ({"verbosity": "low"}, "has no option 'verbosity'"),
        ({"memory": "chained"}, "no option 'memory'"),
        ({"temperature": 1.5}, "range: 0..1"),
        ({"temperature": 0.5}, "`temperature` is deprecated for this model"),
        ({"thinking_tokens": 100}, "greater than or equal to 1024"),
        ({"thinking_tokens": 2000, "max_tokens": 1000}, "max_tokens"),
        ({"extra": {"bogus": 1}}, "Extra inputs are not permitted"),
        ({"no_such_option": 1}, "there is no option 'no_such_option'"),
    ],
)
def test_options_that_this_api_does_not_take_are_told_when_the_model_is_made(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        Anthropic("claude-sonnet-5", api_key="x", **options)


async def test_who_only_wants_to_be_warned_may_send_what_is_not_known() -> None:
    client, seen = scripted(message(words("Hi.")))
    lenient = Anthropic("claude-sonnet-5", client=client, stream=False, check="warn", extra={"bogus": 1})
    async with talking(lenient) as model:
        with pytest.warns(UserWarning, match="bogus"):
            await model.reply(request_of(), lambda text: None)
    assert seen[0]["bogus"] == 1


async def test_an_illegal_request_is_not_sent() -> None:
    client, seen = scripted()
    twice = Frame("a", tools=(ToolSpec("search", "", "{}"), ToolSpec("search", "", "{}")))
    async with talking(Anthropic("claude-sonnet-5", client=client)) as strict:
        with pytest.raises(IllegalRequest, match=r"MT1"):
            await strict.reply(asked(twice, [said(0, "Hello")]), lambda text: None)
    assert seen == []


async def test_without_a_key_there_is_a_word_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(anthropic.AsyncAnthropic, "credentials", None, raising=False)
    with pytest.raises(BadInput, match="has no key"):
        await Anthropic("claude-sonnet-5").reply(request_of(), lambda text: None)


def test_a_model_is_shown_by_its_name() -> None:
    model = Anthropic("claude-sonnet-5", api_key="x")
    assert repr(model) == "<Anthropic claude-sonnet-5>"
    assert model.name == "anthropic:claude-sonnet-5"
