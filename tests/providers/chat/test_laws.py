"""Every clause of the Chat Completions law book is broken alone, with the exact answer, and obeyed."""

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

from legato.providers.rules.chat.laws import AZURE, BOOK, LENIENT, OPENAI, Profile, envelope, judge
from legato.providers.rules.chat.request import FIELDS
from legato.providers.rules.rule_set import Complaint
from tests.providers.chat.cases import CASES
from tests.providers.chat.world import HELLO, ask, call, calls, models, result, tool
from tests.providers.lawcase import LawCase
from tests.work import count_lines

BREAKING = [case for case in CASES if not BOOK.clauses[case.clause].permits]


def verdict(case: LawCase, request: Any) -> list[Complaint]:
    return judge(request, models=models, tokens=case.tokens, profile=replace(OPENAI, **case.profile))


def test_every_clause_has_a_case() -> None:
    assert {case.clause for case in CASES} == set(BOOK.clauses)


def test_every_switch_is_a_field_of_the_profile() -> None:
    switches = {clause.switch for clause in BOOK.clauses.values() if clause.switch}
    assert switches <= {field.name for field in fields(Profile)}


@pytest.mark.parametrize("case", BREAKING, ids=str)
def test_a_request_that_breaks_one_clause_gets_exactly_its_answer(case: LawCase) -> None:
    complaints = verdict(case, case.breaks)
    assert [complaint.clause.id for complaint in complaints] == [case.clause]
    assert complaints[0].status == case.status
    assert envelope(complaints[0]) == case.body


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_nearest_request_that_obeys_the_clause_is_accepted(case: LawCase) -> None:
    assert [str(complaint) for complaint in verdict(case, case.obeys)] == []


@pytest.mark.parametrize("case", [case for case in BREAKING if BOOK.clauses[case.clause].switch], ids=str)
def test_a_clause_whose_switch_is_off_is_not_in_force(case: LawCase) -> None:
    switch = BOOK.clauses[case.clause].switch
    off = {bool: False, int: 0, str: ""}[type(getattr(OPENAI, switch))]
    assert case.clause not in {each.clause.id for each in verdict(replace_profile(case, **{switch: off}), case.breaks)}


def replace_profile(case: LawCase, **switches: Any) -> LawCase:
    return dataclasses.replace(case, profile={**case.profile, **switches})


def test_what_was_never_seen_refused_is_accepted_by_default() -> None:
    assert judge(ask(HELLO, calls("call_1"), result("call_1"), result("call_1"))) == []
    assert judge(ask(HELLO | {"mood": "cross"})) == []


@pytest.mark.parametrize("profile", [AZURE, LENIENT], ids=["azure", "lenient"])
def test_calls_and_answers_are_paired_under_every_profile(profile: Profile) -> None:
    clauses = [[each.clause.id for each in judge(ask(HELLO, *tail), profile=profile)] for tail in ([calls("c")], [result("c")])]
    assert clauses == [["C1"], ["C2"]]


def test_a_compatible_server_takes_what_openai_would_not() -> None:
    request = ask(HELLO, {"role": "assistant", "content": "x", "tool_calls": []}, top_k=3, tools=[], tool_choice="auto", temperature=9)
    assert judge(request, profile=LENIENT) == []
    assert judge(request, profile=OPENAI) != []


def test_an_azure_body_need_not_name_its_model() -> None:
    assert judge({"messages": [HELLO]}, profile=AZURE) == []


def test_some_azure_bodies_have_a_code_where_openai_has_none() -> None:
    complaints = judge(ask(HELLO, calls("c")), profile=replace(AZURE, null_code="invalid_request_error"))
    assert envelope(complaints[0])["error"]["code"] == "invalid_request_error"


def test_empty_messages_are_complained_about_last_of_all() -> None:
    # C4 was measured to be the last: whatever else is wrong is said instead.
    silent = {"role": "assistant", "content": None}
    for case in BREAKING:
        if case.clause not in ("C4", "CB1", "C11a", "C11b", "C11c"):
            request = {**case.breaks, "messages": [silent, *case.breaks["messages"]]}
            said = verdict(case, request)[0].clause.id
            assert said == case.clause, f"{case.clause} was hidden by {said}"


def test_the_phases_complain_in_their_order() -> None:
    request = ask(HELLO, calls("c"), {"role": "user", "content": None}, model="no-such-model", zzz=1, max_tokens=1, temperature=9)
    request |= {"tools": [tool(parameters={"type": "string"})], "stream_options": {}}
    del request["model"]
    repairs: list[tuple[str, dict[str, Any]]] = [
        ("CP1", {"model": "no-such-model"}),
        ("CP2", {"zzz": None}),
        ("CS5", {"temperature": 1}),
        ("CT2", {"tools": None}),
        ("CP3", {"model": "gpt-5"}),
        ("CP4", {"max_tokens": None}),
        ("CP7", {"stream": True}),
        ("C1", {"messages": [HELLO, calls("c"), result("c"), {"role": "user", "content": None}]}),
        ("C12", {"model": "gpt-5", "tokens": 0}),
        ("C4", {"messages": [HELLO]}),
    ]
    tokens = 500_000
    for clause, repair in repairs:
        assert [each.clause.id for each in judge(request, models=models, tokens=tokens)] == [clause]
        tokens = repair.pop("tokens", tokens)
        request = {name: value for name, value in {**request, **repair}.items() if name != "zzz" or value is not None}
    assert judge(request, models=models, tokens=tokens) == []


def test_messages_are_judged_before_the_other_fields() -> None:
    assert [each.clause.id for each in judge(ask(HELLO | {"role": "narrator"}, temperature=9))] == ["C10", "CS5"]


def test_a_reply_of_the_api_can_be_sent_back_as_the_sdk_dumps_it() -> None:
    message = ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [call("call_1")]}
    )
    for dumped in (message.model_dump(), message.model_dump(exclude_none=True), message.model_dump(exclude_unset=True)):
        assert judge(ask(HELLO, dumped, result("call_1")), profile=replace(OPENAI, unknown_members=True)) == []


def test_every_parameter_of_the_sdk_is_known() -> None:
    assert set(CompletionCreateParamsBase.__annotations__) <= set(FIELDS)


def test_a_custom_tool_is_called_and_answered_like_a_function() -> None:
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    tools = [{"type": "custom", "custom": {"name": "shell"}}]
    request = ask(HELLO, {"role": "assistant", "tool_calls": [custom]}, result("call_1"), tools=tools)
    assert judge(request) == []
    assert [each.clause.id for each in judge({**request, "messages": request["messages"][:2]})] == ["C1"]


def test_an_answer_that_comes_after_somebody_else_spoke_is_too_late() -> None:
    complaints = judge(ask(HELLO, calls("c1", "c2"), result("c1"), HELLO, result("c2")))
    assert [(each.clause.id, each.param) for each in complaints] == [("C1", "messages.[3].role"), ("C2", "messages.[4].role")]


def test_half_a_surrogate_pair_in_a_request_does_not_reach_the_answer() -> None:
    complaint = judge(ask(**{"\ud800": 1}))[0]
    assert json.dumps(envelope(complaint), ensure_ascii=False).encode()


def test_a_schema_that_nests_deeper_than_pythons_frames_is_judged() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(100_000):
        schema = {"type": "object", "additionalProperties": False, "properties": {"a": schema}, "required": ["a"]}
    complaints = judge(ask(tools=[tool(strict=True, parameters=schema)]))
    assert [each.clause.id for each in complaints] == ["CT3"]
    while "properties" in schema:  # taken apart by hand: freeing it at once would recurse
        schema = schema["properties"].pop("a")


# -- junk --------------------------------------------------------------------------------------------------------------

WORDS = ["role", "content", "type", "id", "name", "text", "function", "tool_calls", "tool_call_id", "arguments", "strict", "parameters"]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["user", "assistant", "tool", "function"])
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*WORDS, *FIELDS]) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=20,
)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.sampled_from([0, 64]),
    str: st.sampled_from(["", "unrecognized", "x"]),
}
PROFILES = st.builds(Profile, **{field.name: VALUES[field.type] for field in fields(Profile)})


@given(JUNK, PROFILES)
@settings(max_examples=300, deadline=None)
def test_junk_never_raises(request: Any, profile: Profile) -> None:
    for complaint in judge(request, profile=profile):
        assert envelope(complaint)["error"]["message"]


@given(st.sampled_from(BREAKING + [case for case in CASES if case.obeys]), st.data(), PROFILES)
@settings(max_examples=600, deadline=None)
def test_a_request_with_junk_somewhere_in_it_never_raises(case: LawCase, data: st.DataObject, profile: Profile) -> None:
    request = json.loads(json.dumps(case.obeys))
    spots = list(places(request))
    holder, key = data.draw(st.sampled_from(spots))
    holder[key] = data.draw(JUNK)
    for complaint in judge(request, models=models, profile=profile):
        assert envelope(complaint)["error"]["message"]


def places(value: Any) -> Any:
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


# -- cost --------------------------------------------------------------------------------------------------------------


def work(rounds: int) -> int:
    turns = [message for index in range(rounds) for message in (HELLO, calls(f"call_{index}"), result(f"call_{index}"))]
    request = ask(*turns, tools=[tool()])
    assert judge(request) == []
    return count_lines(lambda: judge(request))


def test_a_conversation_ten_times_as_long_costs_about_ten_times_as_much() -> None:
    assert work(500) < 11 * work(50)
