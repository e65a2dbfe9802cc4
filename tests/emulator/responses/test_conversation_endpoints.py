"""Conversations: their items, locks and deletion."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from openai.types.conversations import Conversation, ConversationDeletedResource, ConversationItemList

from legato.emulator.fake_models.base import FakeReply, ReplyText
from legato.emulator.storage import ProviderStorage
from legato.providers.rules.responses.rules import ResponsesRuleSwitches
from tests.emulator.responses.adapter_client import LOOKS_UP, NOW, THOUGHTFUL, TOOL, AdapterClient, make_outputs

HI = {"type": "message", "role": "user", "content": "Hi"}


def _create(client: AdapterClient, body: dict[str, Any] | None = None, *, account: str = "org-1") -> str:
    request = client.make_request(account=account)
    request.body = body or {}
    status, made = client.adapter.conversation_endpoints.create(request, {})
    assert status == 200, made
    assert Conversation.model_validate(made).id == made["id"]
    return made["id"]


def _call(client: AdapterClient, name: str, *where: str, body: dict[str, Any] | None = None, query: dict[str, str] | None = None) -> Any:
    request = client.make_request()
    request.body = body or {}
    return getattr(client.adapter.conversation_endpoints, name)(request, *where, query or {})


def _list_items(client: AdapterClient, id: str) -> list[dict[str, Any]]:
    status, body = _call(client, "list_items", id, query={"order": "asc", "limit": "100"})
    assert status == 200
    if body["data"]:
        ConversationItemList.model_validate(body)
    return body["data"]


def _list_texts(client: AdapterClient, id: str) -> list[str]:
    return [item["content"][0]["text"] for item in _list_items(client, id) if item["type"] == "message"]


def test_new_conversation_is_empty() -> None:
    client = AdapterClient()
    id = _create(client)
    assert re.fullmatch(r"conv_[0-9a-f]{48}", id)
    assert _call(client, "get", id) == (200, {"id": id, "object": "conversation", "created_at": int(NOW), "metadata": {}})
    assert _list_items(client, id) == []


def test_conversation_starts_with_items_and_metadata() -> None:
    client = AdapterClient()
    id = _create(client, {"items": [HI, {"role": "assistant", "content": "Hello."}], "metadata": {"topic": "demo"}})
    assert _list_texts(client, id) == ["Hi", "Hello."]
    assert _call(client, "get", id)[1]["metadata"] == {"topic": "demo"}


def test_metadata_can_be_changed() -> None:
    client = AdapterClient()
    id = _create(client, {"metadata": {"topic": "a"}})
    assert _call(client, "update", id, body={"metadata": {"topic": "b"}})[1]["metadata"] == {"topic": "b"}
    assert _call(client, "get", id)[1]["metadata"] == {"topic": "b"}


def test_response_adds_input_and_output() -> None:
    client = AdapterClient()
    id = _create(client, {"items": [HI]})
    first = client.post({"model": "gpt-5", "conversation": id, "input": "Where is it?", "tools": [TOOL]}, LOOKS_UP)
    assert [item["type"] for item in _list_items(client, id)] == ["message", "message", "reasoning", "function_call"]
    client.post({"model": "gpt-5", "conversation": {"id": id}, "input": make_outputs(first["output"])}, THOUGHTFUL)
    assert [item["type"] for item in _list_items(client, id)][4:] == ["function_call_output", "reasoning", "message"]
    messages = client.make_prompt({"model": "gpt-5", "conversation": id, "input": "Thanks."}).messages
    assert [one.role for one in messages] == ["user", "user", "assistant", "tool", "assistant", "user"]


def test_unstored_response_extends_the_conversation() -> None:
    client = AdapterClient()
    id = _create(client)
    response = client.post({"conversation": id, "store": False})
    assert _list_texts(client, id) == ["Hi", "Hello, how can I help?"]
    assert client.adapter.response_endpoints.get(client.make_request(), response["id"], {})[0] == 404
    assert client.expect_rejection({"previous_response_id": response["id"]}).rule_ids == ["S1"]


def test_call_of_conversation_must_be_answered() -> None:
    client = AdapterClient()
    id = _create(client)
    client.post({"model": "gpt-5", "conversation": id, "tools": [TOOL]}, LOOKS_UP)
    assert client.expect_rejection({"model": "gpt-5", "conversation": id}).rule_ids == ["T1"]


def test_items_of_conversation_cannot_be_repeated() -> None:
    client = AdapterClient()
    id = _create(client)
    response = client.post({"conversation": id})
    assert client.expect_rejection({"conversation": id, "input": response["output"]}).rule_ids == ["I8"]


def test_response_can_continue_outside_its_conversation() -> None:
    client = AdapterClient()
    id = _create(client, {"items": [HI]})
    response = client.post({"conversation": id, "input": "Well?"})
    client.post({"conversation": id, "input": "Later."})
    messages = client.make_prompt({"previous_response_id": response["id"], "input": "Apart."}).messages
    assert [one.text for one in messages if one.role == "user"] == ["Hi", "Well?", "Apart."]
    assert "Apart." not in _list_texts(client, id)


def test_conversation_tokens_count_as_cached() -> None:
    client = AdapterClient()
    id = _create(client)
    client.post({"conversation": id})
    _call(client, "add_items", id, body={"items": [HI]})
    usage = client.post({"conversation": id})["usage"]
    assert 0 < usage["input_tokens_details"]["cached_tokens"] < usage["input_tokens"]


# -- locks -------------------------------------------------------------------------------------------------------------


def test_concurrent_request_finds_conversation_locked() -> None:
    client = AdapterClient()
    id = _create(client)
    first = client.make_request({"conversation": id, "stream": True})
    assert client.adapter.find_violations(first) == []
    client.adapter.acquire_locks(first)
    rejection = client.expect_rejection({"conversation": id})
    assert (rejection.status, rejection.rule_ids) == (400, ["S9"])
    assert rejection.error == {
        "message": "Another process is currently operating on this conversation. Please retry in a few seconds.",
        "type": "invalid_request_error",
        "param": "conversation",
        "code": "conversation_locked",
    }
    status, body = _call(client, "add_items", id, body={"items": [HI]})
    assert (status, body["error"]["code"]) == (400, "conversation_locked")
    client.adapter.release_locks(first)
    client.post({"conversation": id})


def test_rejected_request_keeps_the_others_lock() -> None:
    client = AdapterClient()
    id = _create(client)
    first, second = client.make_request({"conversation": id}), client.make_request({"conversation": id})
    client.adapter.acquire_locks(first)
    assert client.adapter.find_violations(second)
    client.adapter.release_locks(second)
    assert [violation.rule.id for violation in client.adapter.find_violations(client.make_request({"conversation": id}))] == ["S9"]


def test_other_conversations_are_not_locked() -> None:
    client = AdapterClient()
    id, other = _create(client), _create(client)
    client.adapter.acquire_locks(client.make_request({"conversation": id}))
    client.post({"conversation": other})
    client.post({})


def test_locked_fault_affects_one_request() -> None:
    client = AdapterClient()
    id = _create(client)
    request = client.make_request({"conversation": id})
    client.adapter.apply_state_fault(request, "locked")
    assert [violation.rule.id for violation in client.adapter.find_violations(request)] == ["S9"]
    client.post({"conversation": id})


# -- unknown objects ---------------------------------------------------------------------------------------------------


def test_unknown_conversation_is_not_found() -> None:
    rejection = AdapterClient().expect_rejection({"conversation": "conv_1"})
    assert (rejection.status, rejection.rule_ids, rejection.error["message"]) == (404, ["S8"], "Conversation with id 'conv_1' not found.")


@pytest.mark.parametrize("name", ["get", "update", "delete", "list_items", "add_items"])
def test_endpoints_reject_unknown_conversation(name: str) -> None:
    status, body = _call(AdapterClient(), name, "conv_1", body={"items": [HI], "metadata": {}})
    assert (status, body) == (
        404,
        {"error": {"message": "Conversation with id 'conv_1' not found.", "type": "invalid_request_error", "param": None, "code": None}},
    )


@pytest.mark.parametrize("name", ["get_item", "delete_item"])
def test_unknown_item_is_not_found(name: str) -> None:
    client = AdapterClient()
    assert _call(client, name, "conv_1", "msg_1")[0] == 404
    status, body = _call(client, name, _create(client), "msg_1")
    assert (status, body["error"]["message"]) == (404, "Item with id 'msg_1' not found.")


def test_conversation_belongs_to_its_account() -> None:
    client = AdapterClient()
    id = _create(client, account="org-2")
    assert _call(client, "get", id)[0] == 404
    assert client.expect_rejection({"conversation": id}).rule_ids == ["S8"]


def test_account_without_retention_cannot_use_conversation() -> None:
    client = AdapterClient(switches=ResponsesRuleSwitches(zero_data_retention=True))
    assert client.expect_rejection({"conversation": "conv_1"}).rule_ids == ["S6"]


def test_account_without_retention_cannot_create_conversation() -> None:
    client = AdapterClient(switches=ResponsesRuleSwitches(zero_data_retention=True))
    status, body = client.adapter.conversation_endpoints.create(client.make_request(), {})
    words = "Conversation ID cannot be used for this organization due to Zero Data Retention."
    assert status == 400
    assert body["error"] == {
        "message": words,
        "type": "invalid_request_error",
        "param": "conversation",
        "code": "unsupported_parameter",
    }


def test_deleting_conversation_keeps_its_items() -> None:
    client = AdapterClient()
    id = _create(client)
    response = client.post({"conversation": id})
    status, body = _call(client, "delete", id)
    assert (status, ConversationDeletedResource.model_validate(body).deleted) == (200, True)
    assert client.expect_rejection({"conversation": id}).rule_ids == ["S8"]
    assert client.adapter.response_endpoints.get(client.make_request(), response["id"], {})[0] == 200
    client.post({"input": [{"type": "item_reference", "id": response["output"][0]["id"]}]})


def test_conversation_can_be_deleted_during_reply() -> None:
    client = AdapterClient()
    id = _create(client)
    request = client.make_request({"conversation": id})
    client.adapter.acquire_locks(request)
    reply = client.adapter.make_reply(request, FakeReply((ReplyText("Here."),)))
    _call(client, "delete", id)
    client.adapter.store_reply(request, reply)
    client.adapter.release_locks(request)
    assert client.adapter.response_endpoints.get(client.make_request(), reply.body["id"], {})[0] == 200
    assert _call(client, "get", id)[0] == 404


# -- items -------------------------------------------------------------------------------------------------------------


def test_items_can_be_added_fetched_deleted() -> None:
    client = AdapterClient()
    id = _create(client)
    status, added = _call(client, "add_items", id, body={"items": [HI, {**HI, "content": "Again"}]})
    assert (status, added["object"], len(ConversationItemList.model_validate(added).data)) == (200, "list", 2)
    first = added["data"][0]
    assert _call(client, "get_item", id, first["id"]) == (200, first)
    status, body = _call(client, "delete_item", id, first["id"])
    assert (status, body["id"]) == (200, id)
    assert _list_texts(client, id) == ["Again"]
    assert _call(client, "get_item", id, first["id"])[0] == 404
    assert [message.text for message in client.make_prompt({"conversation": id, "input": "Now?"}).messages] == ["Again", "Now?"]


def test_stored_item_can_be_added_by_reference() -> None:
    client = AdapterClient()
    message = client.post({})["output"][0]
    id = _create(client, {"items": [{"type": "item_reference", "id": message["id"]}]})
    assert _list_items(client, id) == [message]


INVALID_ITEMS: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "more than twenty items": ({"items": [HI] * 21}, "items", "array_above_max_length"),
    "items that are no list": ({"items": "Hi"}, "items", "invalid_type"),
    "an item that is no object": ({"items": [7]}, "items[0]", "invalid_type"),
    "an item without content": ({"items": [HI, {"role": "user"}]}, "items[1].content", "missing_required_parameter"),
    "an item of an unknown type": ({"items": [{"type": "bogus"}]}, "items[0]", "invalid_value"),
    "an item twice": ({"items": [{**HI, "id": "msg_1"}, {**HI, "id": "msg_1"}]}, "items", None),
}


@pytest.mark.parametrize("name", INVALID_ITEMS)
def test_invalid_items_are_rejected_like_input(name: str) -> None:
    body, param, code = INVALID_ITEMS[name]
    client = AdapterClient()
    request = client.make_request()
    request.body = body
    for status, reply in (
        client.adapter.conversation_endpoints.create(request, {}),
        client.adapter.conversation_endpoints.add_items(request, _create(client), {}),
    ):
        assert (status, reply["error"]["param"], reply["error"]["code"]) == (400, param, code)
        assert "'input" not in reply["error"]["message"]


def test_reference_to_nothing_is_not_found() -> None:
    status, body = _call(AdapterClient(), "create", body={"items": [{"type": "item_reference", "id": "msg_1"}]})
    assert (status, body["error"]["message"]) == (404, "Item with id 'msg_1' not found.")


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"metadata": {"k" * 65: "v"}}, "metadata", None),
        ({"metadata": {"k": 7}}, "metadata.k", None),
        ({"metadata": "topic"}, "metadata", "invalid_type"),
        ({"metadata": {}, "bogus": 1}, "bogus", "unknown_parameter"),
    ],
)
def test_metadata_follows_the_response_rules(body: dict[str, Any], param: str, code: str | None) -> None:
    client = AdapterClient()
    for status, reply in (_call(client, "create", body=body), _call(client, "update", _create(client), body=body)):
        assert status == 400
        assert reply["error"]["param"].startswith(param)
        assert code is None or reply["error"]["code"] == code


@pytest.mark.parametrize("name", ["update", "add_items"])
def test_missing_required_member_is_rejected(name: str) -> None:
    client = AdapterClient()
    status, body = _call(client, name, _create(client), body={})
    assert (status, body["error"]["code"]) == (400, "missing_required_parameter")


def test_conversation_survives_a_restart(tmp_path: Path) -> None:
    storage = ProviderStorage(tmp_path / "state")
    client = AdapterClient(storage)
    id = _create(client, {"items": [HI]})
    client.post({"conversation": id})
    request = client.make_request({"conversation": id})
    client.adapter.acquire_locks(request)  # a lock does not survive
    storage.close()
    later = AdapterClient(ProviderStorage(tmp_path / "state"))
    later.post({"conversation": id, "input": "Still there?"})
    assert _list_texts(later, id) == ["Hi", "Hi", "Hello, how can I help?", "Still there?", "Hello, how can I help?"]
