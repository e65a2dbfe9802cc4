"""The official SDK against the dialect, with nothing between them but bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import httpx2
import openai
import pytest
from pydantic import BaseModel

from legato.emulator.asks import Ask, Failure
from legato.emulator.minds.base import Prompt, Say, Thought, Use, Words
from tests.emulator.chat.asking import WEATHER, dialect

Reply = Callable[[Prompt], Say]


def client(reply: Reply, fail_after: int = -1) -> openai.OpenAI:
    """A client whose requests are answered by the dialect and what `reply` says."""
    room = dialect()

    def answer(request: httpx2.Request) -> httpx2.Response:
        ask = Ask("chat", 1, json.loads(request.content), dict(request.headers), "org-test", 1_790_000_000.0)
        complaints = room.judge(ask)
        if complaints:
            refusal = room.refuse(ask, complaints)
            return httpx2.Response(refusal.status, json=refusal.body, headers=refusal.headers)
        answer = room.answer(ask, *(reply(prompt) for prompt in room.prompts(ask)))
        if not ask.streams:
            return httpx2.Response(200, json=answer.body, headers=room.headers(ask, streams=False))
        events = answer.events if fail_after < 0 else room.fail_stream(ask, answer, Failure("server_error", 500), fail_after, False)
        return httpx2.Response(200, content=b"".join(event.encode() for event in events), headers={"content-type": "text/event-stream"})

    return openai.OpenAI(
        api_key="sk-test", base_url="http://emulator/v1", max_retries=0, http_client=httpx2.Client(transport=httpx2.MockTransport(answer))
    )


@pytest.fixture
def weather() -> Iterator[openai.OpenAI]:
    """A model that looks the weather of two cities up, then tells it."""

    def reply(prompt: Prompt) -> Say:
        told = [heard.text for heard in prompt.heard if heard.who == "tool"]
        if told:
            return Say((Words(f"It is {' and '.join(told)}."),))
        return Say((Thought("Two cities."), Use("get_weather", '{"city": "Oslo"}'), Use("get_weather", '{"city": "Rome"}')))

    with client(reply) as made:
        yield made


def test_a_conversation_with_parallel_calls(weather: openai.OpenAI) -> None:
    messages: list[object] = [{"role": "user", "content": "Weather?"}]
    first = weather.chat.completions.create(model="gpt-4o", messages=messages, tools=[WEATHER])  # type: ignore[call-overload]
    message = first.choices[0].message
    outputs = [
        {"role": "tool", "tool_call_id": call.id, "content": json.loads(call.function.arguments)["city"]} for call in message.tool_calls
    ]
    second = weather.chat.completions.create(model="gpt-4o", messages=[*messages, message, *outputs], tools=[WEATHER])  # type: ignore[call-overload]
    assert second.choices[0].message.content == "It is Oslo and Rome."
    assert second.choices[0].finish_reason == "stop"


def test_the_sdk_puts_a_stream_together_to_the_whole_answer(weather: openai.OpenAI) -> None:
    asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Weather?"}], "tools": [WEATHER]}
    with weather.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:  # type: ignore[arg-type]
        final = stream.get_final_completion()
    assert [call.function.arguments for call in final.choices[0].message.tool_calls or ()] == ['{"city": "Oslo"}', '{"city": "Rome"}']
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.usage is not None
    assert final.usage.total_tokens == final.usage.prompt_tokens + final.usage.completion_tokens


class Bill(BaseModel):
    """What the model is to fill in."""

    total: float


def test_structured_output_is_parsed() -> None:
    def reply(prompt: Prompt) -> Say:
        assert prompt.schema is not None
        assert prompt.schema["properties"].keys() == {"total"}
        return Say((Words('{"total": 12.5}'),))

    with client(reply) as made:
        messages = [{"role": "user", "content": "Bill?"}]
        parsed = made.chat.completions.parse(model="gpt-4o", messages=messages, response_format=Bill)  # type: ignore[arg-type]
    assert parsed.choices[0].message.parsed == Bill(total=12.5)


def test_a_refusal_by_the_law_book_is_the_sdks_bad_request(weather: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        weather.chat.completions.create(model="gpt-4o", messages=[{"role": "tool", "tool_call_id": "x", "content": "y"}])
    assert refused.value.param == "messages.[0].role"
    assert refused.value.request_id is not None
    assert "must be a response to a preceeding message with 'tool_calls'" in refused.value.message


def test_an_error_inside_a_stream_is_raised_by_the_sdk() -> None:
    with client(lambda prompt: Say((Words("One two three four."),)), fail_after=3) as made:
        stream = made.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Hi"}], stream=True)
        seen: list[str | None] = []
        with pytest.raises(openai.APIError, match="The server had an error"):
            seen.extend(chunk.choices[0].delta.content for chunk in stream)
    assert seen == ["", "One", " two"]


def test_several_choices_are_several_answers() -> None:
    with client(lambda prompt: Say((Words(f"Seed {prompt.seed}."),))) as made:
        completion = made.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Hi"}], n=3, seed=5)
    assert [choice.message.content for choice in completion.choices] == ["Seed 5.", "Seed 6.", "Seed 7."]
    assert [choice.index for choice in completion.choices] == [0, 1, 2]
