"""Compatible servers, which leave out, add and misname members, are understood."""

from __future__ import annotations

from typing import Any

import pytest

from legato import Agent, HandoffBuilder
from legato.core.facts import ModelRequestFailed, OutputText
from legato.emulator import serve
from legato.errors import BadInput, ModelFailed
from legato.models.chat import OpenAIChat
from tests.models.chat_fixtures import ScriptedServer, look_up_order, request_reply

HI = {"choices": [{"message": {"role": "assistant", "content": "Hi!"}}]}


@pytest.fixture(params=[False, True], ids=["whole", "streaming"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_reply_without_streaming_is_understood() -> None:
    reply, deltas = await request_reply(ScriptedServer(HI).make_model())
    assert (reply.items, deltas) == ((OutputText("Hi!"),), "Hi!")


async def test_error_with_success_status_is_a_failure(stream: bool) -> None:
    for answer, retryable in (({"error": {"message": "loading", "code": 503}}, True), ({"error": {"message": "no", "code": 400}}, False)):
        with pytest.raises(ModelFailed) as failed:
            await request_reply(ScriptedServer(answer).make_model(stream=stream))
        assert failed.value.retryable is retryable


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"detail": "Not Found"}, "Not Found"),
        ({"object": "error", "message": "too long", "code": 400}, "too long"),
        ({"error": "no such model"}, "no such model"),
        (b"<html>Bad Gateway</html>", "Bad Gateway"),
        (b"", "400"),
    ],
    ids=["FastAPI's", "vLLM's", "a text", "a page", "nothing"],
)
async def test_error_text_of_any_form_is_reported(stream: bool, body: Any, message: str) -> None:
    with pytest.raises(ModelFailed) as failed:
        await request_reply(ScriptedServer(body, status=400).make_model(stream=stream))
    assert message in failed.value.summary
    assert not failed.value.retryable


async def test_stream_without_end_mark_is_retried() -> None:
    half = b'data: {"choices":[{"delta":{"content":"Ha"}}]}\n\n'
    with pytest.raises(ModelFailed, match="ended before") as failed:
        await request_reply(ScriptedServer(half, content_type="text/event-stream").make_model())
    assert failed.value.retryable


REASONING_ANSWER = {
    "choices": [
        {
            "message": {
                "content": None,
                "reasoning_content": "I must look.",
                "tool_calls": [{"id": "", "function": {"name": "look_up_order", "arguments": {"order_id": "A"}}}],
            }
        }
    ]
}
REASONING_MISSING = {
    "error": {"message": "The `reasoning_content` in the thinking mode must be passed back to the API.", "type": "invalid_request_error"}
}
REASONING_UNSUPPORTED = {
    "error": {"message": "'messages.1' : property 'reasoning_content' is unsupported", "type": "invalid_request_error"}
}


async def run_reasoning_session(server: ScriptedServer, **more: Any) -> list[list[str | None]]:
    """Run a conversation with a model that shows its reasoning, and return the reasoning in each request."""
    agent = Agent("desk", model=server.make_model(stream=False, **more), tools=[look_up_order])
    session = HandoffBuilder("desk", [agent]).build().session("s")
    assert (await session.run("Where is A?")).text == "Hi!"
    assert (await session.run("Thanks")).text == "Hi!"
    assert session.losses == ([] if more.get("compatible") else ["reasoning of desk: only the model that made it can read it"])
    return [[each.get("reasoning_content") for each in body["messages"] if each["role"] == "assistant"] for body in server.requests]


async def test_a_compatible_server_gets_its_reasoning_back() -> None:
    assert await run_reasoning_session(ScriptedServer(REASONING_ANSWER, HI, HI), compatible=True) == [
        [],
        ["I must look."],
        ["I must look.", None],
    ]


async def test_unwanted_reasoning_is_a_reported_loss() -> None:
    assert await run_reasoning_session(ScriptedServer(REASONING_ANSWER, HI, HI)) == [[], [None], [None, None]]


async def test_missing_reasoning_is_sent_within_the_turn() -> None:
    """A server that requires its reasoning gets it in a second request of the same turn."""
    server = ScriptedServer(REASONING_ANSWER, (400, REASONING_MISSING), HI)
    agent = Agent("desk", model=server.make_model(stream=False), tools=[look_up_order])
    result = await agent.run("Where is A?")
    assert result.text == "Hi!"
    assert [fact for fact in result.session.state.facts if isinstance(fact, ModelRequestFailed)] == []
    assert [body["messages"][-2].get("reasoning_content") for body in server.requests[1:]] == [None, "I must look."]
    assert result.session.losses == []


async def test_refused_reasoning_is_omitted_within_the_turn() -> None:
    """A server that refuses its own reasoning is sent the request again without it, in the same turn."""
    server = ScriptedServer(REASONING_ANSWER, (400, REASONING_UNSUPPORTED), HI)
    result = await Agent("desk", model=server.make_model(stream=False, compatible=True), tools=[look_up_order]).run("Where is A?")
    assert result.text == "Hi!"
    assert [body["messages"][-2].get("reasoning_content") for body in server.requests[1:]] == ["I must look.", None]
    assert result.session.losses == ["reasoning of desk: only the model that made it can read it"]


async def test_refusal_without_sent_reasoning_is_final() -> None:
    server = ScriptedServer((400, REASONING_MISSING))
    with pytest.raises(ModelFailed, match="passed back"):
        await request_reply(server.make_model(stream=False))


async def test_call_without_an_id_gets_an_output() -> None:
    server = ScriptedServer(REASONING_ANSWER, HI)
    await Agent("desk", model=server.make_model(stream=False), tools=[look_up_order]).run("Where is A?")
    _, call, output = server.requests[1]["messages"]
    assert call["tool_calls"][0]["id"] == output["tool_call_id"] == "call_2_1"
    assert output["content"] == "order A: one teapot"


async def test_compatible_server_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with serve() as emulator:
        local = OpenAIChat("gpt-4o", base_url=emulator.openai_url)
        assert (await request_reply(local))[0].items
        with pytest.raises(BadInput, match="OPENAI_API_KEY"):
            await request_reply(OpenAIChat("gpt-4o"))


async def test_environment_key_is_used_for_every_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-set")
    async with serve(keys=["sk-set"]) as emulator:
        assert (await request_reply(OpenAIChat("gpt-4o", base_url=emulator.openai_url)))[0].items


def test_repr_shows_model_and_address_without_key() -> None:
    local = OpenAIChat("qwen3", base_url="http://localhost:8000/v1", api_key="sk-secret")
    assert (repr(local), local.name) == ("<OpenAIChat qwen3 at http://localhost:8000/v1>", "openai-chat:qwen3")
    assert repr(OpenAIChat("gpt-5.1")) == "<OpenAIChat gpt-5.1>"
    assert "sk-secret" not in local.options_text


async def test_a_client_that_was_given_is_not_closed() -> None:
    server = ScriptedServer(HI, HI)
    model = server.make_model()
    await request_reply(model)
    await model.close()
    assert (await request_reply(model))[1] == "Hi!"
