"""Failures of Anthropic's models, and the arguments that they are made with."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest
from pydantic import BaseModel

from legato.core.facts import ModelRequestFailed
from legato.core.turn_context import ToolSpec, TurnContext
from legato.emulator import serve
from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from legato.errors import BadInput, IllegalRequest, ModelFailed
from legato.models.anthropic import Anthropic
from legato.models.prices import Price
from tests.models.anthropic_fixtures import (
    close_models,
    find_refusals,
    find_replies,
    find_sent_thinking,
    handoff_call,
    make_anthropic,
    make_desk,
    make_scripted_client,
    make_simple_request,
    message_body,
    read_exchanges,
    script_replies,
)
from tests.providers.formats.anthropic.conversations import make_message_group, make_request, search_blocks, text_block

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
async def test_transient_failure_is_retried_within_the_turn(fault: str, stream: bool) -> None:
    async with (
        serve(fake_model=script_replies([ReplyText("Hi.")])) as emulator,
        close_models(make_anthropic(emulator, stream=stream)) as model,
    ):
        emulator.fault(fault)
        session = make_desk(model).session("s")
        assert (await session.run("Hello")).text == "Hi."
        (attempt,) = [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
        assert not attempt.final
        assert len(find_replies(session)) == 1


@pytest.mark.parametrize(
    "fault", ["cut event=1", "cut event=4", "cut byte=700", "error_event after=3", "error_event kind=overloaded after=4"]
)
async def test_a_broken_stream_is_tried_again(fault: str) -> None:
    replies = [[ReplyText("Hello, it is good to see you here.")]] * 2
    async with serve(fake_model=script_replies(*replies)) as emulator, close_models(make_anthropic(emulator)) as model:
        emulator.fault(fault)
        session = make_desk(model).session("s")
        assert (await session.run("Hello")).text.startswith("Hello")
        assert len([fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]) == 1
        assert len(find_replies(session)) == 1


async def test_failure_carries_wait_code_and_request_id() -> None:
    async with serve() as emulator, close_models(make_anthropic(emulator)) as model:
        emulator.fault("rate_limit retry_after=7")
        with pytest.raises(ModelFailed, match=r"429 .*\(request req_") as failure:
            await model.reply(make_simple_request(), lambda text: None)
        assert (failure.value.retryable, failure.value.retry_after, failure.value.reason) == (True, 7.0, "rate_limit_error")


@pytest.mark.parametrize("fault", ["unauthorized", "context_length"])
async def test_permanent_failure_is_not_retried(fault: str, stream: bool) -> None:
    async with serve() as emulator, close_models(make_anthropic(emulator, stream=stream)) as model:
        emulator.fault(fault)
        result = await make_desk(model).session("s").run("Hello")
        assert result.status == "failed"
        assert len(await read_exchanges(emulator)) == 1


async def test_unreachable_provider_is_a_retryable_failure() -> None:
    async with close_models(Anthropic("claude-sonnet-5", base_url="http://127.0.0.1:9", api_key="x")) as model:
        with pytest.raises(ModelFailed, match="could not be reached") as failure:
            await model.reply(make_simple_request(), lambda text: None)
        assert failure.value.retryable


@pytest.mark.parametrize("fault", ["constant_call_ids id=call_0", "duplicate_call_ids", "unknown_tool", "broken_arguments"])
async def test_malformed_calls_break_no_later_request(fault: str, stream: bool) -> None:
    both = [ReplyCall("look_up", '{"order": "1"}'), ReplyCall("look_up", '{"order": "2"}')]
    replies = [[ReplyThought("a"), *both], [ReplyThought("b"), *both], [ReplyThought("c"), handoff_call("front")], [ReplyText("Done.")]]
    async with (
        serve(fake_model=script_replies([handoff_call("back")], *replies)) as emulator,
        close_models(make_anthropic(emulator, effort="low", stream=stream)) as model,
    ):
        emulator.fault("slow delay=0")
        emulator.fault(fault)
        emulator.fault(fault)
        result = await make_desk(model).session("s").run("Go")
        assert result.text == "Done."
        assert await find_refusals(emulator) == []


@pytest.mark.parametrize(("fault", "finish"), [("incomplete", "length"), ("refusal", "filter"), ("content_filter", "filter")])
async def test_stopped_reply_is_recorded_and_conversation_continues(fault: str, finish: str, stream: bool) -> None:
    replies = [[ReplyThought("Hm."), ReplyText("I would")], [ReplyThought("So."), ReplyText("Fine.")]]
    async with (
        serve(fake_model=script_replies(*replies)) as emulator,
        close_models(make_anthropic(emulator, effort="low", stream=stream)) as model,
    ):
        emulator.fault(fault)
        session = make_desk(model).session("s")
        await session.run("Hello")
        assert (await session.run("Go on")).text == "Fine."
        assert [fact.finish for fact in find_replies(session)] == [finish, "stop"]
        assert await find_refusals(emulator) == []


async def test_refused_thinking_is_never_replayed_again(stream: bool) -> None:
    replies = [[ReplyThought("before"), ReplyText("One.")], [ReplyThought("after"), ReplyText("Two.")], [ReplyText("Three.")]]
    fake_model = script_replies(*replies)
    async with serve(fake_model=fake_model, seed=1) as first:
        port = first.options.port or int(first.url.rpartition(":")[2])
        model = make_anthropic(first, effort="low", stream=stream)
        session = make_desk(model).session("s")
        await session.run("Hello")
        await model.close()
    async with (
        serve(fake_model=fake_model, seed=2, port=port) as second,
        close_models(model),
    ):  # the same address, but it knows no signature of the first
        assert (await session.run("Go on")).text == "Two."
        assert (await session.run("Go on")).text == "Three."
        assert [exchange.status for exchange in await read_exchanges(second)] == [400, 200, 200]
        assert [find_sent_thinking(exchange.request_body) for exchange in await read_exchanges(second)] == [["before"], [], ["after"]]
        assert session.losses == ["reasoning of front: the provider refused it"]
        assert not any(isinstance(fact, ModelRequestFailed) for fact in session.facts)


# -- what only a provider of paper does ---------------------------------------------------------------------------------


async def test_paused_turn_is_continued_until_whole() -> None:
    client, requests = make_scripted_client(
        message_body(*search_blocks(), stop="pause_turn"),
        message_body(*search_blocks("srv_2"), stop="pause_turn"),
        message_body(text_block("Found.")),
    )
    async with close_models(Anthropic("claude-sonnet-5", client=client, stream=False)) as model:
        reply = await model.reply(make_simple_request(), lambda text: None)
    assert [message["role"] for message in requests[2]["messages"]] == ["user", "assistant"]
    assert requests[2]["messages"][1]["content"] == [*search_blocks(), *search_blocks("srv_2")]
    assert [type(item).__name__ for item in reply.items] == ["HostedToolUse"] * 4 + ["OutputText"]
    assert (reply.finish, reply.usage.input, reply.usage.output) == ("stop", 9, 6)


async def test_reply_stopped_after_a_summary_is_continued() -> None:
    summary = {"type": "compaction", "content": "They said hello."}
    edits = {"context_management": {"edits": [{"type": "compact_20260112", "pause_after_compaction": True}]}}
    client, requests = make_scripted_client(message_body(summary, stop="compaction"), message_body(text_block("Hi.")))
    async with close_models(Anthropic("claude-sonnet-5", client=client, stream=False, extra=edits)) as model:
        reply = await model.reply(make_simple_request(), lambda text: None)
    assert requests[1]["messages"][-1] == {"role": "assistant", "content": [summary]}
    assert [type(item).__name__ for item in reply.items] == ["HostedToolUse", "OutputText"]


async def test_requested_summary_is_the_whole_reply() -> None:
    client, requests = make_scripted_client(message_body({"type": "compaction", "content": "They said hello."}, stop="compaction"))
    async with close_models(
        Anthropic("claude-sonnet-5", client=client, stream=False, extra={"compaction": {"type": "summarize"}})
    ) as model:
        await model.reply(make_simple_request(), lambda text: None)
    assert len(requests) == 1


async def test_samples_of_other_models_have_their_price() -> None:
    advice = {"type": "advisor_message", "model": "dear", "input_tokens": 10, "output_tokens": 1}
    answer = message_body(text_block("So."))
    answer["usage"]["iterations"] = [advice]
    client, _ = make_scripted_client(answer)
    prices = {"claude-sonnet-5": Price(1, 1), "dear": Price(100, 100)}
    async with close_models(Anthropic("claude-sonnet-5", client=client, stream=False, prices=prices)) as model:
        reply = await model.reply(make_simple_request(), lambda text: None)
    assert (reply.usage.input, reply.usage.output, reply.usage.cost) == (13, 3, 5 * 1_000 + 11 * 100_000)


@pytest.mark.parametrize(("status", "words_of_it"), [(400, "container: container_1 has expired"), (500, "Internal server error")])
async def test_expired_container_is_not_requested_again(status: int, words_of_it: str) -> None:
    requests: list[dict[str, Any]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(json.loads(request.content))
        if "container" in requests[-1]:
            kind = "invalid_request_error" if status == 400 else "api_error"
            return httpx2.Response(status, json={"type": "error", "error": {"type": kind, "message": words_of_it}})
        return httpx2.Response(200, json=message_body(text_block("Fresh.")) | {"container": {"id": "container_2"}})

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = anthropic.AsyncAnthropic(api_key="x", base_url="https://provider.example", http_client=http, max_retries=0)
    code = {"type": "code_execution_20260120", "name": "code_execution"}
    async with close_models(Anthropic("claude-sonnet-5", client=client, stream=False, hosted=[code])) as model:
        session = make_desk(model).session("s")
        await session.run("Hello")
        assert (await session.run("Go on")).text == "Fresh."
        assert session.losses == ["container of front: the provider refused it"]
        assert not any(isinstance(fact, ModelRequestFailed) for fact in session.facts)
    assert [body.get("container") for body in requests] == [None, "container_2", None]


async def test_endless_pauses_end_the_turn() -> None:
    client, requests = make_scripted_client(*[message_body(text_block("So"), stop="pause_turn")] * 20)
    async with close_models(Anthropic("claude-sonnet-5", client=client, stream=False)) as model:
        reply = await model.reply(make_simple_request(), lambda text: None)
    assert len(requests) == 9
    assert reply.finish == "length"


async def test_unenforced_schema_goes_into_the_instructions() -> None:
    refused = {"type": "error", "error": {"type": "invalid_request_error", "message": "output_config.format: not supported by this model"}}
    client, requests = make_scripted_client(refused, message_body(text_block('{"name":"teapot","count":2}')))
    schema = json.dumps(Order.model_json_schema())
    async with close_models(Anthropic("claude-old", client=client, stream=False)) as model:
        reply = await model.reply(make_simple_request(TurnContext("a", "You help.", output=schema)), lambda text: None)
    assert "output_config" in requests[0]
    assert "output_config" not in requests[1]
    assert schema in requests[1]["system"][0]["text"]
    assert len(reply.items) == 1


@pytest.mark.parametrize(
    ("options", "version"),
    [({}, DEFAULT_VERSION), ({"temperature": 0.5}, "2023-06-01"), ({"extra": {"top_k": 5}}, "2023-06-01")],
)
async def test_headers_request_betas_and_the_matching_version(options: dict[str, Any], version: str) -> None:
    """The version is the one that knows the options."""
    asked_for: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked_for.extend((request.headers["anthropic-beta"], request.headers["anthropic-version"]))
        return httpx2.Response(200, json=message_body(text_block("Hi.")))

    transport = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = anthropic.AsyncAnthropic(api_key="x", http_client=transport)
    async with close_models(Anthropic("claude-haiku-4-5", client=client, stream=False, betas=["one", "two"], **options)) as model:
        await model.reply(make_simple_request(), lambda text: None)
    assert asked_for == ["one,two", version]


# -- how it is made ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
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
def test_unsupported_options_are_refused_when_made(options: dict[str, Any], error: str) -> None:
    with pytest.raises(BadInput, match=error):
        Anthropic("claude-sonnet-5", api_key="x", **options)


async def test_unknown_options_pass_with_check_warn() -> None:
    client, requests = make_scripted_client(message_body(text_block("Hi.")))
    lenient = Anthropic("claude-sonnet-5", client=client, stream=False, check="warn", extra={"bogus": 1})
    async with close_models(lenient) as model:
        with pytest.warns(UserWarning, match="bogus"):
            await model.reply(make_simple_request(), lambda text: None)
    assert requests[0]["bogus"] == 1


async def test_an_illegal_request_is_not_sent() -> None:
    client, requests = make_scripted_client()
    twice = TurnContext("a", tools=(ToolSpec("search", "", "{}"), ToolSpec("search", "", "{}")))
    async with close_models(Anthropic("claude-sonnet-5", client=client)) as strict:
        with pytest.raises(IllegalRequest, match=r"MT1"):
            await strict.reply(make_request(twice, [make_message_group(0, "Hello")]), lambda text: None)
    assert requests == []


async def test_missing_key_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(anthropic.AsyncAnthropic, "credentials", None, raising=False)
    with pytest.raises(BadInput, match="has no key"):
        await Anthropic("claude-sonnet-5").reply(make_simple_request(), lambda text: None)


def test_a_model_is_shown_by_its_name() -> None:
    model = Anthropic("claude-sonnet-5", api_key="x")
    assert repr(model) == "<Anthropic claude-sonnet-5>"
    assert model.name == "anthropic:claude-sonnet-5"
