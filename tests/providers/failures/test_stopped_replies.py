"""A reply that was cut short, refused, stopped or empty has a defined meaning: what is recorded, what the next request holds (story 42).

| the reply | recorded | the next request holds |
|---|---|---|
| cut in its words | `ModelReplied`, finish "length" | the words, as far as they came |
| cut in a call | `ModelReplied`, finish "length" | the call, and an output that says it did not run |
| cut in its reasoning, or nothing but reasoning | `ModelReplied` without words | nothing of it |
| a refusal | `ModelReplied` with a `Refusal` | its words, as the agent's |
| stopped by a filter | `ModelReplied`, finish "filter" | the words, as far as they came |
| empty | `ModelRequestFailed`; asked again, then a pause | nothing |
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from legato.core.facts import Call, CallReturned, CallStarted, Refusal, Words
from legato.emulator.minds.base import Prompt, Refused, Say, Thought, Use
from legato.emulator.minds.base import Words as Told
from tests.providers.failures.test_broken_streams import desk
from tests.providers.failures.test_retries import greeter
from tests.providers.failures.wires import HELD, WIRES, Line, answers, attempts, conversations, events_of, line, shown

WHOLE = "Let me see, I would say so."
HALF = WHOLE[: len(WHOLE) // 2]


def first(*items: Any, finish: Any = "stop") -> Any:
    """A mind that says this to "Hello", and "Fine." to everything else."""

    def reply(prompt: Prompt) -> Say:
        thinks = prompt.thinks or prompt.api != "anthropic"
        if prompt.said == "Hello" and prompt.heard[-1].who == "user":
            return Say(tuple(item for item in items if thinks or not isinstance(item, Thought)), finish)
        return Say((Told("Fine."),))

    return reply


async def heard_last(wire: Line) -> list[tuple[str, str]]:
    raw, numbers = await wire.raw()
    return raw.heard(max(numbers.values()))


@pytest.mark.parametrize("name", WIRES)
async def test_words_that_were_cut_short_stand_as_far_as_they_came(name: str, stream: bool) -> None:
    async with line(stream, first(Thought("Hm."), Told(WHOLE))) as wire:
        session = greeter(wire.model(name)).session("s")
        wire.emulator.fault("incomplete")
        events = await events_of(session.run("Hello", stream=True))
        (reply,) = answers(session)
        (words,) = [item.text for item in reply.items if isinstance(item, Words)]
        assert (reply.finish, words, session.status) == ("length", HALF, "waiting")
        assert shown(events) == [words]
        assert (await session.run("Go on")).text == "Fine."
        assert await heard_last(wire) == [("user", "Hello"), ("assistant", words), ("user", "Go on")]
        await wire.check(session)


@pytest.mark.parametrize("name", WIRES)
async def test_a_call_that_was_cut_short_does_not_run_and_is_answered(name: str, stream: bool) -> None:
    async with line(stream, first(Thought("Hm."), Told("I look."), Use("look_up", '{"order": "A-17"}'))) as wire:
        session = desk(wire.model(name)).session("s")
        wire.emulator.fault("incomplete")
        assert (await session.run("Hello")).text == "Fine."
        assert not [fact for fact in session.facts if isinstance(fact, CallStarted)]
        (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
        assert returned.status == "error"
        assert "cut off" in str(returned.output)
        assert [reply.finish for reply in answers(session)] == ["length", "stop"]
        (user, words, call, output) = await heard_last(wire)
        assert (user, words, output) == (("user", "Hello"), ("assistant", "I look."), ("output 0", returned.output))
        assert call[0] == "call 0"
        raw, numbers = await wire.raw()
        assert all(raw.unpaired(number) == [] for number in numbers.values())
        assert await wire.refused() == []


# Over Chat Completions reasoning is out of sight: such a reply is empty there, and asked for again, unless it was cut short.
@pytest.mark.parametrize(
    ("name", "finish"),
    [(name, finish) for name in WIRES for finish in ("length", "stop") if finish == "length" or not name.startswith("chat")],
)
async def test_a_reply_of_reasoning_alone_says_nothing_and_the_next_request_is_legal(name: str, finish: str, stream: bool) -> None:
    """The model thought until its tokens were used up. Nothing follows its reasoning, and no provider takes back what stands alone."""
    async with line(stream, first(Thought("Hm hm."), finish=finish)) as wire:
        session = greeter(wire.model(name)).session("s")
        events = await events_of(session.run("Hello", stream=True))
        assert (session.status, shown(events)) == ("waiting", [])
        assert answers(session)[0].finish == finish
        assert [message.text for message in session.messages] == ["Hello"]
        for _ in range(2):
            assert (await session.run("Go on")).text == "Fine."
        assert (await heard_last(wire))[:2] == [("user", "Hello"), ("user", "Go on")]
        second = (await wire.exchanges())[1].request
        assert "previous_response_id" not in second  # nothing followed the reasoning: it is not gone on from
        if name == "responses conversation":
            assert len(set(conversations(session))) == 2
        await wire.check(session)


@pytest.mark.parametrize("name", WIRES)
async def test_a_refusal_is_recorded_as_one_and_the_conversation_goes_on(name: str, stream: bool) -> None:
    async with line(stream, first(Thought("Hm."), Refused("I cannot help with that."))) as wire:
        session = greeter(wire.model(name)).session("s")
        events = await events_of(session.run("Hello", stream=True))
        assert shown(events) == ["I cannot help with that."]
        assert [item.text for item in answers(session)[0].items if isinstance(item, Refusal)] == ["I cannot help with that."]
        assert answers(session)[0].finish == ("filter" if name == "anthropic" else "stop")
        assert (await session.run("Go on")).text == "Fine."
        assert await heard_last(wire) == [("user", "Hello"), ("assistant", "I cannot help with that."), ("user", "Go on")]
        await wire.check(session)


@pytest.mark.parametrize("said", [[Told("I would say")], []], ids=["after some words", "before any word"])
@pytest.mark.parametrize("name", WIRES)
async def test_a_reply_that_a_filter_stopped_stands_as_far_as_it_came(name: str, said: list[Told], stream: bool) -> None:
    async with line(stream, first(*said, finish="content_filter")) as wire:
        session = greeter(wire.model(name)).session("s")
        events = await events_of(session.run("Hello", stream=True))
        assert shown(events) == [item.text for item in said]
        assert (answers(session)[0].finish, session.status, attempts(session)) == ("filter", "waiting", [])
        assert (await session.run("Go on")).text == "Fine."
        assert await heard_last(wire) == [("user", "Hello"), *(("assistant", item.text) for item in said), ("user", "Go on")]
        await wire.check(session)


@pytest.mark.parametrize("name", WIRES)
async def test_calls_of_a_reply_that_a_filter_stopped_are_answered_once(name: str, stream: bool) -> None:
    calls = [Use("look_up", '{"order": "A-17"}'), Use("look_up", '{"order": "B-')]
    async with line(stream, first(Told("I look."), *calls, finish="content_filter")) as wire:
        session = desk(wire.model(name)).session("s")
        await session.run("Hello")
        assert (await session.run("Go on")).text == "Fine."
        made = [item for item in answers(session)[0].items if isinstance(item, Call)]
        assert len([fact for fact in session.facts if isinstance(fact, CallReturned)]) == len(made)
        raw, numbers = await wire.raw()
        assert all(raw.unpaired(number) == [] for number in numbers.values())
        assert await wire.refused() == []


class Hesitant:
    """Says nothing, so often; then "Hello!"."""

    def __init__(self, times: int, *before: Any) -> None:
        self.left = times
        self.before = before

    def reply(self, prompt: Prompt) -> Say:
        self.left -= 1
        return Say(self.before) if self.left >= 0 else Say((Told("Hello!"),))


@pytest.mark.parametrize("name", WIRES)
async def test_an_empty_reply_is_no_reply_and_is_asked_for_again(name: str, stream: bool, at_once: None) -> None:
    async with line(stream, Hesitant(2)) as wire:
        session = greeter(wire.model(name)).session("s")
        assert (await session.run("Hello")).text == "Hello!"
        assert [(attempt.error, attempt.number, attempt.final) for attempt in attempts(session)] == [
            ("the model's reply was empty", 1, False),
            ("the model's reply was empty", 2, False),
        ]
        assert len(answers(session)) == 1
        assert await heard_last(wire) == [("user", "Hello")]
        await wire.check(session)


@pytest.mark.parametrize("name", WIRES)
async def test_a_model_that_says_nothing_at_all_pauses_the_session(name: str, stream: bool, at_once: None) -> None:
    async with line(stream, Hesitant(3)) as wire:
        session = greeter(wire.model(name), attempts=3).session("s")
        result = await session.run("Hello")
        assert (result.status, result.error, len(await wire.exchanges())) == ("failed", "the model's reply was empty", 3)
        assert (await session.resume()).text == "Hello!"
        await wire.check(session)


class Particular(httpx2.AsyncHTTPTransport):
    """The way to a provider that will not go on from reasoning that nothing followed, which the emulator does."""

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


@pytest.mark.parametrize("name", HELD)
async def test_a_provider_that_complains_about_reasoning_that_it_holds_is_told_everything_by_value(name: str, stream: bool) -> None:
    provider = Particular()
    async with line(stream, [[Thought("Hm."), Told("One.")], "Two.", "Three."]) as wire:
        session = greeter(wire.model(name, http_client=httpx2.AsyncClient(transport=provider))).session("s")
        for words in ("One", "Two", "Three"):
            assert (await session.run(words)).text == f"{words}."
        assert (provider.refused, attempts(session)) == (1, [])
        assert not (await wire.exchanges())[-1].request.keys() & {"previous_response_id", "conversation"}
        await wire.check(session)
