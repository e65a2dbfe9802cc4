"""The official SDK against the dialect, with nothing between them but bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from pydantic import BaseModel

from legato.emulator.asks import Ask, Failure
from legato.emulator.minds.base import Prompt, Say, Thought, Use, Words
from tests.emulator.anthropic.asking import ADAPTIVE, BETA, WEATHER, dialect

Reply = Callable[[Prompt], Say]
ASKED: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 1000, "messages": [{"role": "user", "content": "Weather?"}]}


def client(reply: Reply, fail_after: int = -1) -> anthropic.Anthropic:
    """A client whose requests are answered by the dialect and what `reply` says."""
    room = dialect()

    def answer(request: httpx2.Request) -> httpx2.Response:
        ask = Ask("anthropic", 1, json.loads(request.content), dict(request.headers), "org-test", 1_790_000_000.0)
        if request.url.path.endswith("/count_tokens"):
            status, body = room.count_tokens(ask)
            return httpx2.Response(status, json=body)
        complaints = room.judge(ask)
        if complaints:
            refusal = room.refuse(ask, complaints)
            return httpx2.Response(refusal.status, json=refusal.body, headers=refusal.headers)
        answer = room.answer(ask, reply(room.prompt(ask)))
        if not ask.streams:
            return httpx2.Response(200, json=answer.body, headers=room.headers(ask, streams=False))
        events = answer.events if fail_after < 0 else room.fail_stream(ask, answer, Failure("overloaded", 529), fail_after, False)
        return httpx2.Response(200, content=b"".join(event.encode() for event in events), headers={"content-type": "text/event-stream"})

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return anthropic.Anthropic(api_key="sk-ant-test", base_url="http://emulator", max_retries=0, http_client=transport)


@pytest.fixture
def weather() -> Iterator[anthropic.Anthropic]:
    """A model that thinks, looks the weather of two cities up, then tells it."""

    def reply(prompt: Prompt) -> Say:
        told = [heard.text for heard in prompt.heard if heard.who == "tool"]
        if told:
            return Say((Thought("Now I know."), Words(f"It is {' and '.join(told)}.")))
        return Say((Thought("Two cities."), Use("get_weather", '{"city": "Oslo"}'), Use("get_weather", '{"city": "Rome"}')))

    with client(reply) as made:
        yield made


def results(message: Any) -> dict[str, Any]:
    blocks = [
        {"type": "tool_result", "tool_use_id": one.id, "content": one.input["city"]} for one in message.content if one.type == "tool_use"
    ]
    return {"role": "user", "content": blocks}


def test_a_conversation_with_thinking_and_parallel_calls(weather: anthropic.Anthropic) -> None:
    first = weather.messages.create(**ASKED, tools=[WEATHER], thinking=ADAPTIVE)
    messages = [*ASKED["messages"], first.to_param(), results(first)]
    second = weather.messages.create(**ASKED | {"messages": messages}, tools=[WEATHER], thinking=ADAPTIVE)
    assert (second.stop_reason, second.content[-1].text) == ("end_turn", "It is Oslo and Rome.")
    messages += [second.to_param(), {"role": "user", "content": "Thanks"}]
    assert weather.messages.create(**ASKED | {"messages": messages}, tools=[WEATHER], thinking=ADAPTIVE).stop_reason == "end_turn"


def test_the_sdk_puts_a_stream_together_to_the_whole_answer(weather: anthropic.Anthropic) -> None:
    with weather.messages.stream(**ASKED, tools=[WEATHER], thinking=ADAPTIVE) as stream:
        final = stream.get_final_message()
    assert [block.type for block in final.content] == ["thinking", "tool_use", "tool_use"]
    assert [block.input for block in final.content[1:]] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert (final.content[0].thinking, final.stop_reason) == ("Two cities.", "tool_use")
    messages = [*ASKED["messages"], final.to_param(), results(final)]
    assert weather.messages.create(**ASKED | {"messages": messages}, tools=[WEATHER], thinking=ADAPTIVE).stop_reason == "end_turn"


def test_another_agents_turn_is_refused_with_the_first_ones_thinking_and_accepted_where_it_may_be_dropped(
    weather: anthropic.Anthropic,
) -> None:
    first = weather.messages.create(**ASKED, tools=[WEATHER], thinking=ADAPTIVE, system="You are Ann.")
    asked = ASKED | {"messages": [*ASKED["messages"], first.to_param(), results(first)], "tools": [WEATHER], "system": "You are Bob."}
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
        weather.messages.create(**asked, thinking=ADAPTIVE)
    dropping = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    message = weather.beta.messages.create(**asked, thinking=dropping, betas=[BETA])
    assert [change.reason for change in message.input_transformations or ()] == ["prefix_binding_mismatch"]


class Bill(BaseModel):
    """What the model is to fill in."""

    total: float


def test_structured_output_is_parsed() -> None:
    def reply(prompt: Prompt) -> Say:
        assert prompt.schema is not None
        assert prompt.schema["properties"].keys() == {"total"}
        return Say((Words('{"total": 12.5}'),))

    with client(reply) as made:
        assert made.messages.parse(**ASKED, output_format=Bill).parsed_output == Bill(total=12.5)


def test_a_refusal_by_the_law_book_is_the_sdks_bad_request(weather: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="at least one message is required") as refused:
        weather.messages.create(**ASKED | {"messages": []})
    assert refused.value.request_id is not None
    assert refused.value.request_id.startswith("req_011C")


def test_an_error_inside_a_stream_is_raised_by_the_sdk() -> None:
    with client(lambda prompt: Say((Words("One two three four."),)), fail_after=5) as made:
        seen: list[str] = []
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
            seen.extend(event.type for event in made.messages.create(**ASKED, stream=True))
    assert seen == ["message_start", "content_block_start", "content_block_delta", "content_block_delta"]


def test_tokens_are_counted(weather: anthropic.Anthropic) -> None:
    counted = weather.messages.count_tokens(model="claude-opus-5-5", messages=ASKED["messages"], tools=[WEATHER])
    assert counted.input_tokens == weather.messages.create(**ASKED, tools=[WEATHER]).usage.input_tokens
