"""The order of the phases: of two violations the server reports the one that it checks first."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import pytest

from legato.emulator.fake_models.base import ReplyCall, ReplyText
from legato.providers.rules.responses.rules import RULES, check_request
from tests.providers.rules.responses.fake_provider import FakeProvider
from tests.providers.rules.responses.sample_requests import (
    FOLLOW_UP,
    REASONING_MODEL,
    UNKNOWN_MODEL,
    USER_MESSAGE,
    drop_fields,
    make_call,
    make_output,
    make_reference,
    make_reply,
    make_request,
)
from tests.providers.rules.rule_cases import SetupStep, fill_placeholders

# Every field in the server's order, each with a value that its schema refuses. Measured on the live API.
WRONG_FIELDS: dict[str, Any] = {
    "input": 7,
    "previous_response_id": 7,
    "prompt": "x",
    "moderation": "x",
    "include": ["bogus.thing"],
    "tools": "x",
    "tool_choice": 7,
    "metadata": "x",
    "text": "x",
    "temperature": "x",
    "top_p": "x",
    "presence_penalty": "x",
    "frequency_penalty": "x",
    "parallel_tool_calls": "x",
    "stream": "x",
    "stream_options": "x",
    "background": "x",
    "max_output_tokens": "x",
    "max_tool_calls": "x",
    "reasoning": "x",
    "user": 7,
    "safety_identifier": 7,
    "prompt_cache_options": "x",
    "prompt_cache_key": 7,
    "prompt_cache_retention": "x",
    "truncation": "x",
    "instructions": 7,
    "store": "x",
    "service_tier": "bogus",
    "top_logprobs": "x",
    "context_management": "x",
}


def make_provider() -> FakeProvider:
    """Return a provider that has stored two responses."""
    provider = FakeProvider()
    provider.run_step(SetupStep.respond(make_request(), ReplyCall("look_up", "{}", "call_held"), save_as="r1"))
    provider.run_step(SetupStep.respond(make_request(), ReplyText("good day"), save_as="r2"))
    return provider


def find_first_rule_id(request: dict[str, Any], token_count: int = 0) -> str:
    """Return the id of the rule in the server's response."""
    provider = make_provider()
    body = fill_placeholders(request, provider.saved_values)
    violations = check_request(body, provider.find_account(), token_count=token_count)
    return violations[0].rule.id if violations else ""


@pytest.mark.parametrize(("earlier", "later"), list(pairwise(WRONG_FIELDS)), ids=lambda name: str(name))
def test_earlier_wrong_field_is_reported_first(earlier: str, later: str) -> None:
    wrong = {later: WRONG_FIELDS[later], earlier: WRONG_FIELDS[earlier]}
    (violation, *_) = check_request({**make_request(), **wrong})
    assert violation.path.startswith(earlier)


# For each phase a request with one violation. Of two such requests in one, the earlier violation is reported.
PHASE_VIOLATIONS: list[tuple[str, dict[str, Any]]] = [
    ("P3", {"zzz_unknown": 1}),
    ("N5", {"input": [{}]}),
    ("O7", {"truncation": "bogus"}),
    ("O9", {"model": UNKNOWN_MODEL}),
    ("S7", {"conversation": "conv_x", "previous_response_id": "{r2.id}"}),
    ("S8", {"conversation": "conv_x"}),
    ("S10", {"prompt": {"id": "pmpt_x"}}),
    ("S1", {"previous_response_id": "resp_x"}),
    ("N22", {"input": []}),
    ("O10", {"model": REASONING_MODEL, "temperature": 0.5}),
    ("I8", {"input": [USER_MESSAGE, make_reply(id="msg_1"), make_reply(id="msg_1"), FOLLOW_UP]}),
    ("I3", {"input": [USER_MESSAGE, make_reference("rs_x"), FOLLOW_UP]}),
    (
        "R11",
        {"input": [USER_MESSAGE, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "junk"}, make_reply(), FOLLOW_UP]},
    ),
    ("T1", {"input": [USER_MESSAGE, make_call()]}),
]


@pytest.mark.parametrize(("rule_id", "fields"), PHASE_VIOLATIONS, ids=[rule_id for rule_id, _ in PHASE_VIOLATIONS])
def test_single_violation_is_reported(rule_id: str, fields: dict[str, Any]) -> None:
    assert find_first_rule_id({**make_request(), **fields}) == rule_id


PAIRS = [(one, two) for one, two in combinations(PHASE_VIOLATIONS, 2) if not one[1].keys() & two[1].keys()]


@pytest.mark.parametrize(("earlier", "later"), PAIRS, ids=[f"{one[0]} before {two[0]}" for one, two in PAIRS])
def test_violation_of_earlier_phase_is_reported_first(earlier: tuple[str, dict[str, Any]], later: tuple[str, dict[str, Any]]) -> None:
    both = {**make_request(), **later[1], **earlier[1]}
    if "S7" not in (earlier[0], later[0]) and {"conversation", "previous_response_id"} <= both.keys():
        assert find_first_rule_id(both) == "S7"  # together they break a rule of their own
    else:
        assert find_first_rule_id(both) == earlier[0]


def test_input_phases_are_checked_in_order() -> None:
    """Duplicates, lookups, encrypted content, calls."""
    duplicates = [make_reply(id="msg_1"), make_reply(id="msg_1")]
    missing = [make_reference("rs_x")]
    invalid = [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "junk"}]
    unanswered = [make_call()]
    assert find_first_rule_id(make_request([USER_MESSAGE, *unanswered, *invalid, *missing, *duplicates])) == "I8"
    assert find_first_rule_id(make_request([USER_MESSAGE, *unanswered, *invalid, *missing])) == "I3"
    assert find_first_rule_id(make_request([USER_MESSAGE, *unanswered, *invalid])) == "R11"
    assert find_first_rule_id(make_request([USER_MESSAGE, *unanswered])) == "T1"


def test_missing_model_is_reported_before_missing_input() -> None:
    assert find_first_rule_id(drop_fields(make_request(), "model", "input")) == "P1"


@pytest.mark.parametrize("other", [{"zzz_unknown": 1}, {"truncation": "bogus"}, {"previous_response_id": "resp_x"}, {"messages": []}])
def test_missing_input_is_reported_second(other: dict[str, Any]) -> None:
    """After a missing model, before everything else."""
    assert find_first_rule_id({**drop_fields(make_request(), "input"), **other}) == "P2"


def test_items_are_checked_one_by_one() -> None:
    violations = check_request(make_request([{**USER_MESSAGE, "bogus": 1}, 7]))
    assert [violation.rule.id for violation in violations] == ["N10", "N3"]


def test_role_is_checked_before_content() -> None:
    violations = check_request(make_request([{"role": "tool", "content": [{"type": "text"}]}]))
    assert [violation.rule.id for violation in violations] == ["N5", "N9"]


def test_tools_are_checked_one_by_one() -> None:
    violations = check_request(make_request(tools=[{"type": "function", "name": "look.up"}, {}]))
    assert [violation.rule.id for violation in violations] == ["T9", "T12"]


def test_capabilities_are_checked_in_order() -> None:
    """Temperature before logprobs, `include` before `top_logprobs`."""
    fields = {"model": REASONING_MODEL, "include": ["message.output_text.logprobs"], "top_logprobs": 1}
    assert find_first_rule_id({**make_request(), **fields, "temperature": 0.5}) == "O10"
    violations = check_request({**make_request(), **fields}, make_provider().find_account())
    assert [violation.param for violation in violations] == ["include", "top_logprobs"]


def test_context_window_is_checked_last() -> None:
    assert find_first_rule_id(make_request([USER_MESSAGE, make_call()]), token_count=1_000_000) == "T1"
    assert find_first_rule_id(make_request([USER_MESSAGE, make_call(), make_output()]), token_count=1_000_000) == "F1"


def test_phases_have_the_measured_order() -> None:
    assert [phase.name for phase in RULES.phases] == [
        "the body",
        "the model is present",
        "the input is present",
        "every key is known",
        "the types of model and input",
        "the schema of the input items",
        "the fields before the tools",
        "the list of tools",
        "the schema of the tools",
        "the tool choice",
        "the fields after the tools",
        "the model exists",
        "stored state",
        "there is something to answer",
        "the model's capabilities",
        "no duplicate items",
        "items that are looked up",
        "encrypted content",
        "calls and their outputs",
        "reasoning and its next items",
        "the context window",
    ]
