"""A truncated, refused, filtered or empty reply has a defined record and a defined effect on the next request (story 42).

| the reply | recorded | the next request has |
|---|---|---|
| truncated text | `ModelReplied`, finish "length" | the truncated text |
| a truncated call | `ModelReplied`, finish "length" | the call, and an output that says it did not run |
| truncated reasoning, or reasoning only | `ModelReplied` without text | nothing of it |
| a refusal | `ModelReplied` with a `Refusal` | its text, as the agent's |
| stopped by a filter | `ModelReplied`, finish "filter" | the text before the stop |
| empty | `ModelRequestFailed`; retries, then a pause | nothing |
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from legato.core.facts import Call, CallReturned, CallStarted, OutputText, Refusal
from legato.emulator.fake_models.base import FakeReply, ModelPrompt, ReplyCall, ReplyRefusal, ReplyThought
from legato.emulator.fake_models.base import ReplyText as Told
from tests.providers.failures.emulator_harness import (
    FORMATS,
    STORING_FORMATS,
    EmulatorHarness,
    collect_events,
    collect_shown_messages,
    find_conversations,
    find_failed_requests,
    find_replies,
    run_emulator,
)
from tests.providers.failures.test_broken_streams import make_desk
from tests.providers.failures.test_retries import make_greeter

WHOLE_TEXT = "Let me see, I would say so."
HALF_TEXT = WHOLE_TEXT[: len(WHOLE_TEXT) // 2]


def script_first_reply(*items: Any, finish: Any = "stop") -> Any:
    """Return a fake model that replies with this to "Hello", and with "Fine." to anything else."""

    def reply(prompt: ModelPrompt) -> FakeReply:
        thinks = prompt.has_reasoning or prompt.api != "anthropic"
        if prompt.last_user_text == "Hello" and prompt.messages[-1].role == "user":
            return FakeReply(tuple(item for item in items if thinks or not isinstance(item, ReplyThought)), finish)
        return FakeReply((Told("Fine."),))

    return reply


async def read_last_contents(harness: EmulatorHarness) -> list[tuple[str, str]]:
    raw, numbers = await harness.read_traffic()
    return raw.read_contents(max(numbers.values()))


@pytest.mark.parametrize("name", FORMATS)
async def test_truncated_text_stays_in_the_conversation(name: str, stream: bool) -> None:
    async with run_emulator(stream, script_first_reply(ReplyThought("Hm."), Told(WHOLE_TEXT))) as harness:
        session = make_greeter(harness.make_model(name)).session("s")
        harness.emulator.fault("incomplete")
        events = await collect_events(session.run("Hello", stream=True))
        (reply,) = find_replies(session)
        (words,) = [item.text for item in reply.items if isinstance(item, OutputText)]
        assert (reply.finish, words, session.status) == ("length", HALF_TEXT, "waiting")
        assert collect_shown_messages(events) == [words]
        assert (await session.run("Go on")).text == "Fine."
        assert await read_last_contents(harness) == [("user", "Hello"), ("assistant", words), ("user", "Go on")]
        await harness.check_sessions(session)


@pytest.mark.parametrize("name", FORMATS)
async def test_truncated_call_gets_an_error_output(name: str, stream: bool) -> None:
    async with run_emulator(
        stream, script_first_reply(ReplyThought("Hm."), Told("I look."), ReplyCall("look_up", '{"order": "A-17"}'))
    ) as harness:
        session = make_desk(harness.make_model(name)).session("s")
        harness.emulator.fault("incomplete")
        assert (await session.run("Hello")).text == "Fine."
        assert not [fact for fact in session.facts if isinstance(fact, CallStarted)]
        (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
        assert returned.status == "error"
        assert "cut off" in str(returned.output)
        assert [reply.finish for reply in find_replies(session)] == ["length", "stop"]
        (user, words, call, output) = await read_last_contents(harness)
        assert (user, words, output) == (("user", "Hello"), ("assistant", "I look."), ("output 0", returned.output))
        assert call[0] == "call 0"
        raw, numbers = await harness.read_traffic()
        assert all(raw.find_unpaired_calls(number) == [] for number in numbers.values())
        assert await harness.find_refusals() == []


# Chat Completions hides reasoning: such a reply is empty there, and is requested again unless it was truncated.
@pytest.mark.parametrize(
    ("name", "finish"),
    [(name, finish) for name in FORMATS for finish in ("length", "stop") if finish == "length" or not name.startswith("chat")],
)
async def test_reply_of_reasoning_only_stays_legal(name: str, finish: str, stream: bool) -> None:
    """The model used up its tokens on reasoning. No provider takes reasoning back if nothing follows it."""
    async with run_emulator(stream, script_first_reply(ReplyThought("Hm hm."), finish=finish)) as harness:
        session = make_greeter(harness.make_model(name)).session("s")
        events = await collect_events(session.run("Hello", stream=True))
        assert (session.status, collect_shown_messages(events)) == ("waiting", [])
        assert find_replies(session)[0].finish == finish
        assert [message.text for message in session.messages] == ["Hello"]
        for _ in range(2):
            assert (await session.run("Go on")).text == "Fine."
        assert (await read_last_contents(harness))[:2] == [("user", "Hello"), ("user", "Go on")]
        second = (await harness.read_exchanges())[1].request_body
        assert "previous_response_id" not in second  # a reply that ends in reasoning is not continued
        if name == "responses conversation":
            assert len(set(find_conversations(session))) == 2
        await harness.check_sessions(session)


@pytest.mark.parametrize("name", FORMATS)
async def test_refusal_is_recorded_and_conversation_continues(name: str, stream: bool) -> None:
    async with run_emulator(stream, script_first_reply(ReplyThought("Hm."), ReplyRefusal("I cannot help with that."))) as harness:
        session = make_greeter(harness.make_model(name)).session("s")
        events = await collect_events(session.run("Hello", stream=True))
        assert collect_shown_messages(events) == ["I cannot help with that."]
        assert [item.text for item in find_replies(session)[0].items if isinstance(item, Refusal)] == ["I cannot help with that."]
        assert find_replies(session)[0].finish == ("filter" if name == "anthropic" else "stop")
        assert (await session.run("Go on")).text == "Fine."
        assert await read_last_contents(harness) == [("user", "Hello"), ("assistant", "I cannot help with that."), ("user", "Go on")]
        await harness.check_sessions(session)


@pytest.mark.parametrize("texts", [[Told("I would say")], []], ids=["after some words", "before any word"])
@pytest.mark.parametrize("name", FORMATS)
async def test_filtered_text_stays_in_the_conversation(name: str, texts: list[Told], stream: bool) -> None:
    async with run_emulator(stream, script_first_reply(*texts, finish="content_filter")) as harness:
        session = make_greeter(harness.make_model(name)).session("s")
        events = await collect_events(session.run("Hello", stream=True))
        assert collect_shown_messages(events) == [item.text for item in texts]
        assert (find_replies(session)[0].finish, session.status, find_failed_requests(session)) == ("filter", "waiting", [])
        assert (await session.run("Go on")).text == "Fine."
        assert await read_last_contents(harness) == [("user", "Hello"), *(("assistant", item.text) for item in texts), ("user", "Go on")]
        await harness.check_sessions(session)


@pytest.mark.parametrize("name", FORMATS)
async def test_calls_of_a_filtered_reply_get_outputs(name: str, stream: bool) -> None:
    calls = [ReplyCall("look_up", '{"order": "A-17"}'), ReplyCall("look_up", '{"order": "B-')]
    async with run_emulator(stream, script_first_reply(Told("I look."), *calls, finish="content_filter")) as harness:
        session = make_desk(harness.make_model(name)).session("s")
        await session.run("Hello")
        assert (await session.run("Go on")).text == "Fine."
        calls_in_reply = [item for item in find_replies(session)[0].items if isinstance(item, Call)]
        assert len([fact for fact in session.facts if isinstance(fact, CallReturned)]) == len(calls_in_reply)
        raw, numbers = await harness.read_traffic()
        assert all(raw.find_unpaired_calls(number) == [] for number in numbers.values())
        assert await harness.find_refusals() == []


class EmptyRepliesModel:
    """A fake model that gives empty replies this many times, then "Hello!"."""

    def __init__(self, times: int, *before: Any) -> None:
        self.left = times
        self.before = before

    def reply(self, prompt: ModelPrompt) -> FakeReply:
        self.left -= 1
        return FakeReply(self.before) if self.left >= 0 else FakeReply((Told("Hello!"),))


@pytest.mark.parametrize("name", FORMATS)
async def test_empty_reply_is_a_retried_failure(name: str, stream: bool, without_backoff: None) -> None:
    async with run_emulator(stream, EmptyRepliesModel(2)) as harness:
        session = make_greeter(harness.make_model(name)).session("s")
        assert (await session.run("Hello")).text == "Hello!"
        assert [(attempt.error, attempt.attempt, attempt.final) for attempt in find_failed_requests(session)] == [
            ("the model's reply was empty", 1, False),
            ("the model's reply was empty", 2, False),
        ]
        assert len(find_replies(session)) == 1
        assert await read_last_contents(harness) == [("user", "Hello")]
        await harness.check_sessions(session)


@pytest.mark.parametrize("name", FORMATS)
async def test_only_empty_replies_pause_the_session(name: str, stream: bool, without_backoff: None) -> None:
    async with run_emulator(stream, EmptyRepliesModel(3)) as harness:
        session = make_greeter(harness.make_model(name), attempts=3).session("s")
        result = await session.run("Hello")
        assert (result.status, result.error, len(await harness.read_exchanges())) == ("failed", "the model's reply was empty", 3)
        assert (await session.resume()).text == "Hello!"
        await harness.check_sessions(session)


class RefusingTransport(httpx2.AsyncHTTPTransport):
    """A transport to a provider that refuses to continue a reply that ends in reasoning, which the emulator accepts."""

    def __init__(self) -> None:
        super().__init__(verify=False)
        self.refused = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content) if request.content else {}
        if not (body.get("previous_response_id") or body.get("conversation")) or self.refused or "Three" not in str(body["input"]):
            return await super().handle_async_request(request)
        self.refused += 1
        message = "Item 'rs_1' of type 'reasoning' was provided without its required following item."
        error = {"message": message, "type": "invalid_request_error", "param": "input", "code": None}
        return httpx2.Response(400, json={"error": error}, request=request)


@pytest.mark.parametrize("name", STORING_FORMATS)
async def test_rejected_stored_reasoning_is_replaced_by_value(name: str, stream: bool) -> None:
    provider = RefusingTransport()
    async with run_emulator(stream, [[ReplyThought("Hm."), Told("One.")], "Two.", "Three."]) as harness:
        session = make_greeter(harness.make_model(name, http_client=httpx2.AsyncClient(transport=provider))).session("s")
        for words in ("One", "Two", "Three"):
            assert (await session.run(words)).text == f"{words}."
        assert (provider.refused, find_failed_requests(session)) == (1, [])
        assert not (await harness.read_exchanges())[-1].request_body.keys() & {"previous_response_id", "conversation"}
        await harness.check_sessions(session)
