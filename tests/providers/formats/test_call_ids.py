"""Call ids: whatever ids providers give, no two calls of a request share one, and every output finds its call (C3, C4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.core.facts import Call
from legato.core.view import ModelRequest
from legato.providers.formats.anthropic.encode import encode_request as for_anthropic
from legato.providers.formats.chat.encode import encode_request as for_chat
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.request_options import RequestOptions
from legato.providers.formats.responses.decode import decode_reply
from legato.providers.formats.responses.encode import encode_request as for_responses
from legato.providers.rules.identifiers import is_usable_call_id, sanitize_tool_name
from legato.providers.rules.responses.rules import check_request
from tests.providers.formats.chat.conversations import ConversationBuilder

ORIGIN = "responses here gpt-5"
APIS = ("responses", "chat", "anthropic")


def find_call_ids(request: ModelRequest, api: str) -> tuple[list[str], list[str]]:
    """Return the ids of the calls in a request, and those of its outputs, in order."""
    if api == "responses":
        items = json.loads(for_responses(request, RequestOptions(model="m"), ORIGIN, stream=False).body)["input"]
        return (
            [item["call_id"] for item in items if item.get("type") == "function_call"],
            [item["call_id"] for item in items if item.get("type") == "function_call_output"],
        )
    if api == "chat":
        messages = json.loads(for_chat(request, RequestOptions(model="m"), stream=False).body)["messages"]
        calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        return calls, [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    messages = json.loads(for_anthropic(request, RequestOptions(model="m"), "o", stream=False).body)["messages"]
    blocks = [block for message in messages for block in message["content"]]
    return (
        [block["id"] for block in blocks if block["type"] == "tool_use"],
        [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"],
    )


@pytest.mark.parametrize("api", APIS)
def test_id_resembling_a_legato_id_is_replaced(api: str) -> None:
    conversation = ConversationBuilder().add_message("Hello")
    conversation.add_reply(Call("look_up", "{}", "bad id")).add_message("Again")  # the reply is at position 2: its call becomes call_2_0
    conversation.add_reply(Call("look_up", "{}", "call_2_0")).add_message("?")
    calls, outputs = find_call_ids(conversation.build_request(), api)
    assert len(set(calls)) == 2
    assert calls == outputs
    assert calls[0] == "call_2_0"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("ids", [("call_5_0", ""), ("", "call_2_0"), ("call", "call"), ("call_2_0", "call_2_0")])
def test_every_call_has_an_id_of_its_own(api: str, ids: tuple[str, str]) -> None:
    conversation = ConversationBuilder().add_message("Hello")
    for id in ids:
        conversation.add_reply(Call("look_up", "{}", id), Call("look_up", "{}", id))
    calls, outputs = find_call_ids(conversation.add_message("?").build_request(), api)
    assert len(calls) == len(set(calls)) == 4
    assert calls == outputs


@pytest.mark.parametrize("api", APIS)
def test_id_legal_in_every_format_is_kept(api: str) -> None:
    calls, _ = find_call_ids(
        ConversationBuilder().add_message("Hello").add_reply(Call("look_up", "{}", "call_8fK2")).add_message("?").build_request(), api
    )
    assert calls == ["call_8fK2"]


def test_names_and_ids_have_no_line_break() -> None:
    assert not is_usable_call_id("call_1\n")
    assert sanitize_tool_name("refund\n") != "refund\n"


# -- stored history ----------------------------------------------------------------------------------------------------


class ChainedConversation:
    """A conversation that the provider stores, with scripted replies."""

    def __init__(self) -> None:
        self.conversation = ConversationBuilder().add_message("Hello")
        self.stored_items: dict[str, list[dict[str, Any]]] = {}
        self.count = 0

    def encode_next(self) -> tuple[EncodedRequest, dict[str, Any]]:
        """Encode the next request, and check that it is legal together with the stored history."""
        request = for_responses(self.conversation.build_request(), RequestOptions(model="gpt-5", memory="chained"), ORIGIN, stream=False)
        body = json.loads(request.body)
        whole = [*self.stored_items.get(body.pop("previous_response_id", ""), []), *body["input"]]
        assert check_request({**body, "input": whole}) == []
        calls = [item["call_id"] for item in whole if item.get("type") == "function_call"]
        outputs = [item["call_id"] for item in whole if item.get("type") == "function_call_output"]
        assert len(calls) == len(set(calls))
        assert sorted(calls) == sorted(outputs)
        return request, {**body, "whole": whole}

    def add_turn(self, *ids: str) -> EncodedRequest:
        """Add a reply of the provider, with calls of these ids, or with text if there are none."""
        request, body = self.encode_next()
        self.count += 1
        output: list[dict[str, Any]] = [
            {"type": "function_call", "id": f"fc_{self.count}", "call_id": id, "name": "look_up", "arguments": "{}"} for id in ids
        ] or [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"words {self.count}"}]}]
        answer = {"id": f"resp_{self.count}", "store": True, "status": "completed", "output": output}
        self.stored_items[answer["id"]] = [*body["whole"], *output]  # type: ignore[index]
        reply = decode_reply(answer, request, ORIGIN)
        members = {name: getattr(reply, name) for name in ("response_id", "stored", "base", "origin", "stored_digest")}
        self.conversation.add_reply(*reply.items, **members)
        return request

    def add_foreign_reply(self, *ids: str) -> None:
        """Add a reply of another provider, with calls of these ids."""
        self.conversation.add_reply(*(Call("look_up", "{}", id) for id in ids), origin="elsewhere")


def test_calls_sent_by_value_avoid_stored_ids() -> None:
    conversation = ChainedConversation()
    conversation.add_turn("call_a")
    conversation.add_foreign_reply("call_a")
    request, body = conversation.encode_next()
    assert request.base_id == "resp_1"
    assert [item["call_id"] for item in body["input"] if item["type"] == "function_call"] != ["call_a"]


def test_chain_continues_after_a_replaced_id() -> None:
    conversation = ChainedConversation()
    conversation.add_turn("call_a")
    conversation.add_foreign_reply("functions.look_up:0")
    assert conversation.add_turn().base_id == "resp_1"
    conversation.conversation.add_message("And?")
    assert conversation.add_turn("functions").base_id == "resp_2"
    assert conversation.add_turn().base_id == "resp_3"


@pytest.mark.parametrize("id", ["call_4_0", "x" * 65, "a b"], ids=["like an id of Legato", "too long", "with a space"])
def test_chain_with_an_illegal_id_is_abandoned(id: str) -> None:
    conversation = ChainedConversation()
    conversation.add_turn("call_a")
    assert conversation.add_turn(id).base_id == "resp_1"
    assert conversation.add_turn().base_id == "resp_1"  # the reply before that call, which is now sent by value
    conversation.conversation.add_message("And?")
    assert conversation.add_turn().base_id == "resp_3"


def test_repeated_ids_are_chained_where_possible() -> None:
    conversation = ChainedConversation()
    bases = [conversation.add_turn("call").base_id for _ in range(4)]
    assert bases == ["", "resp_1", "resp_1", "resp_1"]
    assert conversation.add_turn().base_id == "resp_1"
    conversation.conversation.add_message("And?")
    assert conversation.add_turn().base_id == "resp_5"
