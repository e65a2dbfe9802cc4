"""The official OpenAI client against the running emulator, used as its documentation shows."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response, ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem
from pydantic import BaseModel

from legato.emulator import Emulator, serve

MODEL = "gpt-4.1"
THINKER = "gpt-5"
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [{"type": "function", "name": "get_weather", "description": "The weather.", "parameters": PARAMETERS, "strict": True}]
CHAT_TOOLS: list[Any] = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS, "strict": True}}]


class Weather(BaseModel):
    """The structured output."""

    city: str
    degrees: int


def make_outputs(response: Response) -> list[Any]:
    """Return outputs for all calls of a response."""
    return [
        {"type": "function_call_output", "call_id": item.call_id, "output": f"fine in {json.loads(item.arguments)['city']}"}
        for item in response.output
        if isinstance(item, ResponseFunctionToolCall)
    ]


def make_tool_messages(completion: ChatCompletion) -> list[Any]:
    """Return outputs for all calls of a completion."""
    return [
        {"role": "tool", "tool_call_id": call.id, "content": f"fine in {json.loads(call.function.arguments)['city']}"}
        for call in completion.choices[0].message.tool_calls or ()
        if call.type == "function"
    ]


# -- the Responses API: one request ------------------------------------------------------------------------------------


def test_response_is_parsed_into_types(client: openai.OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="Good morning", instructions="Repeat.", metadata={"shop": "7"})
    assert response.output_text == "You said: Good morning"
    assert [type(item) for item in response.output] == [ResponseOutputMessage]
    assert (response.status, response.model, response.metadata) == ("completed", "gpt-4.1-2025-04-14", {"shop": "7"})
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 5
    assert response.id.startswith("resp_")
    assert str(response._request_id).startswith("req_")


def test_reasoning_model_shows_reasoning(client: openai.OpenAI) -> None:
    response = client.responses.create(model=THINKER, input="Hi", reasoning={"effort": "low", "summary": "auto"})
    assert [type(item) for item in response.output] == [ResponseReasoningItem, ResponseOutputMessage]
    assert response.reasoning is not None
    assert response.reasoning.effort == "low"
    assert response.usage is not None
    assert response.usage.output_tokens_details.reasoning_tokens > 0


def test_stream_events_are_typed_and_numbered(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model=MODEL, input="Good morning", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[1].type, events[-1].type) == ("response.created", "response.in_progress", "response.completed")
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "You said: Good morning"
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "You said: Good morning"


def test_streaming_helper_builds_the_response(client: openai.OpenAI) -> None:
    with client.responses.stream(model=THINKER, input="What is the weather?", tools=TOOLS) as stream:
        seen = {event.type for event in stream}
        final = stream.get_final_response()
    assert {"response.function_call_arguments.delta", "response.function_call_arguments.done", "response.completed"} <= seen
    assert [item.arguments for item in final.output if item.type == "function_call"] == ['{"city": "Oslo"}', '{"city": "Rome"}']


def test_structured_output_is_parsed(client: openai.OpenAI) -> None:
    parsed = client.responses.parse(model=MODEL, input="The weather in Oslo?", text_format=Weather)
    assert parsed.output_parsed == Weather(city="Oslo", degrees=21)
    with client.responses.stream(model=MODEL, input="The weather in Oslo?", text_format=Weather) as stream:
        assert stream.get_final_response().output_parsed == Weather(city="Oslo", degrees=21)


async def test_async_client_works_equally(emulator: Emulator) -> None:
    async with openai.AsyncOpenAI(base_url=emulator.openai_url, api_key="sk-one", max_retries=0) as made:
        whole = await made.responses.create(model=MODEL, input="Hi")
        assert whole.output_text == "You said: Hi"
        stream = await made.responses.create(model=MODEL, input="Hi", stream=True)
        kinds = [event.type async for event in stream]
        assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
        async with made.responses.stream(model=MODEL, input="Hi", text_format=Weather) as helper:
            assert (await helper.get_final_response()).output_parsed == Weather(city="Oslo", degrees=21)
        parsed = await made.responses.parse(model=MODEL, input="Hi", text_format=Weather)
        assert parsed.output_parsed == Weather(city="Oslo", degrees=21)
        completion = await made.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}])
        assert completion.choices[0].message.content == "You said: Hi"
        async with made.chat.completions.stream(model=MODEL, messages=[{"role": "user", "content": "Hi"}]) as chunks:
            assert (await chunks.get_final_completion()).choices[0].message.content == "You said: Hi"
        assert MODEL in [model.id async for model in made.models.list()]


# -- the Responses API: conversations ----------------------------------------------------------------------------------


def test_tool_loop_with_whole_history(client: openai.OpenAI) -> None:
    history: list[Any] = [{"role": "user", "content": "What is the weather?"}]
    first = client.responses.create(model=MODEL, input=history, tools=TOOLS)
    history += [*first.output, *make_outputs(first)]
    second = client.responses.create(model=MODEL, input=history, tools=TOOLS)
    assert second.output_text == "It is fine in Oslo and fine in Rome."


def test_tool_loop_with_previous_response(client: openai.OpenAI) -> None:
    first = client.responses.create(model=THINKER, input="What is the weather?", tools=TOOLS)
    second = client.responses.create(model=THINKER, input=make_outputs(first), tools=TOOLS, previous_response_id=first.id)
    third = client.responses.create(model=THINKER, input="Thanks", tools=TOOLS, previous_response_id=second.id)
    assert second.output_text == third.output_text == "It is fine in Oslo and fine in Rome."
    assert (second.previous_response_id, third.previous_response_id) == (first.id, second.id)


def test_missing_output_gets_provider_error(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="What is the weather?", tools=TOOLS)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=MODEL, input=make_outputs(first)[:1], tools=TOOLS, previous_response_id=first.id)
    missing_id = make_outputs(first)[1]["call_id"]
    assert (caught.value.code, caught.value.param, caught.value.type) == (None, "input", "invalid_request_error")
    assert caught.value.body == {
        "message": f"No tool output found for function call {missing_id}.",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }


def test_conversation_remembers_its_messages(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(items=[{"role": "user", "content": "I am Ann."}], metadata={"topic": "weather"})
    assert conversation.metadata == {"topic": "weather"}
    first = client.responses.create(model=MODEL, input="What is the weather?", tools=TOOLS, conversation=conversation.id)
    assert first.conversation is not None
    assert (first.conversation.id, first.previous_response_id) == (conversation.id, None)
    client.responses.create(model=MODEL, input=make_outputs(first), tools=TOOLS, conversation=conversation.id)
    kinds = [item.type for item in client.conversations.items.list(conversation.id, order="asc")]
    assert kinds == ["message", "message", "function_call", "function_call", "function_call_output", "function_call_output", "message"]
    added = client.conversations.items.create(conversation.id, items=[{"role": "user", "content": "One more thing."}])
    item = client.conversations.items.retrieve(added.data[0].id or "", conversation_id=conversation.id)
    assert item.type == "message"
    client.conversations.items.delete(item.id, conversation_id=conversation.id)
    assert len(list(client.conversations.items.list(conversation.id, limit=2))) == 7
    assert client.conversations.update(conversation.id, metadata={"topic": "none"}).metadata == {"topic": "none"}
    assert client.conversations.retrieve(conversation.id).id == conversation.id
    assert client.conversations.delete(conversation.id).deleted
    with pytest.raises(openai.NotFoundError, match=f"Conversation with id '{conversation.id}' not found."):
        client.responses.create(model=MODEL, input="Hello?", conversation=conversation.id)


def test_stored_response_exists_until_deleted(client: openai.OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="Remember me", store=True)
    assert client.responses.retrieve(response.id).output_text == response.output_text
    items = list(client.responses.input_items.list(response.id))
    assert [item.type for item in items] == ["message"]
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError, match=f"Response with id '{response.id}' not found."):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=MODEL, input="And now?", previous_response_id=response.id)
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


def test_stored_response_cannot_be_streamed(client: openai.OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="Remember me")
    with pytest.raises(openai.BadRequestError, match="does not stream a stored response again") as caught:
        client.responses.retrieve(response.id, stream=True)
    assert caught.value.type == "emulator_error"


def test_stored_chat_completion_can_be_retrieved(client: openai.OpenAI) -> None:
    stored = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], store=True)
    assert client.chat.completions.retrieve(stored.id) == stored
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.retrieve("chatcmpl-none")


def test_unstored_response_is_not_found(client: openai.OpenAI) -> None:
    response = client.responses.create(model=THINKER, input="Forget me", store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    reasoning = response.output[0]
    assert isinstance(reasoning, ResponseReasoningItem)
    replay: list[Any] = [{"type": "reasoning", "id": reasoning.id, "summary": []}, {"role": "user", "content": "Again"}]
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(model=THINKER, input=replay, store=False)
    assert caught.value.param == "input"
    assert f"Item with id '{reasoning.id}' not found. Items are not persisted when `store` is set to false." in str(caught.value)


def test_encrypted_reasoning_continues_unstored_conversation(client: openai.OpenAI) -> None:
    parameters: dict[str, Any] = {"model": THINKER, "tools": TOOLS, "store": False, "include": ["reasoning.encrypted_content"]}
    history: list[Any] = [{"role": "user", "content": "What is the weather?"}]
    first = client.responses.create(input=history, **parameters)
    assert isinstance(first.output[0], ResponseReasoningItem)
    assert str(first.output[0].encrypted_content).startswith("gAAAA")
    history += [*first.output, *make_outputs(first)]
    assert client.responses.create(input=history, **parameters).output_text == "It is fine in Oslo and fine in Rome."
    history[1] = {**first.output[0].to_dict(), "encrypted_content": "gAAAAtampered"}
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(input=history, **parameters)
    assert caught.value.code == "invalid_encrypted_content"


# -- Chat Completions --------------------------------------------------------------------------------------------------


def test_completion_is_parsed_into_types(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Good morning"}])
    assert completion.choices[0].message.content == "You said: Good morning"
    assert (completion.choices[0].finish_reason, completion.model) == ("stop", "gpt-4.1-2025-04-14")
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens


def test_completion_is_streamed_in_chunks(client: openai.OpenAI) -> None:
    parameters: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Good morning"}]}
    chunks = list(client.chat.completions.create(**parameters, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "You said: Good morning"
    assert chunks[-1].usage is not None
    assert len({chunk.id for chunk in chunks}) == 1


def test_tool_loop_with_chat_messages(client: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": "What is the weather?"}]
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=CHAT_TOOLS) as stream:
        first = stream.get_final_completion()
    assert first.choices[0].finish_reason == "tool_calls"
    messages += [first.choices[0].message, *make_tool_messages(first)]
    second = client.chat.completions.create(model=MODEL, messages=messages, tools=CHAT_TOOLS)
    assert second.choices[0].message.content == "It is fine in Oslo and fine in Rome."
    with pytest.raises(openai.BadRequestError, match="must be followed by tool messages responding to each 'tool_call_id'"):
        client.chat.completions.create(model=MODEL, messages=messages[:-1], tools=CHAT_TOOLS)


def test_structured_completion_is_parsed(client: openai.OpenAI) -> None:
    parsed = client.chat.completions.parse(model=MODEL, messages=[{"role": "user", "content": "Oslo?"}], response_format=Weather)
    assert parsed.choices[0].message.parsed == Weather(city="Oslo", degrees=21)


def test_each_choice_asks_the_fake_model() -> None:
    with (
        serve(fake_model=lambda prompt: f"Seed {prompt.seed}.", seed=10) as emulator,
        openai.OpenAI(base_url=emulator.openai_url, api_key="sk-one") as client,
    ):
        completion = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], n=3, seed=5)
    assert [choice.message.content for choice in completion.choices] == ["Seed 15.", "Seed 16.", "Seed 17."]


# -- models and errors -------------------------------------------------------------------------------------------------


def test_models_are_listed_and_retrieved(client: openai.OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert {MODEL, THINKER} <= set(names)
    assert not any(name.startswith("claude") for name in names)
    assert client.models.retrieve(MODEL).owned_by == "system"
    with pytest.raises(openai.NotFoundError) as unknown:
        client.models.retrieve("no-such-model")
    assert unknown.value.code == "model_not_found"


def test_unknown_model_status_depends_on_api(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="no-such-model", input="Hi")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="no-such-model", messages=[{"role": "user", "content": "Hi"}])
    assert (caught.value.code, caught.value.param) == ("model_not_found", None)


def test_stream_rejection_comes_before_the_stream(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=MODEL, input="Hi", previous_response_id="resp_unknown", stream=True)
    assert caught.value.message == "Error code: 400 - Previous response with id 'resp_unknown' not found."
    assert caught.value.code == "previous_response_not_found"
    assert str(caught.value.request_id).startswith("req_")


def test_unknown_parameter_is_named(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=MODEL, input="Hi", extra_body={"stor": True})
    assert (caught.value.code, caught.value.param) == ("unknown_parameter", "stor")


def test_raw_response_has_provider_headers(client: openai.OpenAI) -> None:
    raw = client.responses.with_raw_response.create(model=MODEL, input="Hi")
    assert raw.headers["openai-version"] == "2020-10-01"
    assert int(raw.headers["x-ratelimit-remaining-requests"]) > 0
    assert raw.parse().output_text == "You said: Hi"
