"""Wrong arguments of a model are refused when it is made, by name, with what to write instead."""

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
    ("arguments", "message"),
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
def test_wrong_argument_is_refused_when_made(kind: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        kind("claude-sonnet-5" if kind is Anthropic else "gpt-4.1", api_key="x", **arguments)


@pytest.mark.parametrize(("kind", "member"), [(OpenAIResponses, "input"), (OpenAIResponses, "tools"), (OpenAIChat, "messages")])
def test_extra_cannot_set_reserved_members(kind: Any, member: str) -> None:
    with pytest.raises(BadInput, match="cannot be given"):
        kind("gpt-4.1", api_key="x", extra={member: []})


def test_provider_prefix_in_a_name_is_refused() -> None:
    with pytest.raises(BadInput, match="leave out 'openai:' here"):
        OpenAIResponses("openai:gpt-5.1")


def test_betas_are_a_list() -> None:
    with pytest.raises(BadInput, match=r"write betas=\['x'\]"):
        Anthropic("claude-sonnet-5", betas="x")


async def test_failure_names_its_model_and_address() -> None:
    model = OpenAIChat("gpt-4.1", base_url="http://127.0.0.1:9/v1", api_key="any")
    builder = Agent("a", model=FallbackModel(model, model))
    result = await builder.run("Hello")
    await model.close()
    attempt = next(fact for fact in result.session.facts if isinstance(fact, ModelRequestFailed))
    assert attempt.error.startswith("openai-chat:gpt-4.1: http://127.0.0.1:9/v1/chat/completions could not be reached: ConnectError")


async def test_invalid_address_is_not_retried() -> None:
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
def test_attachments_need_bytes_or_an_address(make: Any, source: Any) -> None:
    with pytest.raises(BadInput, match="must be bytes or a URL"):
        make(source)


def test_what_was_spent_can_be_read_in_dollars() -> None:
    assert Usage(cost=1_768_750).dollars == 0.00176875
    assert (Usage().dollars, Usage(input=1).dollars, Usage(input=1, cost=0).dollars) == (0, None, 0)


@pytest.mark.parametrize("text", ["gpt-5.1", "opneai:gpt-5.1", "openai:", "claude:sonnet"])
def test_unknown_model_name_is_refused_when_made(text: str) -> None:
    with pytest.raises(BadInput, match=r"agent 'a': .* names no model"):
        Agent("a", model=text)
