"""Requests whose provider-side state cannot be seen: an id may exist, and only what the request shows is judged."""

from __future__ import annotations

from typing import Any

import pytest

from legato.providers.rules.responses.held import UnknownProviderState
from legato.providers.rules.responses.laws import Profile, judge

UNKNOWN = UnknownProviderState()
UNSTORED = Profile(reasoning_pairing_unstored=False)
USER = {"role": "user", "content": "Where is order 7?"}
WORDS = {"role": "assistant", "content": "It was shipped."}
CALL = {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "shipped"}
REFERENCE = {"type": "item_reference", "id": "fc_1"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


def broken(input: Any, profile: Profile = UNSTORED, **members: Any) -> list[str]:
    """The clauses that a request breaks if nothing is known of what the provider holds."""
    return [complaint.clause.id for complaint in judge({"model": "gpt-5.5", "input": input, **members}, UNKNOWN, profile)]


@pytest.mark.parametrize(
    "request_members",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"prompt": {"id": "pmpt_1"}},
    ],
)
def test_unseen_responses_conversations_and_prompts_may_exist(request_members: dict[str, Any]) -> None:
    assert broken("Hello", **request_members) == []


@pytest.mark.parametrize("item", [REFERENCE, {"type": "file_search_call", "id": "fs_1", "queries": [], "status": "completed"}])
def test_unseen_items_may_exist(item: dict[str, Any]) -> None:
    assert broken([USER, item], store=False) == []


def test_outputs_may_answer_calls_in_the_chain() -> None:
    assert broken([OUTPUT], previous_response_id="resp_1") == []
    assert broken([OUTPUT], conversation="conv_1") == []
    assert broken([REFERENCE, OUTPUT]) == []


def test_outputs_without_anything_unseen_before_them_are_judged() -> None:
    assert broken([OUTPUT]) == ["T2"]
    assert broken([OUTPUT, REFERENCE]) == ["T2"]


def test_calls_may_be_answered_by_a_reference() -> None:
    assert broken([CALL, REFERENCE]) == []


def test_calls_after_everything_unseen_are_judged() -> None:
    assert broken([CALL], previous_response_id="resp_1") == ["T1"]
    assert broken([REFERENCE, CALL]) == ["T1"]


def test_an_output_before_its_visible_call_is_judged() -> None:
    assert broken([OUTPUT, CALL]) == ["T3"]
    assert broken([OUTPUT, CALL, OUTPUT], previous_response_id="resp_1") == []


def test_an_item_that_comes_twice_is_judged() -> None:
    assert broken([REFERENCE, REFERENCE]) == ["I8"]


def test_reasoning_that_is_looked_up_keeps_what_followed() -> None:
    assert broken([REASONING, WORDS]) == ["R1"]
    assert broken([REASONING, USER]) == ["R8"]


def test_sealed_reasoning_may_never_have_been_stored() -> None:
    sealed = {**REASONING, "encrypted_content": "gAAAA"}
    assert broken([sealed, WORDS]) == []
    assert broken([sealed, WORDS], Profile(reasoning_pairing_unstored=True)) == ["R1"]


def test_a_message_may_have_followed_any_reasoning() -> None:
    message = {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "Shipped."}]}
    assert broken([USER, message]) == []


def test_faults_of_the_request_itself_are_judged() -> None:
    assert broken("Hello", previous_response_id="resp_1", conversation="conv_1") == ["S7"]
    assert broken("Hello", previous_response_id="resp_1", mesages=[]) == ["P3"]
