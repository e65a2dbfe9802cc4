"""Every rule of Chat Completions has a request that breaks it alone, with the exact error, and a legal one."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace
from openai.types.chat import ChatCompletionMessage
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from legato.providers.rules.chat.request_shape import FIELD_CHECKS
from legato.providers.rules.chat.rules import AZURE, LENIENT, OPENAI, RULES, ChatRuleSwitches, check_request, render_error_body
from legato.providers.rules.rule_set import RuleViolation
from tests.line_counter import count_lines
from tests.providers.rules.chat.cases import CASES
from tests.providers.rules.chat.sample_requests import (
    HELLO,
    find_model,
    make_call,
    make_call_message,
    make_request,
    make_tool,
    make_tool_message,
)
from tests.providers.rules.rule_cases import RuleCase

VIOLATION_CASES = [case for case in CASES if not RULES.by_id[case.rule_id].is_permission]


def check_case(case: RuleCase, request: Any) -> list[RuleViolation]:
    """Return the violations of a request of a case."""
    return check_request(request, find_model=find_model, token_count=case.token_count, switches=replace(OPENAI, **case.switches))


def test_every_rule_has_a_case() -> None:
    assert {case.rule_id for case in CASES} == set(RULES.by_id)


def test_switches_of_rules_are_declared() -> None:
    switches = {rule.switch for rule in RULES.by_id.values() if rule.switch}
    assert switches <= {field.name for field in fields(ChatRuleSwitches)}


@pytest.mark.parametrize("case", VIOLATION_CASES, ids=str)
def test_illegal_request_of_a_case_is_refused(case: RuleCase) -> None:
    """It breaks this rule alone, and gets the exact error."""
    violations = check_case(case, case.illegal)
    assert [violation.rule.id for violation in violations] == [case.rule_id]
    assert violations[0].status == case.status
    assert render_error_body(violations[0]) == case.error_body


@pytest.mark.parametrize("case", CASES, ids=str)
def test_legal_request_of_a_case_is_accepted(case: RuleCase) -> None:
    assert [str(violation) for violation in check_case(case, case.legal)] == []


@pytest.mark.parametrize("case", [case for case in VIOLATION_CASES if RULES.by_id[case.rule_id].switch], ids=str)
def test_switch_turns_its_rule_off(case: RuleCase) -> None:
    switch = RULES.by_id[case.rule_id].switch
    off = {bool: False, int: 0, str: ""}[type(getattr(OPENAI, switch))]
    assert case.rule_id not in {each.rule.id for each in check_case(replace_switches(case, **{switch: off}), case.illegal)}


def replace_switches(case: RuleCase, **switches: Any) -> RuleCase:
    """Return a case with some other switches."""
    return dataclasses.replace(case, switches={**case.switches, **switches})


def test_default_switches_accept_what_no_report_refuses() -> None:
    assert check_request(make_request(HELLO, make_call_message("call_1"), make_tool_message("call_1"), make_tool_message("call_1"))) == []
    assert check_request(make_request(HELLO | {"mood": "cross"})) == []


@pytest.mark.parametrize("switches", [AZURE, LENIENT], ids=["azure", "lenient"])
def test_calls_are_paired_with_all_switches(switches: ChatRuleSwitches) -> None:
    rule_ids = [
        [each.rule.id for each in check_request(make_request(HELLO, *tail), switches=switches)]
        for tail in ([make_call_message("c")], [make_tool_message("c")])
    ]
    assert rule_ids == [["C1"], ["C2"]]


def test_lenient_switches_accept_more_than_openai() -> None:
    request = make_request(
        HELLO, {"role": "assistant", "content": "x", "tool_calls": []}, top_k=3, tools=[], tool_choice="auto", temperature=9
    )
    assert check_request(request, switches=LENIENT) == []
    assert check_request(request, switches=OPENAI) != []


def test_azure_body_needs_no_model() -> None:
    assert check_request({"messages": [HELLO]}, switches=AZURE) == []


def test_null_code_switch_adds_azures_code() -> None:
    violations = check_request(make_request(HELLO, make_call_message("c")), switches=replace(AZURE, null_code="invalid_request_error"))
    assert render_error_body(violations[0])["error"]["code"] == "invalid_request_error"


def test_empty_messages_are_reported_last() -> None:
    # C4 was measured to be the last: any other violation is reported instead.
    empty = {"role": "assistant", "content": None}
    for case in VIOLATION_CASES:
        if case.rule_id not in ("C4", "CB1", "C11a", "C11b", "C11c"):
            request = {**case.illegal, "messages": [empty, *case.illegal["messages"]]}
            rule_id = check_case(case, request)[0].rule.id
            assert rule_id == case.rule_id, f"{case.rule_id} was hidden by {rule_id}"


def test_phases_are_checked_in_order() -> None:
    request = make_request(
        HELLO, make_call_message("c"), {"role": "user", "content": None}, model="no-such-model", zzz=1, max_tokens=1, temperature=9
    )
    request |= {"tools": [make_tool(parameters={"type": "string"})], "stream_options": {}}
    del request["model"]
    repairs: list[tuple[str, dict[str, Any]]] = [
        ("CP1", {"model": "no-such-model"}),
        ("CP2", {"zzz": None}),
        ("CS5", {"temperature": 1}),
        ("CT2", {"tools": None}),
        ("CP3", {"model": "gpt-5"}),
        ("CP4", {"max_tokens": None}),
        ("CP7", {"stream": True}),
        ("C1", {"messages": [HELLO, make_call_message("c"), make_tool_message("c"), {"role": "user", "content": None}]}),
        ("C12", {"model": "gpt-5", "token_count": 0}),
        ("C4", {"messages": [HELLO]}),
    ]
    token_count = 500_000
    for rule_id, repair in repairs:
        assert [each.rule.id for each in check_request(request, find_model=find_model, token_count=token_count)] == [rule_id]
        token_count = repair.pop("token_count", token_count)
        request = {name: value for name, value in {**request, **repair}.items() if name != "zzz" or value is not None}
    assert check_request(request, find_model=find_model, token_count=token_count) == []


def test_messages_are_checked_before_other_fields() -> None:
    assert [each.rule.id for each in check_request(make_request(HELLO | {"role": "narrator"}, temperature=9))] == ["C10", "CS5"]


def test_dumped_reply_of_the_sdk_is_accepted() -> None:
    message = ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [make_call("call_1")]}
    )
    for dumped in (message.model_dump(), message.model_dump(exclude_none=True), message.model_dump(exclude_unset=True)):
        assert check_request(make_request(HELLO, dumped, make_tool_message("call_1")), switches=replace(OPENAI, unknown_members=True)) == []


def test_parameters_of_the_sdk_are_known() -> None:
    assert set(CompletionCreateParamsBase.__annotations__) <= set(FIELD_CHECKS)


def test_custom_tools_are_paired_like_functions() -> None:
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    tools = [{"type": "custom", "custom": {"name": "shell"}}]
    request = make_request(HELLO, {"role": "assistant", "tool_calls": [custom]}, make_tool_message("call_1"), tools=tools)
    assert check_request(request) == []
    assert [each.rule.id for each in check_request({**request, "messages": request["messages"][:2]})] == ["C1"]


def test_tool_message_after_another_message_is_refused() -> None:
    violations = check_request(make_request(HELLO, make_call_message("c1", "c2"), make_tool_message("c1"), HELLO, make_tool_message("c2")))
    assert [(each.rule.id, each.param) for each in violations] == [("C1", "messages.[3].role"), ("C2", "messages.[4].role")]


def test_error_body_has_no_lone_surrogates() -> None:
    violation = check_request(make_request(**{"\ud800": 1}))[0]
    assert json.dumps(render_error_body(violation), ensure_ascii=False).encode()


def test_deeply_nested_schema_is_checked() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(100_000):
        schema = {"type": "object", "additionalProperties": False, "properties": {"a": schema}, "required": ["a"]}
    violations = check_request(make_request(tools=[make_tool(strict=True, parameters=schema)]))
    assert [each.rule.id for each in violations] == ["CT3"]
    while "properties" in schema:  # taken apart by hand: freeing it at once would recurse
        schema = schema["properties"].pop("a")


# -- random requests ---------------------------------------------------------------------------------------------------

MEMBERS = ["role", "content", "type", "id", "name", "text", "function", "tool_calls", "tool_call_id", "arguments", "strict", "parameters"]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["user", "assistant", "tool", "function"])
)
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*MEMBERS, *FIELD_CHECKS]) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=20,
)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.sampled_from([0, 64]),
    str: st.sampled_from(["", "unrecognized", "x"]),
}
ANY_SWITCHES = st.builds(ChatRuleSwitches, **{field.name: VALUES[field.type] for field in fields(ChatRuleSwitches)})


@given(ANY_JSON, ANY_SWITCHES)
@settings(max_examples=300, deadline=None)
def test_checking_random_json_never_raises(request: Any, switches: ChatRuleSwitches) -> None:
    for violation in check_request(request, switches=switches):
        assert render_error_body(violation)["error"]["message"]


@given(st.sampled_from(VIOLATION_CASES + [case for case in CASES if case.legal]), st.data(), ANY_SWITCHES)
@settings(max_examples=600, deadline=None)
def test_checking_mutated_requests_never_raises(case: RuleCase, data: st.DataObject, switches: ChatRuleSwitches) -> None:
    request = json.loads(json.dumps(case.legal))
    holder, key = data.draw(st.sampled_from(list(list_places(request))))
    holder[key] = data.draw(ANY_JSON)
    for violation in check_request(request, find_model=find_model, switches=switches):
        assert render_error_body(violation)["error"]["message"]


def list_places(value: Any) -> Any:
    """Yield the holder and the key of every value inside a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from list_places(value[key])


# -- cost --------------------------------------------------------------------------------------------------------------


def count_check_lines(rounds: int) -> int:
    """Return how many lines of Python the check of a conversation runs."""
    turns = [
        message for index in range(rounds) for message in (HELLO, make_call_message(f"call_{index}"), make_tool_message(f"call_{index}"))
    ]
    request = make_request(*turns, tools=[make_tool()])
    assert check_request(request) == []
    return count_lines(lambda: check_request(request))


def test_cost_is_linear_in_conversation_length() -> None:
    assert count_check_lines(500) < 11 * count_check_lines(50)
