"""What may pass is tried again, so often and no more; then the session pauses, and can go on (story 39; D1, D4)."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from legato import Agent, HandoffBuilder, Session, Workflow
from legato.core.facts import MessageReceived
from legato.emulator.minds.base import Thought, Words
from legato.stores.contract import Store
from tests.providers.failures.test_broken_streams import LAST, MIND, desk
from tests.providers.failures.wires import KEY, WIRES, answers, attempts, conversations, events_of, line, shown

ASKED = "Where are A-17 and B-2?"
PASSES = [
    "rate_limit retry_after=0.02",
    "server_error",
    "server_error status=502",
    "server_error status=503",
    "overloaded",
    "timeout seconds=0.01",
    "hang_up",
]
STAYS = ["unauthorized", "quota", "filtered_input"]
HELLO: list[Any] = [[Thought("A guest."), Words("Hello!")], "Still here.", "And here."]


def greeter(model: Any, attempts: int = 4) -> Workflow:
    return HandoffBuilder("hall", [Agent("greeter", instructions="You greet.", model=model)]).with_model_attempts(attempts).build()


def check_once(session: Session) -> None:
    """Whatever was tried, each message is in the conversation once."""
    assert [message.text for message in session.messages] == [ASKED, "I look both up now.", LAST]
    assert len([fact for fact in session.facts if isinstance(fact, MessageReceived)]) == 1


@pytest.mark.parametrize("name", WIRES)
async def test_a_failure_that_passes_is_told_in_an_event_and_leaves_one_whole_reply(name: str, stream: bool, at_once: None) -> None:
    async with line(stream, MIND) as wire:
        model = wire.model(name)
        sessions = []
        for fault in PASSES[name == "anthropic" :]:  # it has its rate limits in whole seconds: see below
            session = desk(model).session(fault.split("=")[0] + fault[-3:])
            wire.emulator.fault(fault)
            events = await events_of(session.run(ASKED, stream=True))
            (attempt,) = attempts(session)
            assert (fault, attempt.number, attempt.final) == (fault, 1, False)
            (told,) = [event for event in events if event.type == "model_failed"]
            assert session.facts[told.position] is attempt
            assert attempt.error in told.data
            assert shown(events) == ["I look both up now.", LAST]
            check_once(session)
            sessions.append(session)
        await wire.check(*sessions)


@pytest.mark.parametrize("name", WIRES)
async def test_a_failure_that_does_not_pass_is_tried_so_often_and_then_pauses_the_session(
    name: str, place: tuple[bool, Store], at_once: None
) -> None:
    stream, store = place
    async with line(stream, HELLO, faults=["server_error@2,3,4,5,6"]) as wire:
        workflow = greeter(wire.model(name), attempts=3)
        await workflow.session("s", store=store).run("Hello")
        session = workflow.session("s", store=store)
        events = await events_of(session.run("Are you there?", stream=True))
        assert session.status == "failed"
        assert "The server had an error" in session.error or "Internal server error" in session.error
        assert [(attempt.number, attempt.final) for attempt in attempts(session)] == [(1, False), (2, False), (3, True)]
        assert len([event for event in events if event.type == "model_failed"]) == 3
        assert len(await wire.exchanges()) == 4
        again = workflow.session("s", store=store)  # another handle, as in another process
        result = await again.resume()
        assert (result.status, result.text) == ("waiting", "Still here.")
        assert [(attempt.number, attempt.final) for attempt in attempts(again)][3:] == [(1, False), (2, False)]
        assert [message.text for message in again.messages] == ["Hello", "Hello!", "Are you there?", "Still here."]
        await wire.check(again)


@pytest.mark.parametrize("name", WIRES)
async def test_a_failure_that_cannot_pass_pauses_at_once_and_a_new_message_goes_on(name: str, stream: bool, at_once: None) -> None:
    async with line(stream, HELLO) as wire:
        workflow = greeter(wire.model(name))
        sessions = []
        for fault in STAYS:
            session = workflow.session(fault)
            wire.emulator.fault(fault)
            result = await session.run("Hello")
            assert (fault, result.status, result.text, len(attempts(session))) == (fault, "failed", "", 1)
            assert result.error == session.error == attempts(session)[0].error
            assert (await session.run("Hello?")).text == "Hello!"
            assert [message.text for message in session.messages] == ["Hello", "Hello?", "Hello!"]
            sessions.append(session)
        await wire.check(*sessions)


@pytest.mark.parametrize("name", ["responses inline", "azure", "chat", "anthropic"])
async def test_a_rate_limit_is_waited_for_as_long_as_the_provider_asks(name: str, stream: bool, at_once: None) -> None:
    asked_for = 1 if name == "anthropic" else 0.15  # Anthropic says it in whole seconds
    async with line(stream, HELLO) as wire:
        wire.emulator.fault(f"rate_limit retry_after={asked_for}")
        assert (await greeter(wire.model(name)).session("s").run("Hello")).text == "Hello!"
        first, second = await wire.exchanges()
        assert second.at - first.at >= asked_for


@pytest.mark.parametrize(("says", "seconds"), [("0.2s", 0.2), ("150ms", 0.15), ("0m0.1s", 0.1)])
@pytest.mark.parametrize("name", ["responses inline", "chat"])
async def test_a_rate_limit_within_a_stream_has_no_headers_and_is_waited_for_as_its_words_say(
    name: str, says: str, seconds: float, at_once: None
) -> None:
    async with line(True, HELLO) as wire:
        wire.emulator.fault(f"error_event kind=rate_limit message=Rate limit reached for gpt-5. Please try again in {says}. Visit us.")
        assert (await greeter(wire.model(name)).session("s").run("Hello")).text == "Hello!"
        first, second = await wire.exchanges()
        assert seconds <= second.at - first.at


@pytest.mark.parametrize("name", ["responses inline", "responses conversation", "chat", "anthropic"])
async def test_a_provider_that_does_not_answer_in_time_is_asked_again(name: str, stream: bool, at_once: None) -> None:
    async with line(stream, HELLO) as wire:
        session = greeter(wire.model(name, timeout=0.5), attempts=50).session("s")
        wire.emulator.fault("timeout seconds=30")
        if stream:
            wire.emulator.fault("slow delay=30")  # it begins to answer, and then says nothing for too long
        result = await session.run("Hello")
        assert result.text == "Hello!"
        assert len(attempts(session)) >= (2 if stream else 1)  # more, where a good answer takes too long too
        assert [message.text for message in session.messages] == ["Hello", "Hello!"]


# -- a conversation of the provider's, on which somebody else is at work --------------------------------------------------------


async def test_a_locked_conversation_is_waited_for_and_used_again(stream: bool, at_once: None) -> None:
    async with line(stream, HELLO) as wire:
        session = greeter(wire.model("responses conversation")).session("s")
        await session.run("Hello")
        wire.emulator.fault("locked")
        wire.emulator.fault("locked")
        assert (await session.run("Are you there?")).text == "Still here."
        assert [(attempt.code, attempt.number) for attempt in attempts(session)] == [("conversation_locked", 1), ("conversation_locked", 2)]
        assert len(set(conversations(session))) == 1  # the refusal left it as it was
        assert (await wire.exchanges())[-1].request["input"] == [{"role": "user", "content": "Are you there?"}]
        await wire.check(session, refusals=2)


async def test_a_conversation_on_which_another_program_is_at_work_is_waited_for(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legato.runtime.model_requests.BACK_OFF", (0.0, 0.1))
    async with line(stream, HELLO) as wire:
        session = greeter(wire.model("responses conversation")).session("s")
        await session.run("Hello")
        (conversation,) = set(conversations(session))
        async with openai.AsyncOpenAI(base_url=wire.emulator.openai_url, api_key=KEY, max_retries=0) as other:
            wire.emulator.fault("slow delay=0.02")
            working = asyncio.create_task(other.responses.create(model="gpt-5", input="Me too", conversation=conversation))
            while wire.emulator.log.requests < 2:  # noqa: ASYNC110 - the server has no event to wait for
                await asyncio.sleep(0.002)
            result = await session.run("Are you there?")
            await working
        assert (result.status, result.error) == ("waiting", "")
        assert {attempt.code for attempt in attempts(session)} == {"conversation_locked"}


async def test_a_conversation_that_stays_locked_pauses_the_session_which_goes_on_in_it_later(stream: bool, at_once: None) -> None:
    async with line(stream, HELLO, faults=["locked@2,3,4"]) as wire:
        session = greeter(wire.model("responses conversation"), attempts=3).session("s")
        await session.run("Hello")
        result = await session.run("Are you there?")
        assert (result.status, len(attempts(session))) == ("failed", 3)
        assert "Another process" in result.error
        assert (await session.resume()).text == "Still here."
        assert len(set(conversations(session))) == 1
        assert len(answers(session)) == 2
