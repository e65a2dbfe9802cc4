"""Model requests that fail: waits, attempts, and repairs before the session is resumed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from legato import Agent, tool
from legato.core.facts import MAX_TIME_MS, CallReturned, CallStarted, ModelRequestFailed
from legato.errors import ModelFailed
from legato.history import last
from legato.models import Call, FallbackModel, ModelReply, OutputText, Usage
from legato.models.sdk_client import parse_retry_after
from legato.providers.formats.provider_errors import translate_error
from legato.stores import MemoryStore
from legato.testing import ScriptedModel
from legato.testing.simulated_event_loop import SimulatedLoop

TEXT = (OutputText("Hello."),)
INVALID_REPLIES: dict[str, Any] = {
    "None": None,
    "words alone": "Hello.",
    "the class": ModelReply,
    "no items": ModelReply(items=None),  # type: ignore[arg-type]
    "items that are none": ModelReply(items=("Hello.",)),  # type: ignore[arg-type]
    "half a surrogate pair": ModelReply(items=(OutputText("\ud800"),)),
    "arguments that are no text": ModelReply(items=(Call("pay", {"to": "Ann"}),)),  # type: ignore[arg-type]
    "half a token": ModelReply(items=TEXT, usage=Usage(input=1.5)),  # type: ignore[arg-type]
    "no usage": ModelReply(items=TEXT, usage=None),  # type: ignore[arg-type]
    "an unknown end": ModelReply(items=TEXT, finish="bogus"),  # type: ignore[arg-type]
    "a model that is no text": ModelReply(items=TEXT, model=object()),  # type: ignore[arg-type]
}
INVALID_SECONDS: list[Any] = [float("nan"), float("inf"), float("-inf"), -5, "soon", True, []]


class ConstantModel:
    """A model that always returns the same outcome, or raises it if it is an error."""

    name = "junk"

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome

    async def reply(self, request: Any, emit: Any) -> Any:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


@pytest.mark.parametrize("outcome", INVALID_REPLIES.values(), ids=INVALID_REPLIES)
def test_invalid_reply_fails_after_few_attempts(outcome: Any) -> None:
    async def test() -> None:
        session = Agent("a", model=ConstantModel(outcome))._as_workflow().session("s", store=MemoryStore())
        for run in (lambda: session.run("Hello"), session.resume):
            result = await run()
            assert result.status == "failed"
            assert "the model" in result.error
        assert 2 <= sum(isinstance(fact, ModelRequestFailed) for fact in session.facts) <= 8

    SimulatedLoop().run_until_complete(test())


@pytest.mark.parametrize("outcome", INVALID_REPLIES.values(), ids=INVALID_REPLIES)
async def test_invalid_reply_falls_back_to_next_model(outcome: Any) -> None:
    result = await Agent("a", model=FallbackModel(ConstantModel(outcome), ScriptedModel(["I am here."]))).run("Hello")
    assert result.text == "I am here."
    (failed,) = [fact for fact in result.session.facts if isinstance(fact, ModelRequestFailed)]
    assert (failed.error.startswith("junk: "), failed.final) == (True, False)


@pytest.mark.parametrize("seconds", INVALID_SECONDS, ids=str)
def test_invalid_retry_after_is_ignored(seconds: Any) -> None:
    """The last model is requested four times with the usual waits, and then the session can be resumed."""

    async def test() -> None:
        busy = ConstantModel(ModelFailed("busy", retryable=True, retry_after=seconds))
        for model, attempts in ((busy, 4), (FallbackModel(busy, busy), 4), (FallbackModel(busy, ScriptedModel(["Here."])), 1)):
            started = asyncio.get_running_loop().time()
            result = await Agent("a", model=model).run("Hello")
            assert (result.status == "failed") == (attempts == 4)
            assert sum(isinstance(fact, ModelRequestFailed) for fact in result.session.facts) == attempts
            assert asyncio.get_running_loop().time() - started < 10

    SimulatedLoop().run_until_complete(test())


def test_invalid_retry_after_header_is_ignored() -> None:
    seconds = {"nan": None, "inf": None, "1e999": None, "Wed, 18 Nov 2026": None, "-3": 0.0, "7": 7.0}
    assert {value: parse_retry_after({"retry-after": value}) for value in seconds} == seconds
    assert translate_error(429, {"error": {"message": f"Please try again in {'9' * 400}m1s"}}).retry_after is None


async def test_resume_uses_repaired_definition() -> None:
    """After the last attempt, the turn context is made again, so that a repaired agent counts at once."""
    store = MemoryStore()
    model = ScriptedModel(["Yes?", ModelFailed("too long"), "I see."])
    session = Agent("a", instructions="Say much.", model=model)._as_workflow().session("s", store=store)
    await session.run("One")
    assert (await session.run("Two")).status == "failed"
    repaired = Agent("a", instructions="Be brief.", model=model, history=last(1))._as_workflow().session("s", store=store)
    assert (await repaired.resume()).text == "I see."
    request = model.requests[-1]
    assert request.turn_context.instructions == "Be brief."
    assert [message.text for message in request.messages] == ["Two"]


async def test_retry_after_of_hours_pauses_session() -> None:
    model = ScriptedModel([ModelFailed("come back later", retryable=True, retry_after=7200.0), "Here I am."])
    result = await Agent("a", model=model).run("Hello")
    assert (result.status, result.error) == ("failed", "come back later")
    assert [fact.final for fact in result.session.facts if isinstance(fact, ModelRequestFailed)] == [True]
    assert (await result.session.resume()).text == "Here I am."


async def test_retry_after_of_any_length_is_recorded() -> None:
    retry_after = parse_retry_after({"retry-after": "1e308"})
    result = await Agent("a", model=ConstantModel(ModelFailed("come back later", retryable=True, retry_after=retry_after))).run("Hello")
    assert (result.status, result.error) == ("failed", "come back later")
    assert [fact.retry_at for fact in result.session.facts if isinstance(fact, ModelRequestFailed)] == [MAX_TIME_MS]


async def test_last_call_of_filtered_reply_is_not_run() -> None:
    ran: list[str] = []

    @tool
    def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    calls = (OutputText("I will pay."), Call("pay", '{"to": "Ann"}', "call_1"), Call("pay", '{"to": "B"}', "call_2"))
    model = ScriptedModel([ModelReply(items=calls, finish="filter"), "Only Ann was paid."])
    session = (await Agent("a", model=model, tools=[pay]).run("Pay Ann and Bob")).session
    assert ran == ["Ann"]
    assert len([fact for fact in session.facts if isinstance(fact, CallStarted)]) == 1
    outputs = [fact.output for fact in session.facts if isinstance(fact, CallReturned)]
    assert any("Not run: the reply was cut off" in str(output) for output in outputs)


async def test_reused_error_object_ends_after_attempts() -> None:
    """A model raises one error object again and again, which a `FallbackModel` has marked: it gets as many attempts as any other."""
    failure = ModelFailed("overloaded", retryable=True, retry_after=0.0)
    failure.another = True
    session = Agent("a", model=ConstantModel(failure))._as_workflow().session("s", store=MemoryStore())
    result = await session.run("Hi")
    assert result.status == "failed"
    assert sum(isinstance(fact, ModelRequestFailed) for fact in session.facts) == 4
