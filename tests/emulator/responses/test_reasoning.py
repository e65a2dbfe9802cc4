"""Reasoning that clients send back: its encrypted content is checked, and its following item is required."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.fake_models.base import FakeReply, ReplyCall, ReplyText, ReplyThought
from legato.providers.rules.responses.rules import ResponsesRuleSwitches
from tests.emulator.responses.adapter_client import LOOKS_UP, THOUGHTFUL, TOOL, AdapterClient, make_outputs

MODEL = {"model": "gpt-5", "tools": [TOOL]}
MORE = {"role": "user", "content": "And?"}


@pytest.mark.parametrize("store", [True, False])
def test_complete_output_sent_back_is_accepted(store: bool) -> None:
    client = AdapterClient()
    first = client.post({**MODEL, "store": store}, LOOKS_UP)
    client.post({**MODEL, "store": store, "input": [MORE, *first["output"], *make_outputs(first["output"])]})


@pytest.mark.parametrize("store", [True, False])
def test_mixed_output_sent_back_is_accepted(store: bool) -> None:
    client = AdapterClient()
    fake_reply = FakeReply(
        (
            ReplyThought("a"),
            ReplyThought("b"),
            ReplyText("One moment."),
            ReplyCall("look_up"),
            ReplyCall("look_up"),
            ReplyThought("c"),
            ReplyText("So."),
        )
    )
    first = client.post({**MODEL, "store": store}, fake_reply)
    assert [item["type"] for item in first["output"]] == [
        "reasoning", "message", "function_call", "function_call", "reasoning", "message",
    ]  # fmt: skip
    client.post({**MODEL, "store": store, "input": [MORE, *first["output"], *make_outputs(first["output"])]})


def test_encryption_by_default_is_a_switch() -> None:
    """With the switch off, reasoning is encrypted only for requests that include it."""
    older = AdapterClient(switches=ResponsesRuleSwitches(encrypted_by_default=False))
    body = {**MODEL, "store": False}
    without_content = older.post(body, THOUGHTFUL)["output"]
    assert "encrypted_content" not in without_content[0]
    assert older.expect_rejection({**body, "input": [*without_content, MORE]}).rule_ids == ["I1"]
    with_content = older.post({**body, "include": ["reasoning.encrypted_content"]}, THOUGHTFUL)["output"]
    older.post({**body, "input": [*with_content, MORE]})
    stored = older.post(MODEL, THOUGHTFUL)["output"]
    older.post({**MODEL, "input": [*stored, MORE]})


def test_encrypted_content_of_another_account_is_rejected() -> None:
    client = AdapterClient()
    first = client.post({**MODEL, "store": False}, THOUGHTFUL, account="org-2")
    rejection = client.expect_rejection({**MODEL, "store": False, "input": [*first["output"], MORE]})
    assert (rejection.status, rejection.rule_ids) == (400, ["R9"])
    assert rejection.error == {
        "message": f"The encrypted content for item {first['output'][0]['id']} could not be verified. "
        "Reason: Encrypted content organization_id did not match the target organization.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_encrypted_content",
    }


def test_encrypted_content_under_another_id_is_rejected() -> None:
    client = AdapterClient()
    first, second = (client.post({**MODEL, "store": False}, THOUGHTFUL)["output"] for _ in range(2))
    swapped = {**first[0], "encrypted_content": second[0]["encrypted_content"]}
    assert client.expect_rejection({**MODEL, "store": False, "input": [swapped, first[1], MORE]}).rule_ids == ["R10"]


@pytest.mark.parametrize(
    "change", [lambda content: content[:-9], lambda content: "plain text", lambda content: content[:40] + "AAAA" + content[44:]]
)
def test_changed_encrypted_content_is_rejected(change: Any) -> None:
    client = AdapterClient()
    reasoning, message = client.post({**MODEL, "store": False}, THOUGHTFUL)["output"]
    changed = {**reasoning, "encrypted_content": change(reasoning["encrypted_content"])}
    rejection = client.expect_rejection({**MODEL, "store": False, "input": [changed, message, MORE]})
    assert rejection.rule_ids == ["R11"]
    assert rejection.error["message"].endswith("Reason: Encrypted content could not be decrypted or parsed.")


def test_encrypted_content_of_another_key_is_rejected() -> None:
    output = AdapterClient(key=b"one").post({**MODEL, "store": False}, THOUGHTFUL)["output"]
    assert AdapterClient(key=b"two").expect_rejection({**MODEL, "store": False, "input": [*output, MORE]}).rule_ids == ["R11"]


def test_encrypted_content_identifies_its_item() -> None:
    client = AdapterClient()
    reasoning, message = client.post({**MODEL, "store": False}, THOUGHTFUL)["output"]
    nameless = {key: value for key, value in reasoning.items() if key != "id"}
    second = client.post({**MODEL, "input": [MORE, nameless, message, MORE]})
    _, item_list = client.adapter.response_endpoints.input_items(client.make_request(), second["id"], {"order": "asc"})
    assert item_list["data"][1]["id"] == reasoning["id"]


def test_encrypted_content_of_another_model_is_ignored() -> None:
    client = AdapterClient()
    output = client.post({**MODEL, "store": False}, THOUGHTFUL)["output"]
    assert [message.role for message in client.make_prompt({"model": "o4-mini", "input": [*output, MORE]}).messages] == [
        "assistant",
        "user",
    ]


def test_reasoning_without_following_item_is_rejected() -> None:
    client = AdapterClient()
    reasoning, message = client.post(MODEL, THOUGHTFUL)["output"]
    other = {"role": "assistant", "content": message["content"][0]["text"]}
    rejection = client.expect_rejection({**MODEL, "input": [reasoning, other, MORE]})
    assert rejection.rule_ids == ["R1"]
    assert rejection.error["message"] == f"Item '{reasoning['id']}' of type 'reasoning' was provided without its required following item."


def test_item_without_its_reasoning_is_rejected() -> None:
    client = AdapterClient()
    reasoning, call = client.post(MODEL, LOOKS_UP)["output"]
    rejection = client.expect_rejection({**MODEL, "input": [call, *make_outputs([call])]})
    assert rejection.rule_ids == ["R2"]
    assert rejection.error["message"] == (
        f"Item '{call['id']}' of type 'function_call' was provided without its required 'reasoning' item: '{reasoning['id']}'."
    )


def test_item_without_id_needs_no_reasoning() -> None:
    client = AdapterClient()
    call = {key: value for key, value in client.post(MODEL, LOOKS_UP)["output"][1].items() if key != "id"}
    client.post({**MODEL, "input": [call, *make_outputs([call])]})


def test_only_first_item_after_reasoning_needs_it() -> None:
    client = AdapterClient()
    _, first, second = client.post(MODEL, FakeReply((ReplyThought("a"), ReplyCall("look_up"), ReplyCall("look_up"))))["output"]
    client.post({**MODEL, "input": [second, *make_outputs([second])]})
    assert client.expect_rejection({**MODEL, "input": [first, *make_outputs([first])]}).rule_ids == ["R2"]


def test_reasoning_at_the_end_is_rejected() -> None:
    client = AdapterClient()
    incomplete = client.post({**MODEL, "max_output_tokens": 16}, FakeReply((ReplyThought("word " * 100), ReplyText("Never said."))))[
        "output"
    ]
    assert client.expect_rejection({**MODEL, "input": [*incomplete, MORE]}).rule_ids == ["R8"]


def test_only_stored_reasoning_may_omit_content() -> None:
    client = AdapterClient()
    for store, rule_id in ((True, ""), (False, "I3")):
        reasoning, message = client.post({**MODEL, "store": store}, THOUGHTFUL)["output"]
        without_content = {key: value for key, value in reasoning.items() if key != "encrypted_content"}
        body = {**MODEL, "input": [without_content, message, MORE]}
        if rule_id:
            assert client.expect_rejection(body).rule_ids == [rule_id]
        else:
            client.post(body)


def test_reasoning_of_chain_need_not_be_sent() -> None:
    client = AdapterClient()
    first = client.post(MODEL, LOOKS_UP)
    second = client.post({**MODEL, "previous_response_id": first["id"], "input": make_outputs(first["output"])}, THOUGHTFUL)
    client.post({**MODEL, "previous_response_id": second["id"]})
