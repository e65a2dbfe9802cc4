"""Every rule of the Messages API has a request that breaks it alone, with the exact error, and a legal one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from anthropic.types import Message, tool_union_param
from anthropic.types.anthropic_beta_param import AnthropicBetaParam
from anthropic.types.beta import beta_content_block_param, beta_tool_union_param, message_create_params
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields

from legato.emulator.fake_models.base import ReplyText, ReplyThought
from legato.providers.rules.anthropic import betas
from legato.providers.rules.anthropic.provider_state import AnthropicModelInfo, EmptyAnthropicState, ThinkingSignature
from legato.providers.rules.anthropic.request_shape import BETA_FIELD_CHECKS, BLOCK_CHECKS, FIELD_CHECKS, SERVER_TOOL_TYPES
from legato.providers.rules.anthropic.rules import RULES, AnthropicRuleSwitches, check_request, list_dropped_thinking, render_error_body
from legato.providers.rules.rule_set import RuleViolation
from tests.line_counter import count_lines
from tests.providers.rules.anthropic.cases import CASES
from tests.providers.rules.anthropic.fake_provider import FakeProvider, run_setup
from tests.providers.rules.anthropic.sample_requests import (
    BINDING_HEADER,
    HELLO,
    VERSION_HEADER,
    make_assistant_message,
    make_request,
    make_text_block,
    make_tool,
    make_tool_result,
    make_tool_use,
    make_user_message,
)
from tests.providers.rules.rule_cases import RuleCase, fill_placeholders


class BindingProvider(FakeProvider):
    """A fake provider whose models bind their thinking."""

    def find_model(self, name: str) -> AnthropicModelInfo | None:
        return AnthropicModelInfo(name, binds_thinking=True)


VIOLATION_CASES = [case for case in CASES if not RULES.by_id[case.rule_id].is_permission]


def check_case(case: RuleCase, request: Any, *, omitted_headers: Sequence[str] = (), **switches: Any) -> list[RuleViolation]:
    """Return the violations of a request of a case after the setup."""
    provider, replies = run_setup(case)
    body = fill_placeholders(request, replies)
    headers = {name: value for name, value in {**VERSION_HEADER, **case.headers}.items() if name not in omitted_headers}
    all_switches = AnthropicRuleSwitches(**{**case.switches, **switches})
    return check_request(body, headers, provider, all_switches, token_count=case.token_count, body_bytes=len(json.dumps(body)))


def find_rule_ids(request: Any, **options: Any) -> list[str]:
    """Return the ids of the rules that a request breaks."""
    return [each.rule.id for each in check_request(request, VERSION_HEADER, **options)]


def test_every_rule_has_a_case() -> None:
    assert {case.rule_id for case in CASES} == set(RULES.by_id)


def test_switches_of_rules_are_declared() -> None:
    switches = {rule.switch for rule in RULES.by_id.values() if rule.switch}
    assert switches <= {field.name for field in fields(AnthropicRuleSwitches)}


@pytest.mark.parametrize("case", VIOLATION_CASES, ids=str)
def test_illegal_request_of_a_case_is_refused(case: RuleCase) -> None:
    """It breaks this rule alone, and gets the exact error."""
    violations = check_case(case, case.illegal, omitted_headers=case.omitted_headers)
    assert [violation.rule.id for violation in violations] == [case.rule_id]
    assert violations[0].status == case.status
    assert case.error_body is not None
    assert render_error_body(violations[0], "req_1") == {**case.error_body, "request_id": "req_1"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_legal_request_of_a_case_is_accepted(case: RuleCase) -> None:
    assert [str(violation) for violation in check_case(case, case.legal)] == []


@pytest.mark.parametrize("case", [case for case in VIOLATION_CASES if RULES.by_id[case.rule_id].switch], ids=str)
def test_switch_turns_its_rule_off(case: RuleCase) -> None:
    switch = RULES.by_id[case.rule_id].switch
    off = type(getattr(AnthropicRuleSwitches(), switch))()
    rule_ids = {each.rule.id for each in check_case(case, case.illegal, omitted_headers=case.omitted_headers, **{switch: off})}
    assert case.rule_id not in rule_ids


def test_default_switches_accept_historic_and_uncertain_violations() -> None:
    for case in CASES:
        if case.rule_id in ("M14a", "M14b", "M25"):
            assert find_rule_ids(case.illegal) == []


def test_requests_are_checked_without_provider_state() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "whatever"}
    request = make_request(
        HELLO, make_assistant_message(thinking, make_tool_use()), make_user_message(make_tool_result()), model="any-model"
    )
    assert find_rule_ids(request) == []
    assert find_rule_ids(
        make_request(HELLO, make_assistant_message(make_tool_use()), HELLO, model="any-model"), state=EmptyAnthropicState()
    ) == ["M1"]


# -- the order of violations -------------------------------------------------------------------------------------------

WRONG_FIELDS = {
    "model": 1,
    "tool_choice": 1,
    "tools": 1,
    "messages": 1,
    "system": 1,
    "thinking": 1,
    "output_config": 1,
    "cache_control": 1,
    "max_tokens": "x",
    "metadata": 1,
    "stop_sequences": 1,
    "temperature": "x",
    "service_tier": 1,
    "top_k": "x",
    "top_p": "x",
    "stream": 1,
    "inference_geo": 1,
    "zzz": 1,
}


def test_fields_are_checked_in_measured_order() -> None:
    violations = check_request(dict(reversed(WRONG_FIELDS.items())), VERSION_HEADER)
    assert [each.path for each in violations] == list(WRONG_FIELDS)


def test_phases_are_checked_in_order() -> None:
    cached = [make_text_block(str(number), cache_control={"type": "ephemeral"}) for number in range(5)]
    thinking = make_assistant_message({"type": "thinking", "thinking": "Hm.", "signature": "made up"}, make_tool_use())
    end = make_assistant_message(make_text_block("It is"))
    request: Any = make_request(make_user_message(*cached), thinking, HELLO, make_assistant_message(), end, model="no-such-model", zzz=1)
    request |= {"tool_choice": {"type": "any"}}
    repairs: list[tuple[str, dict[str, Any]]] = [
        ("M20", {"zzz": None}),
        ("M23", {"model": "claude-sonnet-5"}),
        ("M19c", {"tool_choice": None}),
        ("M13d", {"messages": [make_user_message(*cached), thinking, HELLO, end]}),
        ("M1", {"messages": [make_user_message(*cached), thinking, make_user_message(make_tool_result()), end]}),
        (
            "M8",
            {"messages": [make_user_message(*cached), make_assistant_message(make_tool_use()), make_user_message(make_tool_result()), end]},
        ),
        ("M17", {"messages": [make_user_message(*cached), make_assistant_message(make_tool_use()), make_user_message(make_tool_result())]}),
        ("M18", {"messages": [HELLO]}),
        ("M22", {"model": "claude-haiku-4-5"}),
    ]
    assert [each.rule.id for each in check_request(request, {}, FakeProvider())] == ["M21"]
    messages = request["messages"]
    request["messages"] = [
        messages[0],
        messages[1],
        messages[2],
        make_assistant_message(),
        make_user_message(make_text_block("Well?")),
        end,
    ]
    for rule_id, repair in repairs:
        token_count = 2_000_000 if "claude" in request["model"] else 0
        assert [each.rule.id for each in check_request(request, VERSION_HEADER, FakeProvider(), token_count=token_count)] == [rule_id]
        request = {name: value for name, value in {**request, **repair}.items() if name != "zzz" or value is not None}
    assert check_request(request, VERSION_HEADER, FakeProvider()) == []


def test_earlier_messages_are_reported_first() -> None:
    request = make_request(
        HELLO,
        make_assistant_message(make_tool_use("a")),
        make_user_message(make_tool_result("b")),
        make_assistant_message(make_tool_use("c")),
        HELLO,
    )
    assert find_rule_ids(request) == ["M1", "M2", "M1"]


# -- the provider's own SDK --------------------------------------------------------------------------------------------

REPLY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}, "caller": {"type": "direct"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e", "page_age": None}],
        },
        {
            "type": "text",
            "text": "Found.",
            "citations": [{"type": "web_search_result_location", "url": "u", "title": None, "encrypted_index": "i", "cited_text": "c"}],
        },
        {"type": "text", "text": "Plain.", "citations": None},
        {"type": "tool_use", "id": "toolu_1", "name": "find_order", "input": {}, "caller": {"type": "direct"}},
    ],
}


def test_dumped_reply_of_the_sdk_is_accepted() -> None:
    message = Message.model_validate(REPLY)
    for options in ({}, {"exclude_none": True}, {"exclude_unset": True}):
        content = [block.model_dump(**options) for block in message.content]
        assert (
            find_rule_ids(make_request(HELLO, {"role": "assistant", "content": content}, make_user_message(make_tool_result("toolu_1"))))
            == []
        )


def list_tags(union: Any) -> set[str]:
    """List the values of `type` in a union of typed dictionaries, and some other words."""
    tags: set[str] = set()
    for member in get_args(union):
        annotations = getattr(member, "__annotations__", {})
        tags |= {word for word in str(annotations.get("type")).replace('"', "'").split("'") if word and word.isidentifier()}
    return tags


def test_types_of_the_sdk_are_known() -> None:
    """Of blocks and of tools."""
    blocks = list_tags(beta_content_block_param.BetaContentBlockParam)
    tools = list_tags(tool_union_param.ToolUnionParam) | list_tags(beta_tool_union_param.BetaToolUnionParam)
    noise = {"Required", "Literal", "Optional", "ForwardRef", "None"}
    assert {"text", "thinking", "compaction"} <= blocks
    assert blocks - noise <= set(BLOCK_CHECKS)
    assert {"bash_20250124", "custom"} <= tools
    assert tools - noise <= {*SERVER_TOOL_TYPES, "custom"}


@pytest.mark.parametrize("field", BETA_FIELD_CHECKS)
def test_beta_field_needs_its_beta(field: str) -> None:
    """Other betas do not open it, and the open field has a shape."""
    others = [beta for beta in betas.ALL_BETAS.split(",") if field not in betas.list_opened_fields([beta])]
    (opener, *_) = betas.FIELD_BETAS[field]
    assert find_rule_ids(make_request(**{field: 1})) == ["M20"]
    assert [
        each.rule.id for each in check_request(make_request(**{field: 1}), {**VERSION_HEADER, "anthropic-beta": ",".join([*others, "any"])})
    ] == ["M20"]
    assert [
        each.rule.id[:2] for each in check_request(make_request(**{field: 1}), {**VERSION_HEADER, "anthropic-beta": f"{opener}-2027-01-01"})
    ] == ["MS"]


def test_fields_and_betas_of_sdk_are_known() -> None:
    fields = message_create_params.MessageCreateParamsBase.__annotations__.keys() - {"betas"}
    assert fields <= {*FIELD_CHECKS, *BETA_FIELD_CHECKS}
    words = " ".join(map(str, get_args(get_args(AnthropicBetaParam)[1])))
    assert all(opener in words for openers in {**betas.FIELD_BETAS, **betas.MEMBER_BETAS}.values() for opener in openers)


def test_version_without_date_counts_as_old() -> None:
    assert check_request(make_request(temperature=1), {"anthropic-version": "REDACTED"}) == []


def test_header_names_are_case_insensitive() -> None:
    assert check_request(make_request(), {"Anthropic-Version": "2023-06-01"}) == []


def test_error_body_has_no_lone_surrogates() -> None:
    violation = check_request(make_request(**{"\ud800": 1}), VERSION_HEADER)[0]
    assert json.dumps(render_error_body(violation, "req_1"), ensure_ascii=False).encode()


def test_deeply_nested_tool_input_is_checked() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    provider = BindingProvider()
    before = make_request(
        HELLO, make_assistant_message(make_tool_use(input={"deep": deep})), make_user_message(make_tool_result()), model="m"
    )
    reply = provider.make_reply(before, [ReplyThought("Hm."), ReplyText("There.")])
    assert find_rule_ids({**before, "messages": [*before["messages"], reply, HELLO]}, state=provider) == []
    while deep:  # taken apart by hand: freeing it at once would recurse
        deep = deep.pop()


# -- random requests ---------------------------------------------------------------------------------------------------

MEMBERS = ["role", "content", "type", "id", "name", "text", "input", "tool_use_id", "thinking", "signature", "data", "cache_control"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["user", "assistant", "system", "text", "thinking", "tool_use", "tool_result", "tool", "enabled", "base64"]),
)
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*MEMBERS, *FIELD_CHECKS]) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=20,
)
ANY_SWITCHES = st.builds(
    AnthropicRuleSwitches,
    **{field.name: st.booleans() if field.type is bool else st.sampled_from([0, 4]) for field in fields(AnthropicRuleSwitches)},
)
HEADERS = st.sampled_from([{}, VERSION_HEADER, {**VERSION_HEADER, **BINDING_HEADER}])


@given(ANY_JSON, HEADERS, ANY_SWITCHES)
@settings(max_examples=300, deadline=None)
def test_checking_random_json_never_raises(request: Any, headers: dict[str, str], switches: AnthropicRuleSwitches) -> None:
    for violation in check_request(request, headers, FakeProvider(), switches):
        assert render_error_body(violation, "req_1")["error"]["message"]


@given(st.sampled_from(CASES), st.data(), ANY_SWITCHES)
@settings(max_examples=600, deadline=None)
def test_checking_mutated_requests_never_raises(case: RuleCase, data: st.DataObject, switches: AnthropicRuleSwitches) -> None:
    provider, replies = run_setup(case)
    request = json.loads(json.dumps(fill_placeholders(case.legal, replies)))
    holder, key = data.draw(st.sampled_from(list(list_places(request))))
    holder[key] = data.draw(ANY_JSON)
    headers = {**VERSION_HEADER, **case.headers}
    for violation in check_request(request, headers, provider, switches):
        assert render_error_body(violation, "req_1")["error"]["message"]
    if isinstance(request, dict):
        list_dropped_thinking(request, headers, provider)


def list_places(value: Any) -> Any:
    """Yield the holder and the key of every value inside a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from list_places(value[key])


# -- cost --------------------------------------------------------------------------------------------------------------


def count_check_lines(rounds: int) -> int:
    """Return how many lines of Python the check of a conversation runs."""
    provider = BindingProvider()
    messages: list[Any] = []
    base = make_request(model="m", system="You are the desk.", tools=[make_tool()])
    for number in range(rounds):
        messages.append(HELLO)
        thinking = {"type": "thinking", "thinking": "Hm.", "signature": f"s{number}"}
        messages += [
            make_assistant_message(thinking, make_tool_use(f"toolu_{number}")),
            make_user_message(make_tool_result(f"toolu_{number}")),
        ]
    provider.signatures = dict.fromkeys((f"s{number}" for number in range(rounds)), ThinkingSignature("", "", ""))
    request = {**base, "messages": messages}
    assert check_request(request, VERSION_HEADER, provider) == []
    return count_lines(lambda: check_request(request, VERSION_HEADER, provider))


def test_cost_is_linear_in_conversation_length() -> None:
    assert count_check_lines(300) < 11 * count_check_lines(30)
