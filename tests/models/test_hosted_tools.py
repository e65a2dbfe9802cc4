"""What the provider does by itself: recorded as what it is, taken back where it can be, and told as a loss where it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.facts import Hosted, ModelReplied
from legato.emulator import serve
from legato.emulator.minds.base import Use
from legato.models import OpenAIChat, OpenAIResponses
from legato.providers.rules.responses.laws import judge
from tests.models.providers import Provider

SEARCH = {"type": "web_search_call", "id": "ws_9f", "status": "completed", "action": {"type": "search", "query": "teapots"}}
REMOTE = {
    "type": "mcp_call",
    "id": "mcp_77",
    "server_label": "shop",
    "name": "stock",
    "arguments": "{}",
    "output": "3 teapots",
    "approval_request_id": "mcpr_5",
    "error": None,
}
LOOKED_UP = {"type": "file_search_call", "id": "fs_12", "status": "completed", "queries": ["teapot"], "results": None}
TOOLS = [{"type": "web_search"}, {"type": "mcp", "server_label": "shop", "server_url": "https://shop.example", "require_approval": "never"}]


def words(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def response(*output: dict[str, Any]) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5", "output": list(output), "store": False}


REFUSAL = 400, {"error": {"message": "Item 'ws_1_0' cannot be used.", "type": "invalid_request_error", "param": "input", "code": None}}


async def test_a_search_and_a_remote_call_go_back_to_their_provider_whole_and_without_its_ids() -> None:
    provider = Provider(response(SEARCH, REMOTE, words("Three.")), response(words("Gladly.")))
    result = await Agent("a", model=provider.responses(hosted=TOOLS)).run("How many teapots are there?")
    items = next(fact.items for fact in result.session.facts if isinstance(fact, ModelReplied))
    done = [(item.kind, item.item_id) for item in items if isinstance(item, Hosted)]
    assert done == [("web_search_call", "ws_9f"), ("mcp_call", "mcp_77")]
    await result.session.run("Take one.")
    first, second = provider.asked
    assert first["tools"] == TOOLS
    assert second["input"][1:3] == [
        {**SEARCH, "id": "ws_2_0"},
        {"type": "mcp_call", "id": "mcp_2_1", "server_label": "shop", "name": "stock", "arguments": "{}", "output": "3 teapots"},
    ]
    assert judge(second) == []
    assert result.session.losses == []


async def test_what_the_provider_takes_only_by_look_up_is_left_out_and_told() -> None:
    provider = Provider(response(LOOKED_UP, words("Here it is.")), response(words("Gladly.")))
    session = (await Agent("a", model=provider.responses(hosted=TOOLS)).run("Find the teapot")).session
    events = [event async for event in session.run("Thank you.")]
    assert [item.get("type") for item in provider.asked[1]["input"]] == [None, None, None]
    assert session.losses == ["file_search_call of a: the provider takes it back only by an id that it stored"]
    assert [event.data for event in events if event.type == "loss"] == session.losses


async def test_a_provider_that_will_not_have_it_back_is_asked_without_it_and_not_offered_it_again() -> None:
    provider = Provider(response(SEARCH, words("Three.")), REFUSAL, response(words("Gladly.")), response(words("Bye.")))
    session = (await Agent("a", model=provider.responses(hosted=TOOLS)).run("How many teapots are there?")).session
    await session.run("Take one.")
    result = await session.run("Bye.")
    assert result.status == "waiting"
    sent = [[item.get("type") for item in body["input"]] for body in provider.asked]
    assert sent[1] == [None, "web_search_call", None, None]
    assert sent[2] == [None, None, None]
    assert "web_search_call" not in sent[3]
    assert session.losses == ["web_search_call of a: the provider would not take it back"]


@pytest.mark.parametrize("memory", ["inline", "chained"])
async def test_another_provider_is_told_the_words_and_the_session_what_was_lost(memory: str) -> None:
    provider = Provider(response(SEARCH, {**words(""), "content": []}, _handoff()), response(words("Bye.")))
    async with serve() as emulator:
        other = OpenAIChat("gpt-5", base_url=emulator.openai_url, api_key="any")
        front, back = Agent("front", model=provider.responses(hosted=TOOLS, memory=memory)), Agent("back", model=other)
        desk = HandoffBuilder("desk", [front, back]).add_handoff(front, [back]).add_handoff(back, [front]).build()
        session = desk.session("s")
        await session.run("How many teapots are there?")
        assert session.losses == ["web_search_call of front: only the provider that ran it can take it back"]
        assert emulator.summary() == "1 requests: 200 x1"
        await other.close()


def _handoff() -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "handoff_to_back", "arguments": '{"reason": "stock"}'}


LATER = {"type": "function", "name": "look_up", "defer_loading": True, "parameters": {"type": "object", "properties": {}}}
IN_A_NAMESPACE = {"type": "namespace", "name": "orders", "description": "Orders.", "tools": [{**LATER, "defer_loading": False}]}
FREE_TEXT = {"type": "custom", "name": "look_up"}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("declared", "arguments"),
    [(LATER, "{}"), (IN_A_NAMESPACE, "{}"), (FREE_TEXT, '{"input": "A-17"}')],
    ids=["loaded later", "in a namespace", "free text"],
)
async def test_a_tool_runs_however_the_provider_declares_it(declared: dict[str, Any], arguments: str, stream: bool) -> None:
    """The call comes with its namespace, or with text in place of arguments; it is the agent's tool, and goes back as it came."""

    @tool
    def look_up(input: str = "nothing") -> str:
        """Look an order up."""
        return f"found {input}"

    mind = [[Use("look_up", arguments)], "It is a teapot.", "You are welcome."]
    async with serve(mind=mind) as emulator:
        model = OpenAIResponses("gpt-5.5", base_url=emulator.openai_url, api_key="any", stream=stream, hosted=[declared])
        session = (await Agent("a", model=model, tools=[look_up]).run("What is A-17?")).session
        await session.run("Thanks")
        await model.close()
        assert emulator.summary() == "3 requests: 200 x3"
        call, output = emulator.exchanges[2].request["input"][1:3]
    assert call.get("namespace") == {"namespace": "orders", "function": "look_up"}.get(declared["type"])
    assert call["type"] == ("custom_tool_call" if declared is FREE_TEXT else "function_call")
    assert output["output"] == ("found A-17" if declared is FREE_TEXT else "found nothing")
