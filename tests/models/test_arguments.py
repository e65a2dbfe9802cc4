"""What a model is made with: what is wrong is said when it is made, by name, with what to write."""

from __future__ import annotations

from typing import Any

import pytest

from legato import Agent, Usage, file, image
from legato.core.facts import ModelRequestFailed
from legato.emulator import serve
from legato.errors import BadInput
from legato.models import Anthropic, FallbackModel, OpenAIChat, OpenAIResponses


@pytest.mark.parametrize("kind", [OpenAIResponses, OpenAIChat, Anthropic])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"temprature": 1}, r"no option 'temprature'(.|\n)*write temperature="),
        ({"max_output_tokens": 10}, r"no option(.|\n)*write max_tokens="),
        ({"effort": "max"}, "effort='max' cannot be used(.|\n)*'none' or 'minimal'"),
        ({"temperature": "hot"}, "cannot be used"),
        ({"temperature": 3}, "does not take these options"),
        ({"max_tokens": -1}, "does not take these options"),
        ({"tool_choice": "requird"}, "names no tool"),
        ({"extra": {"stream": False}}, "write stream=False"),
        ({"extra": {"model": "x"}}, "cannot be given"),
        ({"stream": "no"}, "stream is True or False"),
        ({"check": "no"}, "check is"),
        ({"timeout": -1}, "number of seconds"),
        ({"prices": {"gpt-5.1": 3}}, "Price objects"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_told_when_the_model_is_made(kind: Any, given: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        kind("claude-sonnet-5" if kind is Anthropic else "gpt-4.1", api_key="x", **given)


@pytest.mark.parametrize(("kind", "given"), [(OpenAIResponses, "input"), (OpenAIResponses, "tools"), (OpenAIChat, "messages")])
def test_what_is_not_the_callers_cannot_be_put_into_extra(kind: Any, given: str) -> None:
    with pytest.raises(BadInput, match="cannot be given"):
        kind("gpt-4.1", api_key="x", extra={given: []})


def test_the_prefix_of_a_string_is_no_part_of_a_models_name() -> None:
    with pytest.raises(BadInput, match="leave out 'openai:' here"):
        OpenAIResponses("openai:gpt-5.1")


def test_betas_are_a_list() -> None:
    with pytest.raises(BadInput, match=r"write betas=\['x'\]"):
        Anthropic("claude-sonnet-5", betas="x")


async def test_a_failure_says_whose_it_is_and_where_it_was() -> None:
    model = OpenAIChat("gpt-4.1", base_url="http://127.0.0.1:9/v1", api_key="any")
    builder = Agent("a", model=FallbackModel(model, model))
    result = await builder.run("Hello")
    await model.close()
    attempt = next(fact for fact in result.session.facts if isinstance(fact, ModelRequestFailed))
    assert attempt.error.startswith("openai-chat:gpt-4.1: http://127.0.0.1:9/v1/chat/completions could not be reached: ConnectError")


async def test_an_address_that_is_none_is_not_tried_again() -> None:
    model = OpenAIChat("gpt-4.1", base_url="localhost:8000/v1", api_key="any")
    result = await Agent("a", model=model).run("Hello")
    await model.close()
    assert result.status == "failed"
    assert len([fact for fact in result.session.facts if isinstance(fact, ModelRequestFailed)]) == 1


@pytest.mark.parametrize(("fault", "finish"), [("incomplete", "length"), ("content_filter", "filter")])
async def test_a_reply_that_was_cut_short_says_so(fault: str, finish: str) -> None:
    async with serve() as emulator:
        emulator.fault(fault)
        model = OpenAIResponses("gpt-4.1", base_url=emulator.openai_url, api_key="any")
        run = Agent("a", model=model).run("Hello")
        events = [event async for event in run]
        result = await run
        await model.close()
    assert result.finish == finish
    assert [event.data for event in events if event.type == "cut_short"] == [finish]


@pytest.mark.parametrize("make", [image, file])
@pytest.mark.parametrize("source", ["nofile.png", b""])
def test_a_path_is_no_address_and_nothing_is_no_picture(make: Any, source: Any) -> None:
    with pytest.raises(BadInput, match="as bytes, or as the address"):
        make(source)


def test_what_was_spent_can_be_read_in_dollars() -> None:
    assert Usage(cost=1_768_750).dollars == 0.00176875
    assert (Usage().dollars, Usage(input=1).dollars, Usage(input=1, cost=0).dollars) == (0, None, 0)


@pytest.mark.parametrize("text", ["gpt-5.1", "opneai:gpt-5.1", "openai:", "claude:sonnet"])
def test_a_string_that_names_no_model_is_told_when_the_agent_is_made(text: str) -> None:
    with pytest.raises(BadInput, match=r"agent 'a': .* names no model"):
        Agent("a", model=text)
