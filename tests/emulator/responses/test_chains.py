"""Chains of stored responses: their items, references, deletion and expiry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import ResponseItemList

from legato.emulator.fake_models.base import FakeReply, PromptMessage, ReplyText
from legato.emulator.responses.stored_turns import TurnStorage
from legato.emulator.storage import ProviderStorage
from legato.providers.rules.responses.rules import ResponsesRuleSwitches
from tests.emulator.responses.adapter_client import (
    HELLO,
    LOOKS_UP,
    NOW,
    THOUGHTFUL,
    TOOL,
    AdapterClient,
    RequestRejected,
    list_repeated,
    make_outputs,
)

DAY = 24 * 60 * 60


def _list_messages(client: AdapterClient, body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in client.make_prompt(body).messages]


def test_chain_has_inputs_and_outputs() -> None:
    client = AdapterClient()
    first = client.post({"input": "One?"}, FakeReply((ReplyText("One."),)))
    second = client.post({"input": "Two?", "previous_response_id": first["id"]}, FakeReply((ReplyText("Two."),)))
    assert _list_messages(client, {"input": "Three?", "previous_response_id": second["id"]}) == [
        ("user", "One?"),
        ("assistant", "One."),
        ("user", "Two?"),
        ("assistant", "Two."),
        ("user", "Three?"),
    ]


def test_chain_may_have_branches() -> None:
    client = AdapterClient()
    first = client.post({"input": "One?"}, FakeReply((ReplyText("One."),)))
    client.post({"input": "Left?", "previous_response_id": first["id"]})
    assert _list_messages(client, {"input": "Right?", "previous_response_id": first["id"]})[-2:] == [
        ("assistant", "One."),
        ("user", "Right?"),
    ]


def test_instructions_are_not_carried_over() -> None:
    client = AdapterClient()
    first = client.post({"instructions": "Be a pirate."})
    assert client.make_prompt({"previous_response_id": first["id"]}).instructions == ""


def test_call_of_chain_can_be_answered() -> None:
    client = AdapterClient()
    first = client.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
    prompt = client.make_prompt({"model": "gpt-5", "previous_response_id": first["id"], "input": make_outputs(first["output"])})
    call = first["output"][1]["call_id"]
    assert prompt.messages[-1] == PromptMessage("tool", "shipped", call_id=call, tool="look_up")


def test_call_of_chain_must_be_answered() -> None:
    client = AdapterClient()
    first = client.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
    rejection = client.expect_rejection({"model": "gpt-5", "previous_response_id": first["id"]})
    assert rejection.rule_ids == ["T1"]
    assert rejection.error["message"] == f"No tool output found for function call {first['output'][1]['call_id']}."


def test_items_of_chain_cannot_be_repeated() -> None:
    client = AdapterClient()
    first = client.post({})
    assert client.expect_rejection({"previous_response_id": first["id"], "input": first["output"]}).rule_ids == ["I8"]


def test_unstored_response_cannot_be_continued() -> None:
    client = AdapterClient()
    first = client.post({"store": False})
    rejection = client.expect_rejection({"previous_response_id": first["id"]})
    assert (rejection.status, rejection.rule_ids) == (400, ["S1"])
    assert rejection.error == {
        "message": f"Previous response with id '{first['id']}' not found.",
        "type": "invalid_request_error",
        "param": "previous_response_id",
        "code": "previous_response_not_found",
    }
    assert client.adapter.response_endpoints.get(client.make_request(), first["id"], {})[0] == 404


def test_unstored_response_may_continue_stored_one() -> None:
    client = AdapterClient()
    first = client.post({})
    second = client.post({"previous_response_id": first["id"], "store": False})
    assert second["previous_response_id"] == first["id"]
    assert client.expect_rejection({"previous_response_id": second["id"]}).rule_ids == ["S1"]


def test_other_accounts_cannot_see_a_response() -> None:
    client = AdapterClient()
    first = client.post({})
    assert client.expect_rejection({"previous_response_id": first["id"]}, account="org-2").rule_ids == ["S1"]
    assert client.expect_rejection({"input": [{"type": "item_reference", "id": first["output"][0]["id"]}]}, account="org-2").rule_ids == [
        "I3"
    ]
    assert client.adapter.response_endpoints.get(client.make_request(account="org-2"), first["id"], {})[0] == 404


def test_response_expires_after_thirty_days() -> None:
    """Responses that continue an expired response stay."""
    client = AdapterClient()
    first = client.post({})
    second = client.post({"previous_response_id": first["id"]}, now=NOW + 29 * DAY)
    assert client.expect_rejection({"previous_response_id": first["id"]}, now=NOW + 30 * DAY).rule_ids == ["S2"]
    client.post({"previous_response_id": second["id"]}, now=NOW + 31 * DAY)


def test_expired_fault_expires_a_response() -> None:
    client = AdapterClient()
    first = client.post({})
    request = client.make_request({"previous_response_id": first["id"]})
    client.adapter.apply_state_fault(request, "expired")
    assert [violation.rule.id for violation in client.adapter.find_violations(request)] == ["S2"]


def test_state_fault_needs_a_named_object() -> None:
    client = AdapterClient()
    for kind in ("expired", "locked"):
        request = client.make_request({})
        client.adapter.apply_state_fault(request, kind)
        assert client.adapter.find_violations(request) == []


def test_account_without_retention_stores_nothing() -> None:
    client = AdapterClient(switches=ResponsesRuleSwitches(zero_data_retention=True))
    first = client.post({})
    assert first["store"] is False
    assert client.expect_rejection({"previous_response_id": first["id"]}).rule_ids == ["S5"]
    assert client.expect_rejection({"input": [{"type": "item_reference", "id": first["output"][0]["id"]}]}).rule_ids == ["I2"]


# -- deleting ----------------------------------------------------------------------------------------------------------


def test_deleted_response_cannot_be_used() -> None:
    client = AdapterClient()
    first = client.post({})
    assert client.adapter.response_endpoints.delete(client.make_request(), first["id"], {}) == (
        200,
        {"id": first["id"], "object": "response", "deleted": True},
    )
    assert client.expect_rejection({"previous_response_id": first["id"]}).rule_ids == ["S1"]
    for endpoint in (
        client.adapter.response_endpoints.get,
        client.adapter.response_endpoints.delete,
        client.adapter.response_endpoints.input_items,
    ):
        status, body = endpoint(client.make_request(), first["id"], {})
        assert (status, body["error"]["message"]) == (404, f"Response with id '{first['id']}' not found.")


def test_deletion_keeps_later_responses_intact() -> None:
    client = AdapterClient()
    first = client.post({"input": "One?"})
    second = client.post({"input": "Two?", "previous_response_id": first["id"]})
    client.adapter.response_endpoints.delete(client.make_request(), first["id"], {})
    assert [text for role, text in _list_messages(client, {"previous_response_id": second["id"]}) if role == "user"] == [
        "One?",
        "Two?",
        "Hi",
    ]


# -- references --------------------------------------------------------------------------------------------------------


def test_reference_is_replaced_by_its_item() -> None:
    client = AdapterClient()
    first = client.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
    references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    body = {"model": "gpt-5", "input": [{"role": "user", "content": "Hi"}, *references, *make_outputs(first["output"])]}
    prompt = client.make_prompt(body)
    assert [message.role for message in prompt.messages] == ["user", "assistant", "tool"]
    assert prompt.messages[1].calls[0].arguments == '{"order": "A-7"}'
    second = client.post(body)
    assert [message.role for message in client.make_prompt({"model": "gpt-5", "previous_response_id": second["id"]}).messages] == [
        "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip


def test_reference_may_lack_a_type() -> None:
    client = AdapterClient()
    first = client.post({})
    assert _list_messages(client, {"input": [{"id": first["output"][0]["id"]}]}) == [("assistant", "Hello, how can I help?")]


@pytest.mark.parametrize(("store", "rule_id"), [(True, "I3"), (False, "I1")])
def test_reference_to_unstored_item_is_rejected(store: bool, rule_id: str) -> None:
    client = AdapterClient()
    first = client.post({"store": False})
    body = {"input": [{"type": "item_reference", "id": first["output"][0]["id"]}], "store": store}
    rejection = client.expect_rejection(body)
    assert (rejection.status, rejection.rule_ids) == (404, [rule_id])


def test_input_items_can_be_referenced() -> None:
    client = AdapterClient()
    first = client.post({"input": "Remember me."})
    _, item_list = client.adapter.response_endpoints.input_items(client.make_request(), first["id"], {})
    assert _list_messages(client, {"input": [{"type": "item_reference", "id": item_list["data"][0]["id"]}]}) == [("user", "Remember me.")]


# -- lists ------------------------------------------------------------------------------------------------------------


def test_stored_response_is_returned_unchanged() -> None:
    client = AdapterClient()
    first = client.post({"model": "gpt-5", "tools": [TOOL], "metadata": {"a": "b"}}, LOOKS_UP)
    assert client.adapter.response_endpoints.get(client.make_request(), first["id"], {}) == (200, first)


def test_input_items_include_the_chain() -> None:
    client = AdapterClient()
    first = client.post({"model": "gpt-5", "tools": [TOOL], "input": "Where is it?"}, LOOKS_UP)
    second = client.post({"model": "gpt-5", "previous_response_id": first["id"], "input": make_outputs(first["output"])}, THOUGHTFUL)
    status, body = client.adapter.response_endpoints.input_items(client.make_request(), second["id"], {"order": "asc"})
    item_list = ResponseItemList.model_validate(body)
    assert status == 200
    assert [item.type for item in item_list.data] == ["message", "reasoning", "function_call", "function_call_output"]
    assert body["data"][1:3] == first["output"]
    assert (item_list.first_id, item_list.last_id, item_list.has_more) == (body["data"][0]["id"], body["data"][-1]["id"], False)
    assert body["data"][0] == {
        "id": body["data"][0]["id"],
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": "Where is it?"}],
    }


def test_list_pages_are_newest_first() -> None:
    client = AdapterClient()
    items = [{"role": "user", "content": str(number)} for number in range(45)]
    first = client.post({"input": items})
    collected: list[str] = []
    query: dict[str, str] = {}
    while True:
        _, body = client.adapter.response_endpoints.input_items(client.make_request(), first["id"], query)
        collected += [item["content"][0]["text"] for item in body["data"]]
        assert len(body["data"]) <= 20
        if not body["has_more"]:
            break
        query = {"after": body["last_id"]}
    assert collected == [str(number) for number in range(44, -1, -1)]


@pytest.mark.parametrize(
    ("param", "value"),
    [*(("limit", value) for value in ("0", "101", "-1", "many", "9" * 5000, "-", "", "\u0663")), ("order", "up")],
)
def test_invalid_page_query_is_rejected(param: str, value: str) -> None:
    client, query = AdapterClient(), {param: value}
    status, body = client.adapter.response_endpoints.input_items(client.make_request(), client.post({})["id"], query)
    assert (status, body["error"]["param"]) == (400, param)


def test_page_after_unknown_item_is_404() -> None:
    client = AdapterClient()
    assert client.adapter.response_endpoints.input_items(client.make_request(), client.post({})["id"], {"after": "msg_1"})[0] == 404


def test_only_background_responses_can_be_cancelled() -> None:
    client = AdapterClient()
    plain, background = client.post({}), client.post({"background": True})
    status, body = client.adapter.response_endpoints.cancel(client.make_request(), plain["id"], {})
    assert (status, body["error"]["message"]) == (400, "Cannot cancel a synchronous response.")
    assert client.adapter.response_endpoints.cancel(client.make_request(), background["id"], {}) == (200, background)
    assert client.adapter.response_endpoints.cancel(client.make_request(), "resp_1", {})[0] == 404


# -- storage -----------------------------------------------------------------------------------------------------------


def test_restart_loses_nothing_repeats_no_id(tmp_path: Path) -> None:
    storage = ProviderStorage(tmp_path / "state")
    before = AdapterClient(storage)
    first = before.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
    loose = before.post({"model": "gpt-5", "store": False}, THOUGHTFUL)
    storage.close()

    storage = ProviderStorage(tmp_path / "state")
    after = AdapterClient(storage)
    later = [after.post({"model": "gpt-5", "store": False}, THOUGHTFUL) for _ in range(5)]
    assert list_repeated([item["id"] for response in (first, loose, *later) for item in response["output"]]) == []
    second = after.post({"model": "gpt-5", "previous_response_id": first["id"], "input": make_outputs(first["output"])}, THOUGHTFUL)
    assert second["status"] == "completed"
    assert after.adapter.response_endpoints.get(after.make_request(), first["id"], {}) == (200, first)
    after.post({"model": "gpt-5", "input": [*loose["output"], {"role": "user", "content": "And?"}]})
    storage.close()


def test_long_chain_is_stored_once(tmp_path: Path) -> None:
    storage = ProviderStorage(tmp_path / "state")
    client = AdapterClient(storage)
    previous = None
    for number in range(200):
        previous = client.post({"input": f"{number} " + "words " * 50, **({"previous_response_id": previous} if previous else {})})["id"]
    storage.close()
    assert (tmp_path / "state").stat().st_size < 200 * 20_000


def test_repeated_history_is_stored_as_references(tmp_path: Path) -> None:
    storage = ProviderStorage(tmp_path / "state")
    client = AdapterClient(storage)
    history: list[dict[str, Any]] = []
    for number in range(40):
        items = [*history, {"id": f"msg_{number}", "role": "user", "content": "words " * 500}]
        response = client.post({"input": items})
        history = [*items, *response["output"]]
    storage.close()
    assert (tmp_path / "state").stat().st_size < 40 * 40_000
    storage = ProviderStorage(tmp_path / "state")
    stored_turn = TurnStorage(storage).find_turn("org-1", response["id"])
    storage.close()
    assert stored_turn is not None
    assert [item["id"] for item in stored_turn.items] == [item["id"] for item in history]
    assert all(item["type"] == "message" for item in stored_turn.items)


def test_changed_item_leaves_the_original_unchanged() -> None:
    client = AdapterClient()
    first = client.post({"input": "One?"})
    message = first["output"][0]
    changed = {**message, "content": [{"type": "output_text", "text": "Something else."}]}
    second = client.post({"input": [{"role": "user", "content": "One?"}, changed]})
    assert ("assistant", "Something else.") in _list_messages(client, {"previous_response_id": second["id"]})
    assert ("assistant", "Hello, how can I help?") in _list_messages(client, {"previous_response_id": first["id"]})


def test_incomplete_reply_stores_nothing() -> None:
    client = AdapterClient()
    request = client.make_request({})
    client.adapter.acquire_locks(request)
    reply = client.adapter.make_reply(request, HELLO)
    client.adapter.release_locks(request)
    with pytest.raises(RequestRejected, match="S1"):
        client.post({"previous_response_id": reply.body["id"]})


def test_long_chain_is_readable_after_restart(tmp_path: Path) -> None:
    storage = ProviderStorage(tmp_path / "state")
    client = AdapterClient(storage)
    previous: dict[str, Any] = {}
    for _ in range(400):
        previous = {"previous_response_id": client.post(previous)["id"]}
    storage.close()
    later = AdapterClient(ProviderStorage(tmp_path / "state"))
    assert len(later.make_prompt(previous).messages) == 801
