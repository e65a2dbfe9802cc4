"""Conversations over Chat Completions, through OpenAI's SDK, against the strict emulator: nothing is refused, lost or said twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from legato import Agent, HandoffBuilder, Session, file, image
from legato.core.facts import Call, Refusal, Words
from legato.emulator import Emulator, serve
from legato.emulator.minds.base import Prompt, Say, Thought, Use
from legato.emulator.minds.base import Words as Told
from legato.errors import BadInput, ModelFailed
from legato.models.chat import OpenAIChat
from legato.runtime import model_requests
from tests.models.chats import attempts, check_log, desk, look_up_order, model, noted, replies
from tests.providers.chat.talk import Talk


@pytest.fixture
async def emulator() -> AsyncIterator[Emulator]:
    async with serve() as running:
        yield running


@pytest.fixture(params=[False, True], ids=["whole", "streaming"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits before the next attempt, unless the provider asks for it."""
    monkeypatch.setattr(model_requests, "BACK_OFF", (0.0,))


# -- conversations -----------------------------------------------------------------------------------------------------


async def talked(emulator: Emulator, stream: bool, **more: Any) -> Session:
    session = desk(model(emulator, stream=stream, **more)).session("s")
    for words in ("My order A-17 arrived broken, I want a refund.", "Please look up order B-2", "thanks"):
        result = await session.run(words)
        assert (result.status, result.error) == ("waiting", "")
    return session


async def test_a_conversation_with_handoffs_and_tools_is_never_refused(emulator: Emulator, stream: bool) -> None:
    session = await talked(emulator, stream)
    await check_log(emulator)
    assert [exchange.streams for exchange in emulator.exchanges] == [stream] * 6
    assert {fact.agent for fact in replies(session)} == {"triage", "refunds"}
    assert "teapot" in session.messages[1].text
    assert session.losses == []


async def test_streaming_or_not_the_ledger_is_the_same() -> None:
    told = []
    for stream in (False, True):
        async with serve() as emulator:
            session = await talked(emulator, stream)
            told.append([(fact.agent, fact.items, fact.finish, fact.usage, fact.model, fact.response_id) for fact in replies(session)])
    assert told[0] == told[1]


async def test_what_the_provider_says_about_a_reply_is_recorded_and_sums_match_to_the_token(emulator: Emulator, stream: bool) -> None:
    session = await talked(emulator, stream)
    billed = [(exchange.reply or {})["usage"] for exchange in await noted(emulator)]
    assert session.usage.input == sum(usage["prompt_tokens"] for usage in billed) > 0
    assert session.usage.output == sum(usage["completion_tokens"] for usage in billed) > 0
    assert session.usage.reasoning == sum(usage["completion_tokens_details"]["reasoning_tokens"] for usage in billed) > 0
    for fact in replies(session):
        assert fact.model.startswith("gpt-5-20")
        assert fact.response_id.startswith("chatcmpl-")
        assert fact.request_id.startswith("req_")
        assert fact.origin == f"chat {emulator.openai_url} gpt-5"
        assert not fact.stored


async def test_what_was_sent_before_begins_the_next_request_of_the_same_agent(emulator: Emulator) -> None:
    await talked(emulator, True)
    sent: dict[str, list[Any]] = {}
    for exchange in await noted(emulator):
        messages = exchange.request["messages"]
        before = sent.get(messages[0]["content"], [])
        assert messages[: len(before)] == before
        sent[messages[0]["content"]] = messages
    assert len(sent) == 2


async def test_words_are_shown_as_they_come(emulator: Emulator) -> None:
    run = Agent("desk", model=model(emulator, "gpt-4o")).run("Hello there", stream=True)
    pieces = [event.data.text async for event in run if event.type == "output" and event.data.delta]
    assert len(pieces) > 1
    assert "".join(pieces) == (await run).text


async def test_words_that_come_whole_are_shown_whole(emulator: Emulator) -> None:
    run = Agent("desk", model=model(emulator, "gpt-4o", stream=False)).run("Hello there", stream=True)
    pieces = [event.data.text async for event in run if event.type == "output" and event.data.delta]
    assert pieces == [(await run).text]


@pytest.mark.parametrize("second", ["a" * 80, "Erstattungen & Größen", "退款"], ids=["80 characters", "with umlauts", "in Chinese"])
async def test_agents_of_any_name_can_be_handed_over_to(emulator: Emulator, second: str, stream: bool) -> None:
    session = desk(model(emulator, stream=stream), second).session("s")
    await session.run("My order A-17 arrived broken, I want a refund.")
    await session.run("Please look up order B-2")
    await check_log(emulator)
    assert {fact.agent for fact in replies(session)} == {"triage", second}


def test_one_model_serves_several_event_loops() -> None:
    with serve() as emulator:
        agent = Agent("desk", model=model(emulator, "gpt-4o"))
        assert agent.run_sync("Hello").text
        assert agent.run_sync("Hello").text
        asyncio.run(check_log(emulator))


# -- what models get wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    ["constant_call_ids", "duplicate_call_ids", "unknown_tool name=no/such.tool", f"unknown_tool name={'n' * 80}", "broken_arguments"],
)
async def test_what_a_model_gets_wrong_breaks_no_later_request(fault: str, stream: bool) -> None:
    def reply(prompt: Prompt) -> Say:
        if prompt.heard[-1].who == "tool":
            return Say((Told(prompt.heard[-1].text),))
        return Say((Use("look_up_order", '{"order_id": "A"}'), Use("look_up_order", '{"order_id": "B"}')))

    async with serve(mind=reply, faults=[f"{fault}@1,3,5"]) as emulator:
        agent = Agent("desk", model=model(emulator, stream=stream), tools=[look_up_order])
        session = HandoffBuilder("desk", [agent]).build().session("s")
        for words in ("one", "two", "three"):
            assert (await session.run(words)).status == "waiting"
        await check_log(emulator)
        assert [len([item for item in fact.items if isinstance(item, Call)]) for fact in replies(session)] == [2, 0, 2, 0, 2, 0]
        last = emulator.exchanges[-1].request["messages"]
        ids = [call["id"] for message in last for call in message.get("tool_calls", ())]
        assert len(set(ids)) == len(ids) == 6
        assert [call.output.content for group in session.state.groups for call in group.calls if call.output] == [
            message["content"] for message in last if message["role"] == "tool"
        ]


async def test_a_refusal_is_recorded_as_one_and_the_conversation_goes_on(emulator: Emulator, stream: bool) -> None:
    emulator.fault("refusal")
    session = HandoffBuilder("desk", [Agent("desk", model=model(emulator, "gpt-4o", stream=stream))]).build().session("s")
    assert (await session.run("Something bad")).text == "I'm sorry, but I can't help with that."
    await session.run("Something good")
    await check_log(emulator)
    assert isinstance(replies(session)[0].items[0], Refusal)
    assert emulator.exchanges[-1].request["messages"][1] == {"role": "assistant", "content": "I'm sorry, but I can't help with that."}


@pytest.mark.parametrize(("fault", "finish"), [("incomplete", "length"), ("content_filter", "filter")])
async def test_a_reply_that_was_cut_short_says_so(emulator: Emulator, stream: bool, fault: str, finish: str) -> None:
    emulator.fault(fault)
    reply = await model(emulator, "gpt-4o", stream=stream).reply(Talk().says("Hello").request(), lambda text: None)
    assert reply.finish == finish


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "says", "retryable", "retry_after", "reason"),
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
async def test_a_failure_says_whether_and_when_to_try_again(
    emulator: Emulator, stream: bool, fault: str, says: str, retryable: bool, retry_after: float | None, reason: str
) -> None:
    emulator.fault(fault)
    with pytest.raises(ModelFailed) as failed:
        await model(emulator, "gpt-4o", stream=stream).reply(Talk().says("Hello there").request(), lambda text: None)
    failure = failed.value
    assert says in failure.summary
    assert failure.retryable is retryable
    assert stream or retry_after is None or failure.retry_after == retry_after
    assert reason in ("", failure.reason)


@pytest.mark.parametrize(
    "fault", ["rate_limit retry_after=0.01", "server_error", "overloaded", "hang_up", "cut event=4", "cut byte=250", "error_event after=5"]
)
async def test_a_failure_that_passes_leaves_one_whole_reply(emulator: Emulator, stream: bool, fault: str, at_once: None) -> None:
    session = desk(model(emulator, stream=stream)).session("s")
    emulator.fault(fault)
    first = await session.run("My order A-17 arrived broken, I want a refund.")
    emulator.fault(fault)
    second = await session.run("Please look up order B-2")
    await check_log(emulator, faults=2)
    assert (first.status, second.status) == ("waiting", "waiting")
    assert attempts(session)
    assert not any(fact.final for fact in attempts(session))
    async with serve() as undisturbed:
        other = desk(OpenAIChat("gpt-5", base_url=undisturbed.openai_url, api_key="sk-test", stream=stream)).session("s")
        await other.run("My order A-17 arrived broken, I want a refund.")
        await other.run("Please look up order B-2")
        assert [message.text for message in other.messages] == [message.text for message in session.messages]
        assert [[type(item) for item in fact.items] for fact in replies(other)] == [
            [type(item) for item in fact.items] for fact in replies(session)
        ]


async def test_a_failure_that_stays_is_told_after_the_last_attempt(emulator: Emulator, at_once: None) -> None:
    for _ in range(4):
        emulator.fault("server_error")
    result = await Agent("desk", model=model(emulator)).run("Hello")
    assert (result.status, result.text) == ("failed", "")
    assert "The server had an error" in result.error
    assert len(await noted(emulator)) == 4
    assert (await result.session.resume()).status == "waiting"


async def test_a_slow_stream_is_waited_for_as_long_as_the_model_may_take(emulator: Emulator) -> None:
    emulator.fault("slow delay=0.02")
    reply = await model(emulator, "gpt-4o", timeout=60).reply(Talk().says("Hello there").request(), lambda text: None)
    assert isinstance(reply.items[0], Words)
    emulator.fault("slow delay=2")
    with pytest.raises(ModelFailed) as failed:
        await model(emulator, "gpt-4o", timeout=0.2).reply(Talk().says("Hello there").request(), lambda text: None)
    assert failed.value.retryable


async def test_an_address_where_nobody_answers_is_a_failure_that_may_pass() -> None:
    nobody = OpenAIChat("m", base_url="http://127.0.0.1:9/v1", api_key="sk-test")
    with pytest.raises(ModelFailed, match="could not be reached") as failed:
        await nobody.reply(Talk().says("Hello").request(), lambda text: None)
    assert failed.value.retryable


# -- what can be sent --------------------------------------------------------------------------------------------------


async def test_pictures_and_files_are_sent_with_every_request(emulator: Emulator, stream: bool) -> None:
    session = HandoffBuilder("desk", [Agent("desk", model=model(emulator, "gpt-4o", stream=stream))]).build().session("s")
    picture, letter = image(b"\xff\xd8\xffpicture", "image/jpeg"), file(b"%PDF", "a.pdf", "application/pdf")
    parts = ["Look:", picture, image("https://example.com/cat.png"), letter]
    await session.run([*parts, file("https://example.com/b.pdf", "b.pdf")])
    await session.run("And now?")
    await check_log(emulator)
    for exchange in emulator.exchanges:
        assert exchange.request["messages"][0]["content"] == [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/cGljdHVyZQ=="}},
            {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
            {"type": "text", "text": "[file b.pdf: https://example.com/b.pdf]"},
        ]
    assert session.losses == ["file b.pdf: this API takes no addresses of files; the model is told where it is"]


class Verdict(BaseModel):
    """What the agent is to say."""

    model_config = ConfigDict(extra="forbid")
    reason: str
    approved: bool


async def test_structured_output_is_asked_for_and_validated(emulator: Emulator, stream: bool) -> None:
    judge_it = Agent("judge", instructions="Judge the refund.", model=model(emulator, "gpt-4o", stream=stream), output_type=Verdict)
    result = await judge_it.run("Order A-17 came broken.")
    await check_log(emulator)
    assert isinstance(result.output, Verdict)
    wanted = emulator.exchanges[0].request["response_format"]
    assert (wanted["type"], wanted["json_schema"]["name"], wanted["json_schema"]["strict"]) == ("json_schema", "output", True)
    assert set(wanted["json_schema"]["schema"]["properties"]) == {"reason", "approved"}


async def test_options_reach_the_provider_and_are_part_of_the_record(emulator: Emulator) -> None:
    wise = model(emulator, effort="low", max_tokens=4000, verbosity="low", seed=3, service_tier="flex", parallel_calls=False)
    session = HandoffBuilder("desk", [Agent("desk", model=wise, tools=[look_up_order])]).build().session("s")
    await session.run("Please look up order B-2")
    await check_log(emulator)
    sent = emulator.exchanges[0].request
    options = ("reasoning_effort", "max_completion_tokens", "verbosity", "seed", "service_tier", "parallel_tool_calls")
    assert [sent[name] for name in options] == ["low", 4000, "low", 3, "flex", False]
    frame = json.loads(await session.store.content("s", replies(session)[0].frame))
    assert json.loads(frame["options"])["effort"] == "low"


def test_options_that_would_be_refused_are_refused_when_the_model_is_made(emulator: Emulator) -> None:
    with pytest.raises(BadInput, match="Unrecognized request argument supplied: nonsense"):
        model(emulator, extra={"nonsense": 1})


@pytest.mark.parametrize("option", ["hosted", "memory", "reasoning_summary", "thinking_tokens", "no_such_option"])
def test_an_option_that_this_api_does_not_have_is_refused_when_the_model_is_made(option: str) -> None:
    with pytest.raises(BadInput, match="no option"):
        OpenAIChat("m", api_key="sk-test", **{option: "detailed"})


async def test_a_model_that_thinks_out_of_sight_loses_nothing_that_could_be_told() -> None:
    async with serve(mind=lambda prompt: Say((Thought("Hm."), Told("Hi.")))) as emulator:
        session = HandoffBuilder("desk", [Agent("desk", model=model(emulator))]).build().session("s")
        await session.run("Hello")
        await session.run("Hello again")
        await check_log(emulator)
        assert session.losses == []
