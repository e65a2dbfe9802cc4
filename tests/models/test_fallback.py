"""Fallback models: each failure is recorded, and the text emitted before it is retracted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from legato import Agent
from legato.core.facts import ConversationClaimed, ModelReplied, ModelRequestFailed
from legato.emulator import Emulator, serve
from legato.errors import BadInput, ModelFailed
from legato.models import Anthropic, FallbackModel, OpenAIChat, OpenAIResponses, Usage
from legato.runtime.session import Session
from legato.testing import ScriptedModel


@pytest.fixture
async def emulator() -> AsyncIterator[Emulator]:
    async with serve() as running:
        yield running


def find_failures(session: Session) -> list[tuple[int, bool]]:
    return [(fact.attempt, fact.final) for fact in session.facts if isinstance(fact, ModelRequestFailed)]


async def test_second_model_is_requested_after_a_failure(emulator: Emulator) -> None:
    emulator.fault("server_error")
    broken = OpenAIResponses("gpt-4.1", base_url=emulator.openai_url, api_key="any")
    result = await Agent("a", model=FallbackModel(broken, ScriptedModel(["I am here."]))).run("Hello")
    await broken.close()
    assert (result.text, emulator.log.requests) == ("I am here.", 1)
    assert find_failures(result.session) == [(1, False)]


async def test_permanent_failure_falls_back_too() -> None:
    models = FallbackModel(ScriptedModel([ModelFailed("no such model")]), ScriptedModel(["I am here."]))
    events = [event async for event in Agent("a", model=models).run("Hello", stream=True)]
    failures_shown = [str(event) for event in events if event.type == "model_failed"]
    assert failures_shown == ["model_failed: a: scripted: no such model (attempt 1)"]
    assert [event.data for event in events if event.type == "status"] == ["waiting"]


async def test_all_models_are_requested_beyond_the_attempts() -> None:
    """The limit of attempts does not count while another model follows."""
    models = [ScriptedModel([ModelFailed("down")]) for _ in range(5)]
    result = await Agent("a", model=FallbackModel(*models, ScriptedModel(["Six."]))).run("Hello")
    assert (result.text, find_failures(result.session)) == ("Six.", [(number, False) for number in range(1, 6)])


async def test_failure_of_all_models_pauses_the_session() -> None:
    """The next turn begins with the first model again."""
    first, second = ScriptedModel([ModelFailed("down"), "I am back."]), ScriptedModel([ModelFailed("down, too")])
    agent = Agent("a", model=FallbackModel(first, second))
    result = await agent.run("Hello")
    assert (result.status, result.error) == ("failed", "scripted: down, too")
    result = await result.session.resume()
    assert result.text == "I am back."
    assert find_failures(result.session) == [(1, False), (2, True)]


async def test_failed_text_is_retracted_before_the_fallback(emulator: Emulator) -> None:
    emulator.fault("cut event=6")
    broken = OpenAIChat("gpt-4.1", base_url=emulator.openai_url, api_key="any")
    models = FallbackModel(broken, ScriptedModel(["I am here."]))
    events = [event async for event in Agent("a", model=models).run("Hello", stream=True)]
    await broken.close()
    types = [event.type for event in events if event.type in ("output", "output_reset", "model_failed")]
    assert types[0] == "output"
    assert types.index("output_reset") < types.index("model_failed") < len(types) - 1
    text = ""
    for event in events:
        text = "" if event.type == "output_reset" else text + event.data.text if event.type == "output" else text
    assert text == "I am here."


async def test_each_model_has_its_own_conversation(emulator: Emulator) -> None:
    storing = OpenAIResponses("gpt-4.1", base_url=emulator.openai_url, api_key="any", memory="conversation")
    other = Anthropic("claude-sonnet-5", base_url=emulator.url, api_key="any")
    agent = Agent("a", model=FallbackModel(storing, other))
    session = (await agent.run("Hello")).session
    emulator.fault("server_error")
    await session.run("And now?")
    result = await session.run("And then?")
    await storing.close()
    await other.close()
    assert result.status == "waiting"
    claimed = [fact.conversation for fact in session.facts if isinstance(fact, ConversationClaimed)]
    continued = [fact.base for fact in session.facts if isinstance(fact, ModelReplied)]
    assert len(claimed) == 3
    assert continued[0] == claimed[0] == claimed[1]
    assert continued[1] == ""
    assert claimed[2] != claimed[1]  # nobody knows what became of the request that failed


async def test_conversation_failure_requests_the_other_model() -> None:
    storing = OpenAIResponses("gpt-4.1", base_url="http://127.0.0.1:9/v1", api_key="any", memory="conversation")
    result = await Agent("a", model=FallbackModel(storing, ScriptedModel(["I am here."]))).run("Hello")
    await storing.close()
    assert (result.text, find_failures(result.session)) == ("I am here.", [(1, False)])


async def test_any_exception_is_a_model_failure() -> None:
    class Odd:
        name = "odd"

        async def reply(self, request: object, emit: object) -> object:
            raise ZeroDivisionError("oh")

    result = await Agent("a", model=FallbackModel(Odd(), ScriptedModel(["I am here."]))).run("Hello")  # type: ignore[arg-type]
    attempt = next(fact for fact in result.session.facts if isinstance(fact, ModelRequestFailed))
    assert (result.text, attempt.error) == ("I am here.", "odd: ZeroDivisionError: oh")


async def test_nested_fallbacks_are_flattened_into_one() -> None:
    inner = FallbackModel(ScriptedModel([ModelFailed("one")]), ScriptedModel([ModelFailed("two")]))
    result = await Agent("a", model=FallbackModel(inner, ScriptedModel(["Three."]))).run("Hello")
    assert (result.text, find_failures(result.session)) == ("Three.", [(1, False), (2, False)])


def test_one_model_is_no_fallback() -> None:
    with pytest.raises(BadInput, match="two models or more"):
        FallbackModel(ScriptedModel(["a"]))


async def test_usage_of_failed_attempts_is_counted(emulator: Emulator) -> None:
    emulator.fault("error_event after=3")
    broken = Anthropic("claude-sonnet-5", base_url=emulator.url, api_key="any")
    result = await Agent("a", model=FallbackModel(broken, ScriptedModel(["I am here."]))).run("Hello")
    await broken.close()
    spent = next(fact.usage for fact in result.session.facts if isinstance(fact, ModelRequestFailed))
    answered = next(fact.usage for fact in result.session.facts if isinstance(fact, ModelReplied))
    assert spent.input > 0
    assert result.session.usage == spent + answered
    assert isinstance(result.session.usage, Usage)
