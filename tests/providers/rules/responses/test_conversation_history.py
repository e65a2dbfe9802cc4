"""Conversation histories: failed handoffs from bug reports, lookups of stored items, and reasoning with its next item."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from legato.providers.rules.responses.rules import OPENAI, ResponsesRuleSwitches, check_request, render_error_body
from tests.providers.rules.responses.fake_provider import FakeProvider
from tests.providers.rules.responses.sample_requests import (
    FOLLOW_UP,
    NON_REASONING_MODEL,
    REASONING_MODEL,
    TOOL,
    USER_MESSAGE,
    drop_fields,
    make_call,
    make_output,
    make_reference,
    make_reply,
    make_request,
)
from tests.providers.rules.rule_cases import SetupStep, fill_placeholders

HANDOFF = {**TOOL, "name": "hand_off_to_refunds"}
HANDOFF_STEP = SetupStep.respond(
    make_request(model=REASONING_MODEL, tools=[HANDOFF]), ReplyThought("not mine"), ReplyCall("hand_off_to_refunds", "{}"), save_as="r1"
)


def make_provider(*steps: SetupStep, switches: ResponsesRuleSwitches = OPENAI) -> FakeProvider:
    """Return a provider after these steps."""
    provider = FakeProvider(switches)
    for step in steps:
        provider.run_step(step)
    return provider


def find_rule_ids(provider: FakeProvider, request: dict[str, Any], switches: ResponsesRuleSwitches = OPENAI) -> list[str]:
    """Return the ids of the rules that a request breaks."""
    body = fill_placeholders(request, provider.saved_values)
    return [violation.rule.id for violation in check_request(body, provider.find_account(), switches)]


def get_response(provider: FakeProvider, request: dict[str, Any], switches: ResponsesRuleSwitches = OPENAI) -> tuple[int, dict[str, Any]]:
    """Return the status and the body with which an illegal request is refused."""
    (violation, *_) = check_request(fill_placeholders(request, provider.saved_values), provider.find_account(), switches)
    return violation.status, render_error_body(violation, switches)


# -- failed handoffs ---------------------------------------------------------------------------------------------------


def test_chain_with_an_open_handoff_call_is_refused() -> None:
    provider = make_provider(HANDOFF_STEP)
    assert find_rule_ids(provider, make_request([FOLLOW_UP], model=REASONING_MODEL, previous_response_id="{r1.id}")) == ["T1"]
    answered = [make_output("{r1.output[1].call_id}", output="handed off"), FOLLOW_UP]
    assert find_rule_ids(provider, make_request(answered, model=REASONING_MODEL, previous_response_id="{r1.id}")) == []


def test_handoff_output_in_another_chain_is_refused() -> None:
    other = SetupStep.respond(make_request("I want a refund", model=NON_REASONING_MODEL), ReplyText("certainly"), save_as="r2")
    provider = make_provider(HANDOFF_STEP, other)
    answered = [make_output("{r1.output[1].call_id}"), FOLLOW_UP]
    assert find_rule_ids(provider, make_request(answered, previous_response_id="{r2.id}")) == ["T2"]
    assert find_rule_ids(provider, make_request(answered)) == ["T2"]


def test_history_sent_with_its_chain_is_refused() -> None:
    """Its items are duplicates."""
    history = [USER_MESSAGE, "{r1.output[0]}", "{r1.output[1]}", make_output("{r1.output[1].call_id}"), FOLLOW_UP]
    provider = make_provider(HANDOFF_STEP)
    assert find_rule_ids(provider, make_request(history, model=REASONING_MODEL, previous_response_id="{r1.id}")) == ["I8", "I8"]
    assert find_rule_ids(provider, make_request(history, model=REASONING_MODEL)) == []


def test_bare_ids_without_storage_are_refused() -> None:
    unstored = SetupStep.respond(
        make_request(model=REASONING_MODEL, store=False, tools=[HANDOFF]),
        ReplyThought("hm"),
        ReplyCall("hand_off_to_refunds"),
        save_as="r1",
    )
    provider = make_provider(unstored)
    bare = {"type": "reasoning", "id": "{r1.output[0].id}", "summary": []}
    history = [USER_MESSAGE, bare, "{r1.output[1]}", make_output("{r1.output[1].call_id}"), FOLLOW_UP]
    assert find_rule_ids(provider, make_request(history, model=REASONING_MODEL, store=False)) == ["I1"]
    encrypted = [USER_MESSAGE, "{r1.output[0]}", "{r1.output[1]}", make_output("{r1.output[1].call_id}"), FOLLOW_UP]
    assert find_rule_ids(provider, make_request(encrypted, model=REASONING_MODEL, store=False)) == []


# -- errors from bug reports -------------------------------------------------------------------------------------------


def test_replayed_item_that_was_never_stored_is_refused() -> None:
    """With the error of the bug report."""
    request = make_request([USER_MESSAGE, {"type": "reasoning", "id": "rs_0a1b", "summary": []}, make_reply(), FOLLOW_UP], store=False)
    error = {
        "message": "Item with id 'rs_0a1b' not found. Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input.",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }
    assert get_response(FakeProvider(), request) == (404, {"error": error})
    assert get_response(FakeProvider(), request, ResponsesRuleSwitches(item_not_found_status=400)) == (400, {"error": error})


def test_stale_previous_response_is_refused() -> None:
    """With the error of the bug report."""
    pending = SetupStep.respond(
        make_request(tools=[HANDOFF]), ReplyCall("hand_off_to_refunds", "{}", "call_qgTofhhnqcvlozSsO1OgsgPK"), save_as="r1"
    )
    error = {
        "message": "No tool output found for function call call_qgTofhhnqcvlozSsO1OgsgPK.",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }
    assert get_response(make_provider(pending), make_request([FOLLOW_UP], previous_response_id="{r1.id}")) == (400, {"error": error})


def test_dropped_output_of_a_parallel_call_is_refused() -> None:
    """With the error of the bug report."""
    calls = [
        ReplyCall("run_cleanup", "{}", "call_CLEANUP1"),
        ReplyCall("run_diagnostic", "{}", "call_DIAG"),
        ReplyCall("run_cleanup", "{}", "call_CLEANUP2"),
    ]
    provider = make_provider(SetupStep.respond(make_request(), *calls, save_as="r1"))
    resumed = make_request([make_output("call_CLEANUP1"), make_output("call_CLEANUP2")], previous_response_id="{r1.id}")
    status, body = get_response(provider, resumed)
    assert (status, body["error"]["message"]) == (400, "No tool output found for function call call_DIAG.")
    whole = make_request(
        [make_output("call_CLEANUP1"), make_output("call_DIAG"), make_output("call_CLEANUP2")], previous_response_id="{r1.id}"
    )
    assert find_rule_ids(provider, whole) == []


# -- conversations and chains ------------------------------------------------------------------------------------------


def test_conversation_takes_only_new_items() -> None:
    provider = make_provider(
        SetupStep.conversation(save_as="c1"),
        SetupStep.respond(make_request(tools=[TOOL], conversation="{c1.id}"), ReplyCall("look_up", "{}", "call_9"), save_as="r1"),
    )
    assert find_rule_ids(provider, make_request([FOLLOW_UP], conversation="{c1.id}")) == ["T1"]
    assert find_rule_ids(provider, make_request([make_output("call_9")], conversation="{c1.id}")) == []
    assert find_rule_ids(provider, make_request(["{r1.output[0]}", make_output("call_9")], conversation="{c1.id}")) == ["I8"]


def test_unstored_response_cannot_be_continued() -> None:
    provider = make_provider(SetupStep.respond(make_request(store=False), ReplyText("good day"), save_as="r1"))
    assert find_rule_ids(provider, make_request([FOLLOW_UP], previous_response_id="{r1.id}")) == ["S1"]


def test_empty_ids_are_not_found() -> None:
    assert find_rule_ids(FakeProvider(), make_request([USER_MESSAGE], previous_response_id="")) == ["S1"]
    assert find_rule_ids(FakeProvider(), make_request([USER_MESSAGE], conversation="")) == ["S8"]
    assert find_rule_ids(FakeProvider(), make_request([USER_MESSAGE], prompt={"id": ""})) == ["S10"]


def test_other_accounts_response_cannot_be_continued() -> None:
    provider = make_provider(SetupStep.respond(make_request(), ReplyText("good day"), save_as="r1", account="other"))
    assert find_rule_ids(provider, make_request([FOLLOW_UP], previous_response_id="{r1.id}")) == ["S1"]


def test_chain_may_continue_without_new_input() -> None:
    assert (
        find_rule_ids(
            make_provider(SetupStep.respond(make_request(), ReplyText("good day"), save_as="r1")),
            make_request([], previous_response_id="{r1.id}"),
        )
        == []
    )


# -- lookups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "item",
    [
        make_reference("msg_unknown"),
        {"type": "reasoning", "id": "rs_unknown", "summary": [], "encrypted_content": None},
        {"type": "image_generation_call", "id": "ig_unknown", "status": "completed"},
        {"type": "file_search_call", "id": "fs_unknown", "status": "completed", "queries": []},
    ],
    ids=lambda item: item["type"],
)
def test_items_without_content_are_looked_up(item: dict[str, Any]) -> None:
    assert find_rule_ids(FakeProvider(), make_request([USER_MESSAGE, item, make_reply(), FOLLOW_UP])) == ["I3"]


def test_stored_reasoning_is_found_by_id() -> None:
    provider = make_provider(
        SetupStep.respond(make_request(model=REASONING_MODEL), ReplyThought("hm"), ReplyText("good day"), save_as="r1")
    )
    bare = {"type": "reasoning", "id": "{r1.output[0].id}", "summary": []}
    assert (
        find_rule_ids(provider, make_request([USER_MESSAGE, bare, make_reference("{r1.output[1].id}"), FOLLOW_UP], model=REASONING_MODEL))
        == []
    )


# -- reasoning ---------------------------------------------------------------------------------------------------------

PAIRING_SWITCHES = ResponsesRuleSwitches(reasoning_pairing_unstored=True)
CALL_STEP = SetupStep.respond(
    make_request(model=REASONING_MODEL, tools=[TOOL]), ReplyThought("a tool"), ReplyCall("look_up", "{}", "call_7"), save_as="r1"
)


def test_changed_history_after_reasoning_is_refused() -> None:
    """As in a recording."""
    unstored = SetupStep.respond(make_request(model=REASONING_MODEL, store=False), ReplyThought("hm"), ReplyText("good day"), save_as="r1")
    changed = make_request(
        [USER_MESSAGE, "{r1.output[0]}", {"role": "assistant", "content": "something else"}, FOLLOW_UP], model=REASONING_MODEL
    )
    assert find_rule_ids(make_provider(unstored, switches=PAIRING_SWITCHES), changed, PAIRING_SWITCHES) == ["R1"]
    assert find_rule_ids(make_provider(unstored), changed) == []
    stored = SetupStep.respond(make_request(model=REASONING_MODEL), ReplyThought("hm"), ReplyText("good day"), save_as="r1")
    assert find_rule_ids(make_provider(stored), changed) == ["R1"]


def test_pairing_is_checked_without_decryption() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    assert [
        violation.rule.id
        for violation in check_request(make_request([USER_MESSAGE, reasoning, make_reply(), FOLLOW_UP]), switches=PAIRING_SWITCHES)
    ] == ["R1"]
    assert [
        violation.rule.id for violation in check_request(make_request([USER_MESSAGE, reasoning, FOLLOW_UP]), switches=PAIRING_SWITCHES)
    ] == ["R8"]
    assert check_request(make_request([USER_MESSAGE, reasoning, make_reply(id="msg_1"), FOLLOW_UP]), switches=PAIRING_SWITCHES) == []
    assert (
        check_request(make_request([USER_MESSAGE, drop_fields(reasoning, "id"), make_reply(), FOLLOW_UP]), switches=PAIRING_SWITCHES) == []
    )


def test_unstored_reasoning_needs_no_next_item() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    assert check_request(make_request([USER_MESSAGE, reasoning, make_reply(), FOLLOW_UP], store=False)) == []
    assert check_request(make_request([USER_MESSAGE, reasoning, FOLLOW_UP], store=False)) == []


def test_call_id_identifies_call_after_reasoning() -> None:
    provider = make_provider(CALL_STEP)
    assert (
        find_rule_ids(
            provider, make_request([USER_MESSAGE, "{r1.output[0]}", make_call("call_7"), make_output("call_7")], model=REASONING_MODEL)
        )
        == []
    )
    assert find_rule_ids(
        provider, make_request([USER_MESSAGE, "{r1.output[0]}", make_call("call_8"), make_output("call_8")], model=REASONING_MODEL)
    ) == ["R1"]


def test_call_without_id_replaces_no_message() -> None:
    unstored = SetupStep.respond(make_request(model=REASONING_MODEL, store=False), ReplyThought("hm"), ReplyText("good day"), save_as="r1")
    replaced = make_request([USER_MESSAGE, "{r1.output[0]}", make_call(), make_output()], model=REASONING_MODEL, store=False)
    assert find_rule_ids(make_provider(unstored, switches=PAIRING_SWITCHES), replaced, PAIRING_SWITCHES) == ["R1"]


def test_call_without_id_matches_unstored_reasoning() -> None:
    unstored = SetupStep.respond(
        make_request(model=REASONING_MODEL, store=False), ReplyThought("hm"), ReplyCall("look_up", "{}", "call_7"), save_as="r1"
    )
    replayed = make_request(
        [USER_MESSAGE, "{r1.output[0]}", make_call("call_7"), make_output("call_7")], model=REASONING_MODEL, store=False
    )
    assert find_rule_ids(make_provider(unstored), replayed) == []


def test_reference_may_replace_the_next_item() -> None:
    references = [make_reference("{r1.output[0].id}"), make_reference("{r1.output[1].id}"), make_output("call_7")]
    assert find_rule_ids(make_provider(CALL_STEP), make_request([USER_MESSAGE, *references], model=REASONING_MODEL)) == []
    assert find_rule_ids(make_provider(CALL_STEP), make_request([USER_MESSAGE, *references[1:]], model=REASONING_MODEL)) == ["R2"]


def test_encrypted_content_identifies_reasoning_without_id() -> None:
    without_id = {"type": "reasoning", "summary": [], "encrypted_content": "{r1.output[0].encrypted_content}"}
    assert (
        find_rule_ids(
            make_provider(CALL_STEP),
            make_request([USER_MESSAGE, without_id, "{r1.output[1]}", make_output("call_7")], model=REASONING_MODEL),
        )
        == []
    )


def test_message_between_reasoning_and_reply_is_refused() -> None:
    """Encrypted content shows it, although nothing is stored."""
    unstored = SetupStep.respond(make_request(model=REASONING_MODEL, store=False), ReplyThought("hm"), ReplyText("good day"), save_as="r1")
    between = make_request([USER_MESSAGE, "{r1.output[0]}", FOLLOW_UP, "{r1.output[1]}", FOLLOW_UP], model=REASONING_MODEL, store=False)
    assert find_rule_ids(make_provider(unstored, switches=PAIRING_SWITCHES), between, PAIRING_SWITCHES) == ["R3"]


@pytest.mark.parametrize(
    "model_output",
    [
        (ReplyThought("a"), ReplyText("b"), ReplyCall("look_up", "{}", "call_1")),
        (ReplyThought("a"), ReplyCall("look_up", "{}", "call_1"), ReplyCall("look_up", "{}", "call_2")),
        (ReplyThought("a"), ReplyText("b"), ReplyThought("c"), ReplyText("d")),
    ],
    ids=["a message and a call", "two calls", "more reasoning"],
)
def test_recorded_orders_of_items_are_accepted(model_output: tuple[Any, ...]) -> None:
    provider = make_provider(SetupStep.respond(make_request(model=REASONING_MODEL, tools=[TOOL]), *model_output, save_as="r1"))
    outputs = [make_output(call.id) for call in model_output if isinstance(call, ReplyCall)]
    replayed = [f"{{r1.output[{index}]}}" for index in range(len(model_output))]
    assert find_rule_ids(provider, make_request([USER_MESSAGE, *replayed, *outputs, FOLLOW_UP], model=REASONING_MODEL)) == []
    assert find_rule_ids(provider, make_request([*outputs, FOLLOW_UP], model=REASONING_MODEL, previous_response_id="{r1.id}")) == []


def test_encrypted_content_of_another_organisation_is_refused() -> None:
    """Also without an item id."""
    foreign = SetupStep.respond(
        make_request(model=REASONING_MODEL, store=False), ReplyThought("hm"), ReplyText("good day"), save_as="r1", account="other"
    )
    without_id = {"type": "reasoning", "summary": [], "encrypted_content": "{r1.output[0].encrypted_content}"}
    assert find_rule_ids(
        make_provider(foreign), make_request([USER_MESSAGE, without_id, make_reply(), FOLLOW_UP], model=REASONING_MODEL)
    ) == ["R12"]


def test_dated_model_name_fits_encrypted_content() -> None:
    strict = ResponsesRuleSwitches(same_model_blobs=True)
    provider = make_provider(
        SetupStep.respond(make_request(model=REASONING_MODEL, store=False), ReplyThought("hm"), ReplyText("good day"), save_as="r1"),
        switches=strict,
    )
    replayed = make_request(["{r1.output[0]}", "{r1.output[1]}", FOLLOW_UP], model=f"{REASONING_MODEL}-2026-04-23")
    assert find_rule_ids(provider, replayed, strict) == []


def test_null_status_is_refused_for_reasoning_only() -> None:
    assert (
        find_rule_ids(
            FakeProvider(), make_request([USER_MESSAGE, make_call(status=None), make_output(), make_reply(status=None), FOLLOW_UP])
        )
        == []
    )
    assert find_rule_ids(
        FakeProvider(), make_request([USER_MESSAGE, {"type": "reasoning", "summary": [], "status": None}, make_reply(), FOLLOW_UP])
    ) == ["N13"]
