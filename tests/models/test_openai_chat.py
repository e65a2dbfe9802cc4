"""Conversations over Chat Completions, through OpenAI's SDK, against the strict emulator: nothing is refused, lost or repeated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from legato import Agent, HandoffBuilder, Session, file, image
from legato.core.facts import Call, OutputText, Refusal
from legato.emulator import Emulator, serve
from legato.emulator.fake_models.base import FakeReply, ModelPrompt, ReplyCall, ReplyThought
from legato.emulator.fake_models.base import ReplyText as Told
from legato.errors import BadInput, ModelFailed
from legato.models.chat import OpenAIChat
from legato.runtime import model_requests
from tests.models.chat_fixtures import check_log, find_failed_requests, find_replies, look_up_order, make_desk, make_model, read_exchanges
from tests.providers.formats.chat.conversations import ConversationBuilder


@pytest.fixture
async def emulator() -> AsyncIterator[Emulator]:
    async with serve() as running:
        yield running


@pytest.fixture(params=[False, True], ids=["whole", "streaming"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def without_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without a wait, unless the provider asks for one."""
    monkeypatch.setattr(model_requests, "MAX_BACKOFF_S", (0.0,))


# -- conversations -----------------------------------------------------------------------------------------------------


async def run_conversation(emulator: Emulator, stream: bool, **more: Any) -> Session:
    session = make_desk(make_model(emulator, stream=stream, **more)).session("s")
    for words in ("My order A-17 arrived broken, I want a refund.", "Please look up order B-2", "thanks"):
        result = await session.run(words)
        assert (result.status, result.error) == ("waiting", "")
    return session


async def test_handoffs_and_tools_are_never_refused(emulator: Emulator, stream: bool) -> None:
    session = await run_conversation(emulator, stream)
    await check_log(emulator)
    assert [exchange.is_stream for exchange in emulator.exchanges] == [stream] * 6
    assert {fact.agent for fact in find_replies(session)} == {"triage", "refunds"}
    assert "teapot" in session.messages[1].text
    assert session.losses == []


async def test_streaming_or_not_the_ledger_is_the_same() -> None:
    text = []
    for stream in (False, True):
        async with serve() as emulator:
            session = await run_conversation(emulator, stream)
            text.append([(fact.agent, fact.items, fact.finish, fact.usage, fact.model, fact.response_id) for fact in find_replies(session)])
    assert text[0] == text[1]


async def test_recorded_usage_matches_to_the_token(emulator: Emulator, stream: bool) -> None:
    session = await run_conversation(emulator, stream)
    billed = [(exchange.reply_body or {})["usage"] for exchange in await read_exchanges(emulator)]
    assert session.usage.input == sum(usage["prompt_tokens"] for usage in billed) > 0
    assert session.usage.output == sum(usage["completion_tokens"] for usage in billed) > 0
    assert session.usage.reasoning == sum(usage["completion_tokens_details"]["reasoning_tokens"] for usage in billed) > 0
    for fact in find_replies(session):
        assert fact.model.startswith("gpt-5-20")
        assert fact.response_id.startswith("chatcmpl-")
        assert fact.request_id.startswith("req_")
        assert fact.origin == f"chat {emulator.openai_url} gpt-5"
        assert not fact.stored


async def test_next_request_begins_with_the_last_one(emulator: Emulator) -> None:
    await run_conversation(emulator, True)
    sent: dict[str, list[Any]] = {}
    for exchange in await read_exchanges(emulator):
        messages = exchange.request_body["messages"]
        before = sent.get(messages[0]["content"], [])
        assert messages[: len(before)] == before
        sent[messages[0]["content"]] = messages
    assert len(sent) == 2


async def test_words_are_shown_as_they_come(emulator: Emulator) -> None:
    run = Agent("desk", model=make_model(emulator, "gpt-4o")).run("Hello there", stream=True)
    pieces = [event.data.text async for event in run if event.type == "output" and event.data.delta]
    assert len(pieces) > 1
    assert "".join(pieces) == (await run).text


async def test_words_that_come_whole_are_shown_whole(emulator: Emulator) -> None:
    run = Agent("desk", model=make_model(emulator, "gpt-4o", stream=False)).run("Hello there", stream=True)
    pieces = [event.data.text async for event in run if event.type == "output" and event.data.delta]
    assert pieces == [(await run).text]


@pytest.mark.parametrize("second", ["a" * 80, "Erstattungen & Größen", "退款"], ids=["80 characters", "with umlauts", "in Chinese"])
async def test_handoff_works_for_any_agent_name(emulator: Emulator, second: str, stream: bool) -> None:
    session = make_desk(make_model(emulator, stream=stream), second).session("s")
    await session.run("My order A-17 arrived broken, I want a refund.")
    await session.run("Please look up order B-2")
    await check_log(emulator)
    assert {fact.agent for fact in find_replies(session)} == {"triage", second}


def test_one_model_serves_several_event_loops() -> None:
    with serve() as emulator:
        agent = Agent("desk", model=make_model(emulator, "gpt-4o"))
        assert agent.run_sync("Hello").text
        assert agent.run_sync("Hello").text
        asyncio.run(check_log(emulator))


# -- what models get wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    ["constant_call_ids", "duplicate_call_ids", "unknown_tool name=no/such.tool", f"unknown_tool name={'n' * 80}", "broken_arguments"],
)
async def test_malformed_replies_break_no_later_request(fault: str, stream: bool) -> None:
    def reply(prompt: ModelPrompt) -> FakeReply:
        if prompt.messages[-1].role == "tool":
            return FakeReply((Told(prompt.messages[-1].text),))
        return FakeReply((ReplyCall("look_up_order", '{"order_id": "A"}'), ReplyCall("look_up_order", '{"order_id": "B"}')))

    async with serve(fake_model=reply, faults=[f"{fault}@1,3,5"]) as emulator:
        agent = Agent("desk", model=make_model(emulator, stream=stream), tools=[look_up_order])
        session = HandoffBuilder("desk", [agent]).build().session("s")
        for words in ("one", "two", "three"):
            assert (await session.run(words)).status == "waiting"
        await check_log(emulator)
        assert [len([item for item in fact.items if isinstance(item, Call)]) for fact in find_replies(session)] == [2, 0, 2, 0, 2, 0]
        last = emulator.exchanges[-1].request_body["messages"]
        ids = [call["id"] for message in last for call in message.get("tool_calls", ())]
        assert len(set(ids)) == len(ids) == 6
        assert [call.output.content for group in session.state.groups for call in group.calls if call.output] == [
            message["content"] for message in last if message["role"] == "tool"
        ]


async def test_refusal_is_recorded_and_conversation_continues(emulator: Emulator, stream: bool) -> None:
    emulator.fault("refusal")
    session = HandoffBuilder("desk", [Agent("desk", model=make_model(emulator, "gpt-4o", stream=stream))]).build().session("s")
    assert (await session.run("Something bad")).text == "I'm sorry, but I can't help with that."
    await session.run("Something good")
    await check_log(emulator)
    assert isinstance(find_replies(session)[0].items[0], Refusal)
    assert emulator.exchanges[-1].request_body["messages"][1] == {"role": "assistant", "content": "I'm sorry, but I can't help with that."}


@pytest.mark.parametrize(("fault", "finish"), [("incomplete", "length"), ("content_filter", "filter")])
async def test_a_reply_that_was_cut_short_says_so(emulator: Emulator, stream: bool, fault: str, finish: str) -> None:
    emulator.fault(fault)
    reply = await make_model(emulator, "gpt-4o", stream=stream).reply(
        ConversationBuilder().add_message("Hello").build_request(), lambda text: None
    )
    assert reply.finish == finish


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "message", "retryable", "retry_after", "reason"),
    [
        ("rate_limit retry_after=2.5", "429 Rate limit reached", True, 2.5, "rate_limit_exceeded"),
        ("quota", "429 You exceeded", False, None, "insufficient_quota"),
        ("server_error", "500 The server had an error", True, None, "server_error"),
        ("server_error status=502", "502", True, None, "server_error"),
        ("overloaded retry_after=0.5", "503", True, 0.5, ""),
        ("timeout seconds=0.01", "504", True, None, ""),
        ("unauthorized", "401 Incorrect API key", False, None, "invalid_api_key"),
        ("context_length", "maximum context length", False, None, "context_length_exceeded"),
        ("hang_up", "", True, None, ""),
        ("cut event=0", "", True, None, ""),
        ("cut event=3", "", True, None, ""),
        ("cut byte=200", "", True, None, ""),
        ("error_event", "The server had an error", True, None, "server_error"),
        ("error_event kind=rate_limit", "Rate limit reached", True, None, "rate_limit_exceeded"),
    ],
)
async def test_failure_says_whether_and_when_to_retry(
    emulator: Emulator, stream: bool, fault: str, message: str, retryable: bool, retry_after: float | None, reason: str
) -> None:
    emulator.fault(fault)
    with pytest.raises(ModelFailed) as failed:
        await make_model(emulator, "gpt-4o", stream=stream).reply(
            ConversationBuilder().add_message("Hello there").build_request(), lambda text: None
        )
    failure = failed.value
    assert message in failure.summary
    assert failure.retryable is retryable
    assert stream or retry_after is None or failure.retry_after == retry_after
    assert reason in ("", failure.reason)


@pytest.mark.parametrize(
    "fault", ["rate_limit retry_after=0.01", "server_error", "overloaded", "hang_up", "cut event=4", "cut byte=250", "error_event after=5"]
)
async def test_a_failure_that_passes_leaves_one_whole_reply(emulator: Emulator, stream: bool, fault: str, without_backoff: None) -> None:
    session = make_desk(make_model(emulator, stream=stream)).session("s")
    emulator.fault(fault)
    first = await session.run("My order A-17 arrived broken, I want a refund.")
    emulator.fault(fault)
    second = await session.run("Please look up order B-2")
    await check_log(emulator, allowed_faults=2)
    assert (first.status, second.status) == ("waiting", "waiting")
    assert find_failed_requests(session)
    assert not any(fact.final for fact in find_failed_requests(session))
    async with serve() as undisturbed:
        other = make_desk(OpenAIChat("gpt-5", base_url=undisturbed.openai_url, api_key="sk-test", stream=stream)).session("s")
        await other.run("My order A-17 arrived broken, I want a refund.")
        await other.run("Please look up order B-2")
        assert [message.text for message in other.messages] == [message.text for message in session.messages]
        assert [[type(item) for item in fact.items] for fact in find_replies(other)] == [
            [type(item) for item in fact.items] for fact in find_replies(session)
        ]


async def test_lasting_failure_ends_after_the_last_attempt(emulator: Emulator, without_backoff: None) -> None:
    for _ in range(4):
        emulator.fault("server_error")
    result = await Agent("desk", model=make_model(emulator)).run("Hello")
    assert (result.status, result.text) == ("failed", "")
    assert "The server had an error" in result.error
    assert len(await read_exchanges(emulator)) == 4
    assert (await result.session.resume()).status == "waiting"


async def test_slow_stream_is_bound_by_the_timeout(emulator: Emulator) -> None:
    emulator.fault("slow delay=0.02")
    reply = await make_model(emulator, "gpt-4o", timeout=60).reply(
        ConversationBuilder().add_message("Hello there").build_request(), lambda text: None
    )
    assert isinstance(reply.items[0], OutputText)
    emulator.fault("slow delay=2")
    with pytest.raises(ModelFailed) as failed:
        await make_model(emulator, "gpt-4o", timeout=0.2).reply(
            ConversationBuilder().add_message("Hello there").build_request(), lambda text: None
        )
    assert failed.value.retryable


async def test_unreachable_address_is_a_retryable_failure() -> None:
    nobody = OpenAIChat("m", base_url="http://127.0.0.1:9/v1", api_key="sk-test")
    with pytest.raises(ModelFailed, match="could not be reached") as failed:
        await nobody.reply(ConversationBuilder().add_message("Hello").build_request(), lambda text: None)
    assert failed.value.retryable


# -- what can be sent --------------------------------------------------------------------------------------------------


async def test_pictures_and_files_are_sent_with_every_request(emulator: Emulator, stream: bool) -> None:
    session = HandoffBuilder("desk", [Agent("desk", model=make_model(emulator, "gpt-4o", stream=stream))]).build().session("s")
    picture, letter = image(b"\xff\xd8\xffpicture", "image/jpeg"), file(b"%PDF", "a.pdf", "application/pdf")
    parts = ["Look:", picture, image("https://example.com/cat.png"), letter]
    await session.run([*parts, file("https://example.com/b.pdf", "b.pdf")])
    await session.run("And now?")
    await check_log(emulator)
    for exchange in emulator.exchanges:
        assert exchange.request_body["messages"][0]["content"] == [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/cGljdHVyZQ=="}},
            {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
            {"type": "text", "text": "[file b.pdf: https://example.com/b.pdf]"},
        ]
    assert session.losses == ["file b.pdf: this API takes no file URLs; the model gets the URL as text"]


class Verdict(BaseModel):
    """The agent's output."""

    model_config = ConfigDict(extra="forbid")
    reason: str
    approved: bool


async def test_structured_output_is_asked_for_and_validated(emulator: Emulator, stream: bool) -> None:
    judge_it = Agent("judge", instructions="Judge the refund.", model=make_model(emulator, "gpt-4o", stream=stream), output_type=Verdict)
    result = await judge_it.run("Order A-17 came broken.")
    await check_log(emulator)
    assert isinstance(result.output, Verdict)
    wanted = emulator.exchanges[0].request_body["response_format"]
    assert (wanted["type"], wanted["json_schema"]["name"], wanted["json_schema"]["strict"]) == ("json_schema", "output", True)
    assert set(wanted["json_schema"]["schema"]["properties"]) == {"reason", "approved"}


async def test_options_are_sent_and_recorded(emulator: Emulator) -> None:
    wise = make_model(emulator, effort="low", max_tokens=4000, verbosity="low", seed=3, service_tier="flex", parallel_calls=False)
    session = HandoffBuilder("desk", [Agent("desk", model=wise, tools=[look_up_order])]).build().session("s")
    await session.run("Please look up order B-2")
    await check_log(emulator)
    sent = emulator.exchanges[0].request_body
    options = ("reasoning_effort", "max_completion_tokens", "verbosity", "seed", "service_tier", "parallel_tool_calls")
    assert [sent[name] for name in options] == ["low", 4000, "low", 3, "flex", False]
    context = json.loads(await session.store.content("s", find_replies(session)[0].context_digest))
    assert json.loads(context["options"])["effort"] == "low"


def test_illegal_options_are_refused_when_made(emulator: Emulator) -> None:
    with pytest.raises(BadInput, match="Unrecognized request argument supplied: nonsense"):
        make_model(emulator, extra={"nonsense": 1})


@pytest.mark.parametrize("option", ["hosted", "memory", "reasoning_summary", "thinking_tokens", "no_such_option"])
def test_missing_options_are_refused_when_made(option: str) -> None:
    with pytest.raises(BadInput, match="no option"):
        OpenAIChat("m", api_key="sk-test", **{option: "detailed"})


async def test_hidden_thinking_is_not_a_loss() -> None:
    async with serve(fake_model=lambda prompt: FakeReply((ReplyThought("Hm."), Told("Hi.")))) as emulator:
        session = HandoffBuilder("desk", [Agent("desk", model=make_model(emulator))]).build().session("s")
        await session.run("Hello")
        await session.run("Hello again")
        await check_log(emulator)
        assert session.losses == []
