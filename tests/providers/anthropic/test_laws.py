"""Every clause of the Messages law book is broken alone, with the exact answer, and obeyed."""

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

from legato.emulator.minds.base import Thought, Words
from legato.providers.rules.anthropic import betas
from legato.providers.rules.anthropic.held import ModelInfo, Nothing, Signed
from legato.providers.rules.anthropic.laws import BOOK, Profile, dropped_thinking, envelope, judge
from legato.providers.rules.anthropic.request import BETA_FIELDS, BLOCKS, FIELDS, SERVER_TOOLS
from legato.providers.rules.rule_set import Complaint
from tests.providers.anthropic.cases import CASES
from tests.providers.anthropic.world import BINDING, HELLO, VERSION, World, ask, assistant, result, set_up, text, tool, use, user
from tests.providers.lawcase import LawCase, filled
from tests.work import count_lines


class Binds(World):
    """A world with one model, which binds its thinking."""

    def model(self, name: str) -> ModelInfo | None:
        return ModelInfo(name, binds=True)


BREAKING = [case for case in CASES if not BOOK.clauses[case.clause].permits]


def verdict(case: LawCase, request: Any, *, without: Sequence[str] = (), **switches: Any) -> list[Complaint]:
    world, saved = set_up(case)
    sent = filled(request, saved)
    headers = {name: value for name, value in {**VERSION, **case.headers}.items() if name not in without}
    profile = Profile(**{**case.profile, **switches})
    return judge(sent, headers, world, profile, tokens=case.tokens, size=len(json.dumps(sent)))


def clauses(request: Any, **named: Any) -> list[str]:
    return [each.clause.id for each in judge(request, VERSION, **named)]


def test_every_clause_has_a_case() -> None:
    assert {case.clause for case in CASES} == set(BOOK.clauses)


def test_every_switch_is_a_field_of_the_profile() -> None:
    switches = {clause.switch for clause in BOOK.clauses.values() if clause.switch}
    assert switches <= {field.name for field in fields(Profile)}


@pytest.mark.parametrize("case", BREAKING, ids=str)
def test_a_request_that_breaks_one_clause_gets_exactly_its_answer(case: LawCase) -> None:
    complaints = verdict(case, case.breaks, without=case.omits)
    assert [complaint.clause.id for complaint in complaints] == [case.clause]
    assert complaints[0].status == case.status
    assert case.body is not None
    assert envelope(complaints[0], "req_1") == {**case.body, "request_id": "req_1"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_nearest_request_that_obeys_the_clause_is_accepted(case: LawCase) -> None:
    assert [str(complaint) for complaint in verdict(case, case.obeys)] == []


@pytest.mark.parametrize("case", [case for case in BREAKING if BOOK.clauses[case.clause].switch], ids=str)
def test_a_clause_whose_switch_is_off_is_not_in_force(case: LawCase) -> None:
    switch = BOOK.clauses[case.clause].switch
    off = type(getattr(Profile(), switch))()
    found = {each.clause.id for each in verdict(case, case.breaks, without=case.omits, **{switch: off})}
    assert case.clause not in found


def test_what_is_historic_or_not_certain_is_accepted_by_default() -> None:
    for case in CASES:
        if case.clause in ("M14a", "M14b", "M25"):
            assert clauses(case.breaks) == []


def test_a_request_can_be_judged_on_its_own() -> None:
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "whatever"}
    request = ask(HELLO, assistant(signed, use()), user(result()), model="any-model")
    assert clauses(request) == []
    assert clauses(ask(HELLO, assistant(use()), HELLO, model="any-model"), held=Nothing()) == ["M1"]


# -- the order of complaints -------------------------------------------------------------------------------------------

WRONG = {
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


def test_the_fields_are_judged_in_the_order_that_was_measured() -> None:
    found = judge(dict(reversed(WRONG.items())), VERSION)
    assert [each.path for each in found] == list(WRONG)


def test_the_phases_complain_in_their_order() -> None:
    cached = [text(str(number), cache_control={"type": "ephemeral"}) for number in range(5)]
    thinking = assistant({"type": "thinking", "thinking": "Hm.", "signature": "made up"}, use())
    end = assistant(text("It is"))
    request: Any = ask(user(*cached), thinking, HELLO, assistant(), end, model="no-such-model", zzz=1)
    request |= {"tool_choice": {"type": "any"}}
    repairs: list[tuple[str, dict[str, Any]]] = [
        ("M20", {"zzz": None}),
        ("M23", {"model": "claude-sonnet-5"}),
        ("M19c", {"tool_choice": None}),
        ("M13d", {"messages": [user(*cached), thinking, HELLO, end]}),
        ("M1", {"messages": [user(*cached), thinking, user(result()), end]}),
        ("M8", {"messages": [user(*cached), assistant(use()), user(result()), end]}),
        ("M17", {"messages": [user(*cached), assistant(use()), user(result())]}),
        ("M18", {"messages": [HELLO]}),
        ("M22", {"model": "claude-haiku-4-5"}),
    ]
    assert [each.clause.id for each in judge(request, {}, World())] == ["M21"]
    messages = request["messages"]
    request["messages"] = [messages[0], messages[1], messages[2], assistant(), user(text("Well?")), end]
    for clause, repair in repairs:
        tokens = 2_000_000 if "claude" in request["model"] else 0
        assert [each.clause.id for each in judge(request, VERSION, World(), tokens=tokens)] == [clause]
        request = {name: value for name, value in {**request, **repair}.items() if name != "zzz" or value is not None}
    assert judge(request, VERSION, World()) == []


def test_a_fault_in_an_earlier_message_comes_first() -> None:
    request = ask(HELLO, assistant(use("a")), user(result("b")), assistant(use("c")), HELLO)
    assert clauses(request) == ["M1", "M2", "M1"]


# -- what the provider's own library sends and receives ----------------------------------------------------------------

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


def test_a_reply_of_the_api_can_be_sent_back_as_the_sdk_dumps_it() -> None:
    message = Message.model_validate(REPLY)
    for options in ({}, {"exclude_none": True}, {"exclude_unset": True}):
        content = [block.model_dump(**options) for block in message.content]
        assert clauses(ask(HELLO, {"role": "assistant", "content": content}, user(result("toolu_1")))) == []


def tags(union: Any) -> set[str]:
    found: set[str] = set()
    for member in get_args(union):
        annotations = getattr(member, "__annotations__", {})
        found |= {word for word in str(annotations.get("type")).replace('"', "'").split("'") if word and word.isidentifier()}
    return found


def test_every_type_of_block_and_tool_that_the_sdk_has_is_known() -> None:
    blocks = tags(beta_content_block_param.BetaContentBlockParam)
    tools = tags(tool_union_param.ToolUnionParam) | tags(beta_tool_union_param.BetaToolUnionParam)
    noise = {"Required", "Literal", "Optional", "ForwardRef", "None"}
    assert {"text", "thinking", "compaction"} <= blocks
    assert blocks - noise <= set(BLOCKS)
    assert {"bash_20250124", "custom"} <= tools
    assert tools - noise <= {*SERVER_TOOLS, "custom"}


@pytest.mark.parametrize("field", BETA_FIELDS)
def test_a_field_of_a_beta_needs_that_beta(field: str) -> None:
    """Another beta does not open it, and what it opens has a shape."""
    others = [beta for beta in betas.ALL.split(",") if field not in betas.opened_by([beta])]
    (opener, *_) = betas.FIELDS[field]
    assert clauses(ask(**{field: 1})) == ["M20"]
    assert [each.clause.id for each in judge(ask(**{field: 1}), {**VERSION, "anthropic-beta": ",".join([*others, "any"])})] == ["M20"]
    assert [each.clause.id[:2] for each in judge(ask(**{field: 1}), {**VERSION, "anthropic-beta": f"{opener}-2027-01-01"})] == ["MS"]


def test_every_field_and_beta_of_the_sdk_is_known() -> None:
    fields = message_create_params.MessageCreateParamsBase.__annotations__.keys() - {"betas"}
    assert fields <= {*FIELDS, *BETA_FIELDS}
    words = " ".join(map(str, get_args(get_args(AnthropicBetaParam)[1])))
    assert all(opener in words for openers in {**betas.FIELDS, **betas.MEMBERS}.values() for opener in openers)


def test_a_version_that_is_no_date_is_taken_for_an_old_one() -> None:
    assert judge(ask(temperature=1), {"anthropic-version": "REDACTED"}) == []


def test_the_names_of_headers_may_be_written_in_any_case() -> None:
    assert judge(ask(), {"Anthropic-Version": "2023-06-01"}) == []


def test_half_a_surrogate_pair_in_a_request_does_not_reach_the_answer() -> None:
    complaint = judge(ask(**{"\ud800": 1}), VERSION)[0]
    assert json.dumps(envelope(complaint, "req_1"), ensure_ascii=False).encode()


def test_an_input_that_nests_deeper_than_pythons_frames_is_judged() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    world = Binds()
    before = ask(HELLO, assistant(use(input={"deep": deep})), user(result()), model="m")
    reply = world.reply(before, [Thought("Hm."), Words("There.")])
    assert clauses({**before, "messages": [*before["messages"], reply, HELLO]}, held=world) == []
    while deep:  # taken apart by hand: freeing it at once would recurse
        deep = deep.pop()


# -- junk --------------------------------------------------------------------------------------------------------------

MEMBERS = ["role", "content", "type", "id", "name", "text", "input", "tool_use_id", "thinking", "signature", "data", "cache_control"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["user", "assistant", "system", "text", "thinking", "tool_use", "tool_result", "tool", "enabled", "base64"]),
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*MEMBERS, *FIELDS]) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=20,
)
PROFILES = st.builds(Profile, **{field.name: st.booleans() if field.type is bool else st.sampled_from([0, 4]) for field in fields(Profile)})
HEADERS = st.sampled_from([{}, VERSION, {**VERSION, **BINDING}])


@given(JUNK, HEADERS, PROFILES)
@settings(max_examples=300, deadline=None)
def test_junk_never_raises(request: Any, headers: dict[str, str], profile: Profile) -> None:
    for complaint in judge(request, headers, World(), profile):
        assert envelope(complaint, "req_1")["error"]["message"]


@given(st.sampled_from(CASES), st.data(), PROFILES)
@settings(max_examples=600, deadline=None)
def test_a_request_with_junk_somewhere_in_it_never_raises(case: LawCase, data: st.DataObject, profile: Profile) -> None:
    world, saved = set_up(case)
    request = json.loads(json.dumps(filled(case.obeys, saved)))
    holder, key = data.draw(st.sampled_from(list(places(request))))
    holder[key] = data.draw(JUNK)
    headers = {**VERSION, **case.headers}
    for complaint in judge(request, headers, world, profile):
        assert envelope(complaint, "req_1")["error"]["message"]
    if isinstance(request, dict):
        dropped_thinking(request, headers, world)


def places(value: Any) -> Any:
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


# -- cost --------------------------------------------------------------------------------------------------------------


def work(rounds: int) -> int:
    world = Binds()
    messages: list[Any] = []
    frame = ask(model="m", system="You are the desk.", tools=[tool()])
    for number in range(rounds):
        messages.append(HELLO)
        thought = {"type": "thinking", "thinking": "Hm.", "signature": f"s{number}"}
        messages += [assistant(thought, use(f"toolu_{number}")), user(result(f"toolu_{number}"))]
    world.signed = dict.fromkeys((f"s{number}" for number in range(rounds)), Signed("", "", ""))
    request = {**frame, "messages": messages}
    assert judge(request, VERSION, world) == []
    return count_lines(lambda: judge(request, VERSION, world))


def test_a_conversation_ten_times_as_long_costs_about_ten_times_as_much() -> None:
    assert work(300) < 11 * work(30)
