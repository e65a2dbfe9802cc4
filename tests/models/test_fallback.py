"""A model stands in for another: each failure is on record, and what was said before it is withdrawn."""

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


def failures(session: Session) -> list[tuple[int, bool]]:
    return [(fact.number, fact.final) for fact in session.facts if isinstance(fact, ModelRequestFailed)]


async def test_the_second_model_is_asked_at_once_where_the_first_fails(emulator: Emulator) -> None:
    emulator.fault("server_error")
    broken = OpenAIResponses("gpt-4.1", base_url=emulator.openai_url, api_key="any")
    result = await Agent("a", model=FallbackModel(broken, ScriptedModel(["I am here."]))).run("Hello")
    await broken.close()
    assert (result.text, emulator.log.requests) == ("I am here.", 1)
    assert failures(result.session) == [(1, False)]


async def test_a_failure_that_would_not_pass_is_no_reason_to_give_up_while_another_model_stands_by() -> None:
    models = FallbackModel(ScriptedModel([ModelFailed("no such model")]), ScriptedModel(["I am here."]))
    events = [event async for event in Agent("a", model=models).run("Hello", stream=True)]
    told = [str(event) for event in events if event.type == "model_failed"]
    assert told == ["model_failed: a: scripted: no such model (attempt 1)"]
    assert [event.data for event in events if event.type == "status"] == ["waiting"]


async def test_all_of_many_models_are_asked_whatever_the_number_of_attempts() -> None:
    models = [ScriptedModel([ModelFailed("down")]) for _ in range(5)]
    result = await Agent("a", model=FallbackModel(*models, ScriptedModel(["Six."]))).run("Hello")
    assert (result.text, failures(result.session)) == ("Six.", [(number, False) for number in range(1, 6)])


async def test_when_the_last_fails_the_session_pauses_and_the_next_turn_begins_with_the_first() -> None:
    first, second = ScriptedModel([ModelFailed("down"), "I am back."]), ScriptedModel([ModelFailed("down, too")])
    agent = Agent("a", model=FallbackModel(first, second))
    result = await agent.run("Hello")
    assert (result.status, result.error) == ("failed", "scripted: down, too")
    result = await result.session.resume()
    assert result.text == "I am back."
    assert failures(result.session) == [(1, False), (2, True)]


async def test_what_a_model_said_before_it_broke_off_is_withdrawn_before_the_other_speaks(emulator: Emulator) -> None:
    emulator.fault("cut event=6")
    broken = OpenAIChat("gpt-4.1", base_url=emulator.openai_url, api_key="any")
    models = FallbackModel(broken, ScriptedModel(["I am here."]))
    events = [event async for event in Agent("a", model=models).run("Hello", stream=True)]
    await broken.close()
    told = [event.type for event in events if event.type in ("output", "output_reset", "model_failed")]
    assert told[0] == "output"
    assert told.index("output_reset") < told.index("model_failed") < len(told) - 1
    shown = ""
    for event in events:
        shown = "" if event.type == "output_reset" else shown + event.data.text if event.type == "output" else shown
    assert shown == "I am here."


async def test_each_member_keeps_its_own_conversation_with_its_provider(emulator: Emulator) -> None:
    keeps = OpenAIResponses("gpt-4.1", base_url=emulator.openai_url, api_key="any", memory="conversation")
    other = Anthropic("claude-sonnet-5", base_url=emulator.url, api_key="any")
    agent = Agent("a", model=FallbackModel(keeps, other))
    session = (await agent.run("Hello")).session
    emulator.fault("server_error")
    await session.run("And now?")
    result = await session.run("And then?")
    await keeps.close()
    await other.close()
    assert result.status == "waiting"
    asked = [fact.conversation for fact in session.facts if isinstance(fact, ConversationClaimed)]
    answered = [fact.base for fact in session.facts if isinstance(fact, ModelReplied)]
    assert len(asked) == 3
    assert answered[0] == asked[0] == asked[1]
    assert answered[1] == ""
    assert asked[2] != asked[1]  # nobody knows what became of the request that failed


async def test_where_no_conversation_can_be_made_the_other_model_is_asked() -> None:
    keeps = OpenAIResponses("gpt-4.1", base_url="http://127.0.0.1:9/v1", api_key="any", memory="conversation")
    result = await Agent("a", model=FallbackModel(keeps, ScriptedModel(["I am here."]))).run("Hello")
    await keeps.close()
    assert (result.text, failures(result.session)) == ("I am here.", [(1, False)])


async def test_an_error_of_any_kind_is_a_failure_of_that_model() -> None:
    class Odd:
        name = "odd"

        async def reply(self, request: object, emit: object) -> object:
            raise ZeroDivisionError("oh")

    result = await Agent("a", model=FallbackModel(Odd(), ScriptedModel(["I am here."]))).run("Hello")  # type: ignore[arg-type]
    attempt = next(fact for fact in result.session.facts if isinstance(fact, ModelRequestFailed))
    assert (result.text, attempt.error) == ("I am here.", "odd: ZeroDivisionError: oh")


async def test_a_fallback_within_a_fallback_is_one_row_of_models() -> None:
    inner = FallbackModel(ScriptedModel([ModelFailed("one")]), ScriptedModel([ModelFailed("two")]))
    result = await Agent("a", model=FallbackModel(inner, ScriptedModel(["Three."]))).run("Hello")
    assert (result.text, failures(result.session)) == ("Three.", [(1, False), (2, False)])


def test_one_model_is_no_fallback() -> None:
    with pytest.raises(BadInput, match="two models or more"):
        FallbackModel(ScriptedModel(["a"]))


async def test_what_the_failed_attempts_cost_is_part_of_the_sum(emulator: Emulator) -> None:
    emulator.fault("error_event after=3")
    broken = Anthropic("claude-sonnet-5", base_url=emulator.url, api_key="any")
    result = await Agent("a", model=FallbackModel(broken, ScriptedModel(["I am here."]))).run("Hello")
    await broken.close()
    spent = next(fact.usage for fact in result.session.facts if isinstance(fact, ModelRequestFailed))
    answered = next(fact.usage for fact in result.session.facts if isinstance(fact, ModelReplied))
    assert spent.input > 0
    assert result.session.usage == spent + answered
    assert isinstance(result.session.usage, Usage)
