"""Conversations: what they take in, who is at work on them, and what is left when they are deleted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from openai.types.conversations import Conversation, ConversationDeletedResource, ConversationItemList

from legato.emulator.minds.base import Say, Words
from legato.emulator.shelf import Shelf
from legato.providers.rules.responses.laws import Profile
from tests.emulator.responses.bench import LOOKS_UP, NOW, THOUGHTFUL, TOOL, Bench, returned

HI = {"type": "message", "role": "user", "content": "Hi"}


def _create(bench: Bench, body: dict[str, Any] | None = None, *, account: str = "org-1") -> str:
    ask = bench.ask(account=account)
    ask.body = body or {}
    status, made = bench.dialect.conversations.create(ask, {})
    assert status == 200, made
    assert Conversation.model_validate(made).id == made["id"]
    return made["id"]


def _call(bench: Bench, name: str, *where: str, body: dict[str, Any] | None = None, query: dict[str, str] | None = None) -> Any:
    ask = bench.ask()
    ask.body = body or {}
    return getattr(bench.dialect.conversations, name)(ask, *where, query or {})


def _items(bench: Bench, id: str) -> list[dict[str, Any]]:
    status, body = _call(bench, "list_items", id, query={"order": "asc", "limit": "100"})
    assert status == 200
    if body["data"]:
        ConversationItemList.model_validate(body)
    return body["data"]


def _texts(bench: Bench, id: str) -> list[str]:
    return [item["content"][0]["text"] for item in _items(bench, id) if item["type"] == "message"]


def test_a_conversation_is_born_empty() -> None:
    bench = Bench()
    id = _create(bench)
    assert re.fullmatch(r"conv_[0-9a-f]{48}", id)
    assert _call(bench, "get", id) == (200, {"id": id, "object": "conversation", "created_at": int(NOW), "metadata": {}})
    assert _items(bench, id) == []


def test_a_conversation_is_born_with_items_and_metadata() -> None:
    bench = Bench()
    id = _create(bench, {"items": [HI, {"role": "assistant", "content": "Hello."}], "metadata": {"topic": "demo"}})
    assert _texts(bench, id) == ["Hi", "Hello."]
    assert _call(bench, "get", id)[1]["metadata"] == {"topic": "demo"}


def test_metadata_can_be_changed() -> None:
    bench = Bench()
    id = _create(bench, {"metadata": {"topic": "a"}})
    assert _call(bench, "update", id, body={"metadata": {"topic": "b"}})[1]["metadata"] == {"topic": "b"}
    assert _call(bench, "get", id)[1]["metadata"] == {"topic": "b"}


def test_a_response_adds_what_was_sent_and_what_was_answered() -> None:
    bench = Bench()
    id = _create(bench, {"items": [HI]})
    first = bench.post({"model": "gpt-5", "conversation": id, "input": "Where is it?", "tools": [TOOL]}, LOOKS_UP)
    assert [item["type"] for item in _items(bench, id)] == ["message", "message", "reasoning", "function_call"]
    bench.post({"model": "gpt-5", "conversation": {"id": id}, "input": returned(first["output"])}, THOUGHTFUL)
    assert [item["type"] for item in _items(bench, id)][4:] == ["function_call_output", "reasoning", "message"]
    heard = bench.prompt({"model": "gpt-5", "conversation": id, "input": "Thanks."}).heard
    assert [one.who for one in heard] == ["user", "user", "assistant", "tool", "assistant", "user"]


def test_a_response_that_is_not_stored_is_still_said_in_the_conversation() -> None:
    bench = Bench()
    id = _create(bench)
    answered = bench.post({"conversation": id, "store": False})
    assert _texts(bench, id) == ["Hi", "Hello, how can I help?"]
    assert bench.dialect.responses.get(bench.ask(), answered["id"], {})[0] == 404
    assert bench.refused({"previous_response_id": answered["id"]}).clauses == ["S1"]


def test_a_call_of_the_conversation_must_be_answered() -> None:
    bench = Bench()
    id = _create(bench)
    bench.post({"model": "gpt-5", "conversation": id, "tools": [TOOL]}, LOOKS_UP)
    assert bench.refused({"model": "gpt-5", "conversation": id}).clauses == ["T1"]


def test_what_is_in_the_conversation_may_not_be_sent_again() -> None:
    bench = Bench()
    id = _create(bench)
    answered = bench.post({"conversation": id})
    assert bench.refused({"conversation": id, "input": answered["output"]}).clauses == ["I8"]


def test_a_response_of_a_conversation_can_be_continued_apart_from_it() -> None:
    bench = Bench()
    id = _create(bench, {"items": [HI]})
    answered = bench.post({"conversation": id, "input": "Well?"})
    bench.post({"conversation": id, "input": "Later."})
    heard = bench.prompt({"previous_response_id": answered["id"], "input": "Apart."}).heard
    assert [one.text for one in heard if one.who == "user"] == ["Hi", "Well?", "Apart."]
    assert "Apart." not in _texts(bench, id)


def test_a_conversation_reads_from_the_cache_what_it_read_before() -> None:
    bench = Bench()
    id = _create(bench)
    bench.post({"conversation": id})
    _call(bench, "add_items", id, body={"items": [HI]})
    usage = bench.post({"conversation": id})["usage"]
    assert 0 < usage["input_tokens_details"]["cached_tokens"] < usage["input_tokens"]


# -- locks -------------------------------------------------------------------------------------------------------------


def test_two_requests_at_once_on_one_conversation_are_one_too_many() -> None:
    bench = Bench()
    id = _create(bench)
    first = bench.ask({"conversation": id, "stream": True})
    assert bench.dialect.judge(first) == []
    bench.dialect.begin(first)
    refused = bench.refused({"conversation": id})
    assert (refused.status, refused.clauses) == (400, ["S9"])
    assert refused.error == {
        "message": "Another process is currently operating on this conversation. Please retry in a few seconds.",
        "type": "invalid_request_error",
        "param": "conversation",
        "code": "conversation_locked",
    }
    status, body = _call(bench, "add_items", id, body={"items": [HI]})
    assert (status, body["error"]["code"]) == (400, "conversation_locked")
    bench.dialect.end(first)
    bench.post({"conversation": id})


def test_a_refused_request_does_not_give_up_anothers_lock() -> None:
    bench = Bench()
    id = _create(bench)
    first, second = bench.ask({"conversation": id}), bench.ask({"conversation": id})
    bench.dialect.begin(first)
    assert bench.dialect.judge(second)
    bench.dialect.end(second)
    assert [complaint.clause.id for complaint in bench.dialect.judge(bench.ask({"conversation": id}))] == ["S9"]


def test_other_conversations_and_other_accounts_are_not_locked() -> None:
    bench = Bench()
    id, other = _create(bench), _create(bench)
    bench.dialect.begin(bench.ask({"conversation": id}))
    bench.post({"conversation": other})
    bench.post({})


def test_a_fault_locks_a_conversation_for_one_request() -> None:
    bench = Bench()
    id = _create(bench)
    ask = bench.ask({"conversation": id})
    bench.dialect.strike(ask, "locked")
    assert [complaint.clause.id for complaint in bench.dialect.judge(ask)] == ["S9"]
    bench.post({"conversation": id})


# -- what is not there -------------------------------------------------------------------------------------------------


def test_an_unknown_conversation_is_not_found() -> None:
    refused = Bench().refused({"conversation": "conv_1"})
    assert (refused.status, refused.clauses, refused.error["message"]) == (404, ["S8"], "Conversation with id 'conv_1' not found.")


@pytest.mark.parametrize("name", ["get", "update", "delete", "list_items", "add_items"])
def test_nothing_can_be_done_with_an_unknown_conversation(name: str) -> None:
    status, body = _call(Bench(), name, "conv_1", body={"items": [HI], "metadata": {}})
    assert (status, body) == (
        404,
        {"error": {"message": "Conversation with id 'conv_1' not found.", "type": "invalid_request_error", "param": None, "code": None}},
    )


@pytest.mark.parametrize("name", ["get_item", "delete_item"])
def test_an_unknown_item_is_not_found(name: str) -> None:
    bench = Bench()
    assert _call(bench, name, "conv_1", "msg_1")[0] == 404
    status, body = _call(bench, name, _create(bench), "msg_1")
    assert (status, body["error"]["message"]) == (404, "Item with id 'msg_1' not found.")


def test_another_account_has_other_conversations() -> None:
    bench = Bench()
    id = _create(bench, account="org-2")
    assert _call(bench, "get", id)[0] == 404
    assert bench.refused({"conversation": id}).clauses == ["S8"]


def test_an_account_without_retention_has_no_conversation_to_speak_in() -> None:
    bench = Bench(profile=Profile(zero_data_retention=True))
    assert bench.refused({"conversation": "conv_1"}).clauses == ["S6"]


def test_an_account_without_retention_can_make_no_conversation() -> None:
    bench = Bench(profile=Profile(zero_data_retention=True))
    status, body = bench.dialect.conversations.create(bench.ask(), {})
    words = "Conversation ID cannot be used for this organization due to Zero Data Retention."
    assert status == 400
    assert body["error"] == {
        "message": words,
        "type": "invalid_request_error",
        "param": "conversation",
        "code": "unsupported_parameter",
    }


def test_a_deleted_conversation_is_gone_and_its_items_are_not() -> None:
    bench = Bench()
    id = _create(bench)
    answered = bench.post({"conversation": id})
    status, body = _call(bench, "delete", id)
    assert (status, ConversationDeletedResource.model_validate(body).deleted) == (200, True)
    assert bench.refused({"conversation": id}).clauses == ["S8"]
    assert bench.dialect.responses.get(bench.ask(), answered["id"], {})[0] == 200
    bench.post({"input": [{"type": "item_reference", "id": answered["output"][0]["id"]}]})


def test_a_conversation_deleted_while_it_is_answered_loses_only_itself() -> None:
    bench = Bench()
    id = _create(bench)
    ask = bench.ask({"conversation": id})
    bench.dialect.begin(ask)
    answer = bench.dialect.answer(ask, Say((Words("Here."),)))
    _call(bench, "delete", id)
    bench.dialect.keep(ask, answer)
    bench.dialect.end(ask)
    assert bench.dialect.responses.get(bench.ask(), answer.body["id"], {})[0] == 200
    assert _call(bench, "get", id)[0] == 404


# -- items -------------------------------------------------------------------------------------------------------------


def test_items_can_be_added_fetched_and_deleted() -> None:
    bench = Bench()
    id = _create(bench)
    status, added = _call(bench, "add_items", id, body={"items": [HI, {**HI, "content": "Again"}]})
    assert (status, added["object"], len(ConversationItemList.model_validate(added).data)) == (200, "list", 2)
    first = added["data"][0]
    assert _call(bench, "get_item", id, first["id"]) == (200, first)
    status, body = _call(bench, "delete_item", id, first["id"])
    assert (status, body["id"]) == (200, id)
    assert _texts(bench, id) == ["Again"]
    assert _call(bench, "get_item", id, first["id"])[0] == 404
    assert [heard.text for heard in bench.prompt({"conversation": id, "input": "Now?"}).heard] == ["Again", "Now?"]


def test_an_item_that_is_stored_can_be_added_by_reference() -> None:
    bench = Bench()
    message = bench.post({})["output"][0]
    id = _create(bench, {"items": [{"type": "item_reference", "id": message["id"]}]})
    assert _items(bench, id) == [message]


WRONG: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "more than twenty items": ({"items": [HI] * 21}, "items", "array_above_max_length"),
    "items that are no list": ({"items": "Hi"}, "items", "invalid_type"),
    "an item that is no object": ({"items": [7]}, "items[0]", "invalid_type"),
    "an item without content": ({"items": [HI, {"role": "user"}]}, "items[1].content", "missing_required_parameter"),
    "an item of an unknown type": ({"items": [{"type": "bogus"}]}, "items[0]", "invalid_value"),
    "an item twice": ({"items": [{**HI, "id": "msg_1"}, {**HI, "id": "msg_1"}]}, "items", None),
}


@pytest.mark.parametrize("name", WRONG)
def test_items_that_no_request_could_send_are_refused(name: str) -> None:
    body, param, code = WRONG[name]
    bench = Bench()
    ask = bench.ask()
    ask.body = body
    for status, told in (bench.dialect.conversations.create(ask, {}), bench.dialect.conversations.add_items(ask, _create(bench), {})):
        assert (status, told["error"]["param"], told["error"]["code"]) == (400, param, code)
        assert "'input" not in told["error"]["message"]


def test_a_reference_to_nothing_is_not_found() -> None:
    status, body = _call(Bench(), "create", body={"items": [{"type": "item_reference", "id": "msg_1"}]})
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
def test_metadata_follows_the_same_rules_as_a_responses(body: dict[str, Any], param: str, code: str | None) -> None:
    bench = Bench()
    for status, told in (_call(bench, "create", body=body), _call(bench, "update", _create(bench), body=body)):
        assert status == 400
        assert told["error"]["param"].startswith(param)
        assert code is None or told["error"]["code"] == code


@pytest.mark.parametrize("name", ["update", "add_items"])
def test_a_body_without_what_it_is_for_is_refused(name: str) -> None:
    bench = Bench()
    status, body = _call(bench, name, _create(bench), body={})
    assert (status, body["error"]["code"]) == (400, "missing_required_parameter")


def test_a_conversation_survives_a_restart(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "state")
    bench = Bench(shelf)
    id = _create(bench, {"items": [HI]})
    bench.post({"conversation": id})
    ask = bench.ask({"conversation": id})
    bench.dialect.begin(ask)  # a lock does not survive
    shelf.close()
    again = Bench(Shelf(tmp_path / "state"))
    again.post({"conversation": id, "input": "Still there?"})
    assert _texts(again, id) == ["Hi", "Hi", "Hello, how can I help?", "Still there?", "Hello, how can I help?"]
