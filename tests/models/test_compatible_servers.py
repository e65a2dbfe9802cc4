"""Servers that speak like OpenAI's: they leave out, add and misname things, and are understood all the same."""

from __future__ import annotations

from typing import Any

import pytest

from legato import Agent, HandoffBuilder
from legato.core.facts import ModelRequestFailed, Words
from legato.emulator import serve
from legato.errors import BadInput, ModelFailed
from legato.models.chat import OpenAIChat
from tests.models.chats import Server, asked, look_up_order

HI = {"choices": [{"message": {"role": "assistant", "content": "Hi!"}}]}


@pytest.fixture(params=[False, True], ids=["whole", "streaming"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_a_server_that_does_not_stream_is_understood_all_the_same() -> None:
    reply, heard = await asked(Server(HI).model())
    assert (reply.items, heard) == ((Words("Hi!"),), "Hi!")


async def test_a_failure_that_is_sent_as_a_success_is_a_failure(stream: bool) -> None:
    for answer, retryable in (({"error": {"message": "loading", "code": 503}}, True), ({"error": {"message": "no", "code": 400}}, False)):
        with pytest.raises(ModelFailed) as failed:
            await asked(Server(answer).model(stream=stream))
        assert failed.value.retryable is retryable


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"detail": "Not Found"}, "Not Found"),
        ({"object": "error", "message": "too long", "code": 400}, "too long"),
        ({"error": "no such model"}, "no such model"),
        (b"<html>Bad Gateway</html>", "Bad Gateway"),
        (b"", "400"),
    ],
    ids=["FastAPI's", "vLLM's", "a text", "a page", "nothing"],
)
async def test_whatever_a_server_writes_into_an_error_is_told(stream: bool, body: Any, says: str) -> None:
    with pytest.raises(ModelFailed) as failed:
        await asked(Server(body, status=400).model(stream=stream))
    assert says in failed.value.summary
    assert not failed.value.retryable


async def test_a_server_without_end_marks_is_asked_again_rather_than_believed() -> None:
    half = b'data: {"choices":[{"delta":{"content":"Ha"}}]}\n\n'
    with pytest.raises(ModelFailed, match="ended before") as failed:
        await asked(Server(half, content_type="text/event-stream").model())
    assert failed.value.retryable


THINKING = {
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
WANTED = {
    "error": {"message": "The `reasoning_content` in the thinking mode must be passed back to the API.", "type": "invalid_request_error"}
}
UNWANTED = {"error": {"message": "'messages.1' : property 'reasoning_content' is unsupported", "type": "invalid_request_error"}}


async def thinking(server: Server, **more: Any) -> list[list[str | None]]:
    """A conversation with a model that shows its reasoning; what of that each request sent back."""
    agent = Agent("desk", model=server.model(stream=False, **more), tools=[look_up_order])
    session = HandoffBuilder("desk", [agent]).build().session("s")
    assert (await session.run("Where is A?")).text == "Hi!"
    assert (await session.run("Thanks")).text == "Hi!"
    assert session.losses == ([] if more.get("compatible") else ["reasoning of desk: only the model that made it can read it"])
    return [[each.get("reasoning_content") for each in body["messages"] if each["role"] == "assistant"] for body in server.asked]


async def test_a_compatible_server_gets_its_reasoning_back() -> None:
    assert await thinking(Server(THINKING, HI, HI), compatible=True) == [[], ["I must look."], ["I must look.", None]]


async def test_reasoning_is_left_out_and_told_where_nobody_said_that_it_is_wanted() -> None:
    assert await thinking(Server(THINKING, HI, HI)) == [[], [None], [None, None]]


async def test_a_server_that_insists_on_its_reasoning_gets_it_in_the_same_turn() -> None:
    server = Server(THINKING, (400, WANTED), HI)
    agent = Agent("desk", model=server.model(stream=False), tools=[look_up_order])
    result = await agent.run("Where is A?")
    assert result.text == "Hi!"
    assert [fact for fact in result.session.state.facts if isinstance(fact, ModelRequestFailed)] == []
    assert [body["messages"][-2].get("reasoning_content") for body in server.asked[1:]] == [None, "I must look."]
    assert result.session.losses == []


async def test_a_server_that_does_not_know_its_own_reasoning_is_asked_without_it_in_the_same_turn() -> None:
    server = Server(THINKING, (400, UNWANTED), HI)
    result = await Agent("desk", model=server.model(stream=False, compatible=True), tools=[look_up_order]).run("Where is A?")
    assert result.text == "Hi!"
    assert [body["messages"][-2].get("reasoning_content") for body in server.asked[1:]] == ["I must look.", None]
    assert result.session.losses == ["reasoning of desk: only the model that made it can read it"]


async def test_a_refusal_about_reasoning_that_was_not_there_is_not_tried_again() -> None:
    server = Server((400, WANTED))
    with pytest.raises(ModelFailed, match="passed back"):
        await asked(server.model(stream=False))


async def test_a_call_without_an_id_is_answered_all_the_same() -> None:
    server = Server(THINKING, HI)
    await Agent("desk", model=server.model(stream=False), tools=[look_up_order]).run("Where is A?")
    _, call, output = server.asked[1]["messages"]
    assert call["tool_calls"][0]["id"] == output["tool_call_id"] == "call_2_1"
    assert output["content"] == "order A: one teapot"


async def test_a_server_that_asks_for_no_key_is_given_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with serve() as emulator:
        local = OpenAIChat("gpt-4o", base_url=emulator.openai_url)
        assert (await asked(local))[0].items
        with pytest.raises(BadInput, match="OPENAI_API_KEY"):
            await asked(OpenAIChat("gpt-4o"))


async def test_a_key_that_is_set_is_used_for_every_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-set")
    async with serve(keys=["sk-set"]) as emulator:
        assert (await asked(OpenAIChat("gpt-4o", base_url=emulator.openai_url)))[0].items


def test_a_model_says_which_it_is_and_where_but_not_its_key() -> None:
    local = OpenAIChat("qwen3", base_url="http://localhost:8000/v1", api_key="sk-secret")
    assert (repr(local), local.name) == ("<OpenAIChat qwen3 at http://localhost:8000/v1>", "openai-chat:qwen3")
    assert repr(OpenAIChat("gpt-5.1")) == "<OpenAIChat gpt-5.1>"
    assert "sk-secret" not in local.options_text


async def test_a_client_that_was_given_is_not_closed() -> None:
    server = Server(HI, HI)
    given = server.model()
    await asked(given)
    await given.close()
    assert (await asked(given))[1] == "Hi!"
