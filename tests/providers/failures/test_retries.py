"""Transient failures are retried up to the limit of attempts; then the session pauses, and can be resumed (story 39; D1, D4)."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from legato import Agent, HandoffBuilder, Session, Workflow
from legato.core.facts import MessageReceived
from legato.emulator.fake_models.base import ReplyText, ReplyThought
from legato.stores.contract import Store
from tests.providers.failures.emulator_harness import (
    FORMATS,
    KEY,
    collect_events,
    collect_shown_messages,
    find_conversations,
    find_failed_requests,
    find_replies,
    run_emulator,
)
from tests.providers.failures.test_broken_streams import LAST_TEXT, SCRIPT, make_desk

QUESTION = "Where are A-17 and B-2?"
TRANSIENT_FAULTS = [
    "rate_limit retry_after=0.02",
    "server_error",
    "server_error status=502",
    "server_error status=503",
    "overloaded",
    "timeout seconds=0.01",
    "hang_up",
]
PERMANENT_FAULTS = ["unauthorized", "quota", "filtered_input"]
HELLO_SCRIPT: list[Any] = [[ReplyThought("A guest."), ReplyText("Hello!")], "Still here.", "And here."]


def make_greeter(model: Any, attempts: int = 4) -> Workflow:
    return HandoffBuilder("hall", [Agent("greeter", instructions="You greet.", model=model)]).with_model_attempts(attempts).build()


def check_once(session: Session) -> None:
    """Check that each message is in the conversation once."""
    assert [message.text for message in session.messages] == [QUESTION, "I look both up now.", LAST_TEXT]
    assert len([fact for fact in session.facts if isinstance(fact, MessageReceived)]) == 1


@pytest.mark.parametrize("name", FORMATS)
async def test_transient_failure_is_reported_and_retried(name: str, stream: bool, without_backoff: None) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        model = harness.make_model(name)
        sessions = []
        for fault in TRANSIENT_FAULTS[name == "anthropic" :]:  # its rate limits are in whole seconds: see below
            session = make_desk(model).session(fault.split("=")[0] + fault[-3:])
            harness.emulator.fault(fault)
            events = await collect_events(session.run(QUESTION, stream=True))
            (attempt,) = find_failed_requests(session)
            assert (fault, attempt.attempt, attempt.final) == (fault, 1, False)
            (told,) = [event for event in events if event.type == "model_failed"]
            assert session.facts[told.position] is attempt
            assert attempt.error in told.data
            assert collect_shown_messages(events) == ["I look both up now.", LAST_TEXT]
            check_once(session)
            sessions.append(session)
        await harness.check_sessions(*sessions)


@pytest.mark.parametrize("name", FORMATS)
async def test_lasting_failure_pauses_after_the_attempts(name: str, place: tuple[bool, Store], without_backoff: None) -> None:
    stream, store = place
    async with run_emulator(stream, HELLO_SCRIPT, faults=["server_error@2,3,4,5,6"]) as harness:
        workflow = make_greeter(harness.make_model(name), attempts=3)
        await workflow.session("s", store=store).run("Hello")
        session = workflow.session("s", store=store)
        events = await collect_events(session.run("Are you there?", stream=True))
        assert session.status == "failed"
        assert "The server had an error" in session.error or "Internal server error" in session.error
        assert [(attempt.attempt, attempt.final) for attempt in find_failed_requests(session)] == [(1, False), (2, False), (3, True)]
        assert len([event for event in events if event.type == "model_failed"]) == 3
        assert len(await harness.read_exchanges()) == 4
        again = workflow.session("s", store=store)  # another handle, as in another process
        result = await again.resume()
        assert (result.status, result.text) == ("waiting", "Still here.")
        assert [(attempt.attempt, attempt.final) for attempt in find_failed_requests(again)][3:] == [(1, False), (2, False)]
        assert [message.text for message in again.messages] == ["Hello", "Hello!", "Are you there?", "Still here."]
        await harness.check_sessions(again)


@pytest.mark.parametrize("name", FORMATS)
async def test_permanent_failure_pauses_at_once(name: str, stream: bool, without_backoff: None) -> None:
    """A new message continues the session."""
    async with run_emulator(stream, HELLO_SCRIPT) as harness:
        workflow = make_greeter(harness.make_model(name))
        sessions = []
        for fault in PERMANENT_FAULTS:
            session = workflow.session(fault)
            harness.emulator.fault(fault)
            result = await session.run("Hello")
            assert (fault, result.status, result.text, len(find_failed_requests(session))) == (fault, "failed", "", 1)
            assert result.error == session.error == find_failed_requests(session)[0].error
            assert (await session.run("Hello?")).text == "Hello!"
            assert [message.text for message in session.messages] == ["Hello", "Hello?", "Hello!"]
            sessions.append(session)
        await harness.check_sessions(*sessions)


@pytest.mark.parametrize("name", ["responses inline", "azure", "chat", "anthropic"])
async def test_rate_limit_is_waited_for_as_requested(name: str, stream: bool, without_backoff: None) -> None:
    asked_for = 1 if name == "anthropic" else 0.15  # Anthropic uses whole seconds
    async with run_emulator(stream, HELLO_SCRIPT) as harness:
        harness.emulator.fault(f"rate_limit retry_after={asked_for}")
        assert (await make_greeter(harness.make_model(name)).session("s").run("Hello")).text == "Hello!"
        first, second = await harness.read_exchanges()
        assert second.started_at - first.started_at >= asked_for


@pytest.mark.parametrize(("message", "seconds"), [("0.2s", 0.2), ("150ms", 0.15), ("0m0.1s", 0.1)])
@pytest.mark.parametrize("name", ["responses inline", "chat"])
async def test_rate_limit_in_a_stream_is_waited_for(name: str, message: str, seconds: float, without_backoff: None) -> None:
    """An error in a stream has no headers, so the wait is read from its message."""
    async with run_emulator(True, HELLO_SCRIPT) as harness:
        harness.emulator.fault(
            f"error_event kind=rate_limit message=Rate limit reached for gpt-5. Please try again in {message}. Visit us."
        )
        assert (await make_greeter(harness.make_model(name)).session("s").run("Hello")).text == "Hello!"
        first, second = await harness.read_exchanges()
        assert seconds <= second.started_at - first.started_at


@pytest.mark.parametrize("name", ["responses inline", "responses conversation", "chat", "anthropic"])
async def test_provider_timeout_is_retried_until_answered(name: str, stream: bool, without_backoff: None) -> None:
    async with run_emulator(stream, HELLO_SCRIPT) as harness:
        session = make_greeter(harness.make_model(name, timeout=0.5), attempts=50).session("s")
        harness.emulator.fault("timeout seconds=30")
        if stream:
            harness.emulator.fault("slow delay=30")  # the answer begins, and then stalls
        result = await session.run("Hello")
        assert result.text == "Hello!"
        assert len(find_failed_requests(session)) >= (2 if stream else 1)  # more if a good answer takes too long too
        assert [message.text for message in session.messages] == ["Hello", "Hello!"]


# -- conversations in use elsewhere ------------------------------------------------------------------------------------


async def test_locked_conversation_is_retried_and_reused(stream: bool, without_backoff: None) -> None:
    async with run_emulator(stream, HELLO_SCRIPT) as harness:
        session = make_greeter(harness.make_model("responses conversation")).session("s")
        await session.run("Hello")
        harness.emulator.fault("locked")
        harness.emulator.fault("locked")
        assert (await session.run("Are you there?")).text == "Still here."
        assert [(attempt.code, attempt.attempt) for attempt in find_failed_requests(session)] == [
            ("conversation_locked", 1),
            ("conversation_locked", 2),
        ]
        assert len(set(find_conversations(session))) == 1  # the refusal did not change it
        assert (await harness.read_exchanges())[-1].request_body["input"] == [{"role": "user", "content": "Are you there?"}]
        await harness.check_sessions(session, refusals=2)


async def test_conversation_in_use_elsewhere_is_waited_for(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legato.runtime.model_requests.MAX_BACKOFF_S", (0.0, 0.1))
    async with run_emulator(stream, HELLO_SCRIPT) as harness:
        session = make_greeter(harness.make_model("responses conversation")).session("s")
        await session.run("Hello")
        (conversation,) = set(find_conversations(session))
        async with openai.AsyncOpenAI(base_url=harness.emulator.openai_url, api_key=KEY, max_retries=0) as other:
            harness.emulator.fault("slow delay=0.02")
            working = asyncio.create_task(other.responses.create(model="gpt-5", input="Me too", conversation=conversation))
            while harness.emulator.log.requests < 2:  # noqa: ASYNC110 - the server has no event to wait for
                await asyncio.sleep(0.002)
            result = await session.run("Are you there?")
            await working
        assert (result.status, result.error) == ("waiting", "")
        assert {attempt.code for attempt in find_failed_requests(session)} == {"conversation_locked"}


async def test_lasting_lock_pauses_and_resumes_later(stream: bool, without_backoff: None) -> None:
    async with run_emulator(stream, HELLO_SCRIPT, faults=["locked@2,3,4"]) as harness:
        session = make_greeter(harness.make_model("responses conversation"), attempts=3).session("s")
        await session.run("Hello")
        result = await session.run("Are you there?")
        assert (result.status, len(find_failed_requests(session))) == ("failed", 3)
        assert "Another process" in result.error
        assert (await session.resume()).text == "Still here."
        assert len(set(find_conversations(session))) == 1
        assert len(find_replies(session)) == 2
