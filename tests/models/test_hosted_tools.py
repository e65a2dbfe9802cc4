"""Uses of hosted tools are recorded unchanged, replayed if possible, and reported as losses otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.facts import HostedToolUse, ModelReplied
from legato.emulator import serve
from legato.emulator.fake_models.base import ReplyCall
from legato.models import OpenAIChat, OpenAIResponses
from legato.providers.rules.responses.rules import check_request
from tests.models.fake_providers import ScriptedProvider

SEARCH = {"type": "web_search_call", "id": "ws_9f", "status": "completed", "action": {"type": "search", "query": "teapots"}}
REMOTE_CALL = {
    "type": "mcp_call",
    "id": "mcp_77",
    "server_label": "shop",
    "name": "stock",
    "arguments": "{}",
    "output": "3 teapots",
    "approval_request_id": "mcpr_5",
    "error": None,
}
FILE_SEARCH = {"type": "file_search_call", "id": "fs_12", "status": "completed", "queries": ["teapot"], "results": None}
TOOLS = [{"type": "web_search"}, {"type": "mcp", "server_label": "shop", "server_url": "https://shop.example", "require_approval": "never"}]


def text_item(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def response_body(*output: dict[str, Any]) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5", "output": list(output), "store": False}


REFUSAL = 400, {"error": {"message": "Item 'ws_1_0' cannot be used.", "type": "invalid_request_error", "param": "input", "code": None}}


async def test_hosted_items_are_replayed_without_provider_ids() -> None:
    provider = ScriptedProvider(response_body(SEARCH, REMOTE_CALL, text_item("Three.")), response_body(text_item("Gladly.")))
    result = await Agent("a", model=provider.make_responses_model(hosted=TOOLS)).run("How many teapots are there?")
    items = next(fact.items for fact in result.session.facts if isinstance(fact, ModelReplied))
    recorded = [(item.kind, item.item_id) for item in items if isinstance(item, HostedToolUse)]
    assert recorded == [("web_search_call", "ws_9f"), ("mcp_call", "mcp_77")]
    await result.session.run("Take one.")
    first, second = provider.requests
    assert first["tools"] == TOOLS
    assert second["input"][1:3] == [
        {**SEARCH, "id": "ws_2_0"},
        {"type": "mcp_call", "id": "mcp_2_1", "server_label": "shop", "name": "stock", "arguments": "{}", "output": "3 teapots"},
    ]
    assert check_request(second) == []
    assert result.session.losses == []


async def test_items_replayable_only_by_id_are_losses() -> None:
    provider = ScriptedProvider(response_body(FILE_SEARCH, text_item("Here it is.")), response_body(text_item("Gladly.")))
    session = (await Agent("a", model=provider.make_responses_model(hosted=TOOLS)).run("Find the teapot")).session
    events = [event async for event in session.run("Thank you.")]
    assert [item.get("type") for item in provider.requests[1]["input"]] == [None, None, None]
    assert session.losses == ["file_search_call of a: the provider accepts it back only by an id that it stored"]
    assert [event.data for event in events if event.type == "loss"] == session.losses


async def test_refused_hosted_items_are_not_replayed_again() -> None:
    provider = ScriptedProvider(
        response_body(SEARCH, text_item("Three.")), REFUSAL, response_body(text_item("Gladly.")), response_body(text_item("Bye."))
    )
    session = (await Agent("a", model=provider.make_responses_model(hosted=TOOLS)).run("How many teapots are there?")).session
    await session.run("Take one.")
    result = await session.run("Bye.")
    assert result.status == "waiting"
    item_types = [[item.get("type") for item in body["input"]] for body in provider.requests]
    assert item_types[1] == [None, "web_search_call", None, None]
    assert item_types[2] == [None, None, None]
    assert "web_search_call" not in item_types[3]
    assert session.losses == ["web_search_call of a: the provider refused it"]


@pytest.mark.parametrize("memory", ["inline", "chained"])
async def test_other_provider_gets_text_without_hosted_items(memory: str) -> None:
    provider = ScriptedProvider(response_body(SEARCH, {**text_item(""), "content": []}, _handoff_item()), response_body(text_item("Bye.")))
    async with serve() as emulator:
        other = OpenAIChat("gpt-5", base_url=emulator.openai_url, api_key="any")
        front, back = Agent("front", model=provider.make_responses_model(hosted=TOOLS, memory=memory)), Agent("back", model=other)
        desk = HandoffBuilder("desk", [front, back]).add_handoff(front, [back]).add_handoff(back, [front]).build()
        session = desk.session("s")
        await session.run("How many teapots are there?")
        assert session.losses == ["web_search_call of front: only the provider that ran it accepts it back"]
        assert emulator.summary() == "1 requests: 200 x1"
        await other.close()


def _handoff_item() -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "handoff_to_back", "arguments": '{"reason": "stock"}'}


DEFERRED_TOOL = {"type": "function", "name": "look_up", "defer_loading": True, "parameters": {"type": "object", "properties": {}}}
NAMESPACE = {"type": "namespace", "name": "orders", "description": "Orders.", "tools": [{**DEFERRED_TOOL, "defer_loading": False}]}
FREE_TEXT_TOOL = {"type": "custom", "name": "look_up"}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("declared", "arguments"),
    [(DEFERRED_TOOL, "{}"), (NAMESPACE, "{}"), (FREE_TEXT_TOOL, '{"input": "A-17"}')],
    ids=["loaded later", "in a namespace", "free text"],
)
async def test_a_tool_runs_however_the_provider_declares_it(declared: dict[str, Any], arguments: str, stream: bool) -> None:
    """The call has a namespace, or text in place of arguments. It runs the agent's tool, and is replayed as it came."""

    @tool
    def look_up(input: str = "nothing") -> str:
        """Look an order up."""
        return f"found {input}"

    fake_model = [[ReplyCall("look_up", arguments)], "It is a teapot.", "You are welcome."]
    async with serve(fake_model=fake_model) as emulator:
        model = OpenAIResponses("gpt-5.5", base_url=emulator.openai_url, api_key="any", stream=stream, hosted=[declared])
        session = (await Agent("a", model=model, tools=[look_up]).run("What is A-17?")).session
        await session.run("Thanks")
        await model.close()
        assert emulator.summary() == "3 requests: 200 x3"
        call, output = emulator.exchanges[2].request_body["input"][1:3]
    assert call.get("namespace") == {"namespace": "orders", "function": "look_up"}.get(declared["type"])
    assert call["type"] == ("custom_tool_call" if declared is FREE_TEXT_TOOL else "function_call")
    assert output["output"] == ("found A-17" if declared is FREE_TEXT_TOOL else "found nothing")
