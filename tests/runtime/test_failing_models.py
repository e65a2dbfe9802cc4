"""When a model fails: what is waited for, what is not, and what may be changed before the session goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from legato import Agent, tool
from legato.core.facts import MAX_TIME_MS, CallReturned, CallStarted, ModelRequestFailed
from legato.errors import ModelFailed
from legato.history import last
from legato.models import Call, FallbackModel, Reply, Usage, Words
from legato.models.sdk import retry_after
from legato.providers.formats.failures import refusal_of
from legato.stores import MemoryStore
from legato.testing import ScriptedModel
from legato.testing.loop import SimulatedLoop

WORDS = (Words("Hello."),)
JUNK: dict[str, Any] = {
    "None": None,
    "words alone": "Hello.",
    "the class": Reply,
    "no items": Reply(items=None),  # type: ignore[arg-type]
    "items that are none": Reply(items=("Hello.",)),  # type: ignore[arg-type]
    "half a surrogate pair": Reply(items=(Words("\ud800"),)),
    "arguments that are no text": Reply(items=(Call("pay", {"to": "Ann"}),)),  # type: ignore[arg-type]
    "half a token": Reply(items=WORDS, usage=Usage(input=1.5)),  # type: ignore[arg-type]
    "no usage": Reply(items=WORDS, usage=None),  # type: ignore[arg-type]
    "an unknown end": Reply(items=WORDS, finish="bogus"),  # type: ignore[arg-type]
    "a model that is no text": Reply(items=WORDS, model=object()),  # type: ignore[arg-type]
}
NO_SECONDS: list[Any] = [float("nan"), float("inf"), float("-inf"), -5, "soon", True, []]


class Always:
    """A model that gives the same thing whenever it is asked; an error is raised."""

    name = "junk"

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    async def reply(self, request: Any, emit: Any) -> Any:
        if isinstance(self._thing, Exception):
            raise self._thing
        return self._thing


@pytest.mark.parametrize("thing", JUNK.values(), ids=JUNK)
def test_junk_reply_is_a_bounded_failure(thing: Any) -> None:
    async def test() -> None:
        session = Agent("a", model=Always(thing))._workflow().session("s", store=MemoryStore())
        for go_on in (lambda: session.run("Hello"), session.resume):
            result = await go_on()
            assert result.status == "failed"
            assert "the model" in result.error
        assert 2 <= sum(isinstance(fact, ModelRequestFailed) for fact in session.facts) <= 8

    SimulatedLoop().run_until_complete(test())


@pytest.mark.parametrize("thing", JUNK.values(), ids=JUNK)
async def test_junk_reply_has_the_next_model_asked(thing: Any) -> None:
    result = await Agent("a", model=FallbackModel(Always(thing), ScriptedModel(["I am here."]))).run("Hello")
    assert result.text == "I am here."
    (attempted,) = [fact for fact in result.session.facts if isinstance(fact, ModelRequestFailed)]
    assert (attempted.error.startswith("junk: "), attempted.final) == (True, False)


@pytest.mark.parametrize("seconds", NO_SECONDS, ids=str)
def test_senseless_retry_after_is_ignored(seconds: Any) -> None:
    """Whoever is the last to be asked is asked four times with the usual pauses, and then the session can be resumed."""

    async def test() -> None:
        busy = Always(ModelFailed("busy", retryable=True, retry_after=seconds))
        for model, most in ((busy, 4), (FallbackModel(busy, busy), 4), (FallbackModel(busy, ScriptedModel(["Here."])), 1)):
            begun = asyncio.get_running_loop().time()
            result = await Agent("a", model=model).run("Hello")
            assert (result.status == "failed") == (most == 4)
            assert sum(isinstance(fact, ModelRequestFailed) for fact in result.session.facts) == most
            assert asyncio.get_running_loop().time() - begun < 10

    SimulatedLoop().run_until_complete(test())


def test_senseless_retry_after_of_a_provider_is_ignored() -> None:
    told = {"nan": None, "inf": None, "1e999": None, "Wed, 18 Nov 2026": None, "-3": 0.0, "7": 7.0}
    assert {value: retry_after({"retry-after": value}) for value in told} == told
    assert refusal_of(429, {"error": {"message": f"Please try again in {'9' * 400}m1s"}}).retry_after is None


async def test_after_the_last_attempt_the_agent_is_seen_anew_so_what_was_mended_counts_at_once() -> None:
    store = MemoryStore()
    model = ScriptedModel(["Yes?", ModelFailed("too long"), "I see."])
    session = Agent("a", instructions="Say much.", model=model)._workflow().session("s", store=store)
    await session.run("One")
    assert (await session.run("Two")).status == "failed"
    mended = Agent("a", instructions="Be brief.", model=model, history=last(1))._workflow().session("s", store=store)
    assert (await mended.resume()).text == "I see."
    asked = model.requests[-1]
    assert asked.frame.instructions == "Be brief."
    assert [message.text for message in asked.messages] == ["Two"]


async def test_a_provider_that_asks_to_wait_for_hours_is_not_waited_for() -> None:
    model = ScriptedModel([ModelFailed("come back later", retryable=True, retry_after=7200.0), "Here I am."])
    result = await Agent("a", model=model).run("Hello")
    assert (result.status, result.error) == ("failed", "come back later")
    assert [fact.final for fact in result.session.facts if isinstance(fact, ModelRequestFailed)] == [True]
    assert (await result.session.resume()).text == "Here I am."


async def test_a_wait_of_any_length_is_recorded() -> None:
    told = retry_after({"retry-after": "1e308"})
    result = await Agent("a", model=Always(ModelFailed("come back later", retryable=True, retry_after=told))).run("Hello")
    assert (result.status, result.error) == ("failed", "come back later")
    assert [fact.retry_at for fact in result.session.facts if isinstance(fact, ModelRequestFailed)] == [MAX_TIME_MS]


async def test_the_last_call_of_a_reply_that_a_filter_stopped_is_not_run() -> None:
    ran: list[str] = []

    @tool
    def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    calls = (Words("I will pay."), Call("pay", '{"to": "Ann"}', "call_1"), Call("pay", '{"to": "B"}', "call_2"))
    model = ScriptedModel([Reply(items=calls, finish="filter"), "Only Ann was paid."])
    session = (await Agent("a", model=model, tools=[pay]).run("Pay Ann and Bob")).session
    assert ran == ["Ann"]
    assert len([fact for fact in session.facts if isinstance(fact, CallStarted)]) == 1
    told = [fact.output for fact in session.facts if isinstance(fact, CallReturned)]
    assert any("Not run: the reply was cut off" in str(output) for output in told)


async def test_marked_failure_of_one_model_ends() -> None:
    """A model raises one error object, which a `FallbackModel` has marked: it is tried as often as any other."""
    failure = ModelFailed("overloaded", retryable=True, retry_after=0.0)
    failure.another = True
    session = Agent("a", model=Always(failure))._workflow().session("s", store=MemoryStore())
    result = await session.run("Hi")
    assert result.status == "failed"
    assert sum(isinstance(fact, ModelRequestFailed) for fact in session.facts) == 4
