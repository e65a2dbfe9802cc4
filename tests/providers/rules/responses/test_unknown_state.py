"""Requests whose stored state is unknown: an id may exist, and only what the request shows is checked."""

from __future__ import annotations

from typing import Any

import pytest

from legato.providers.rules.responses.provider_state import UnknownResponsesState
from legato.providers.rules.responses.rules import ResponsesRuleSwitches, check_request

UNKNOWN_STATE = UnknownResponsesState()
SWITCHES = ResponsesRuleSwitches(reasoning_pairing_unstored=False)
USER = {"role": "user", "content": "Where is order 7?"}
REPLY = {"role": "assistant", "content": "It was shipped."}
CALL = {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "shipped"}
REFERENCE = {"type": "item_reference", "id": "fc_1"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


def find_rule_ids(input: Any, switches: ResponsesRuleSwitches = SWITCHES, **members: Any) -> list[str]:
    """Return the ids of the rules that a request breaks if the stored state is unknown."""
    return [violation.rule.id for violation in check_request({"model": "gpt-5.5", "input": input, **members}, UNKNOWN_STATE, switches)]


@pytest.mark.parametrize(
    "request_members",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"prompt": {"id": "pmpt_1"}},
    ],
)
def test_unseen_responses_conversations_and_prompts_may_exist(request_members: dict[str, Any]) -> None:
    assert find_rule_ids("Hello", **request_members) == []


@pytest.mark.parametrize("item", [REFERENCE, {"type": "file_search_call", "id": "fs_1", "queries": [], "status": "completed"}])
def test_unseen_items_may_exist(item: dict[str, Any]) -> None:
    assert find_rule_ids([USER, item], store=False) == []


def test_outputs_may_answer_unseen_calls() -> None:
    assert find_rule_ids([OUTPUT], previous_response_id="resp_1") == []
    assert find_rule_ids([OUTPUT], conversation="conv_1") == []
    assert find_rule_ids([REFERENCE, OUTPUT]) == []


def test_outputs_without_unseen_items_need_their_call() -> None:
    assert find_rule_ids([OUTPUT]) == ["T2"]
    assert find_rule_ids([OUTPUT, REFERENCE]) == ["T2"]


def test_references_may_answer_calls() -> None:
    assert find_rule_ids([CALL, REFERENCE]) == []


def test_calls_after_unseen_items_need_output() -> None:
    assert find_rule_ids([CALL], previous_response_id="resp_1") == ["T1"]
    assert find_rule_ids([REFERENCE, CALL]) == ["T1"]


def test_output_before_its_call_is_refused() -> None:
    assert find_rule_ids([OUTPUT, CALL]) == ["T3"]
    assert find_rule_ids([OUTPUT, CALL, OUTPUT], previous_response_id="resp_1") == []


def test_duplicate_items_are_refused() -> None:
    assert find_rule_ids([REFERENCE, REFERENCE]) == ["I8"]


def test_looked_up_reasoning_needs_its_next_item() -> None:
    assert find_rule_ids([REASONING, REPLY]) == ["R1"]
    assert find_rule_ids([REASONING, USER]) == ["R8"]


def test_encrypted_reasoning_may_be_unstored() -> None:
    encrypted = {**REASONING, "encrypted_content": "gAAAA"}
    assert find_rule_ids([encrypted, REPLY]) == []
    assert find_rule_ids([encrypted, REPLY], ResponsesRuleSwitches(reasoning_pairing_unstored=True)) == ["R1"]


def test_message_may_follow_unseen_reasoning() -> None:
    message = {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "Shipped."}]}
    assert find_rule_ids([USER, message]) == []


def test_violations_in_the_request_are_found() -> None:
    assert find_rule_ids("Hello", previous_response_id="resp_1", conversation="conv_1") == ["S7"]
    assert find_rule_ids("Hello", previous_response_id="resp_1", mesages=[]) == ["P3"]
