"""Run options of clients, in the fold and in the plan."""

import pytest
from msgspec.structs import replace

from legato.core.digests import digest_arguments
from legato.core.facts import Decided, GuardrailJudged, MessageReceived, OfferedTool, Origin, RunOptions
from legato.core.messages import find_content_digests
from legato.core.planner import AnswerCall, CheckCall, CheckOutput, RequestModel, make_plan
from legato.core.run_definitions import RunDefinitions, check_options, decode_definitions, encode_definitions
from legato.core.turn_context import ToolSpec
from legato.core.workflow_graph import ToolRules
from legato.errors import BadInput, CodecError, IllegalFact
from tests.core.fact_builders import approval_check, call, decision, fold_facts, handoff_call, handoff_taken, make_graph, opening, reply

THEIRS = RunOptions((OfferedTool("t"),), digest="d")
OTHERS = RunOptions((OfferedTool("u"),), digest="e")
TYPED = RunOptions(typed=True, digest="f")


def message(options: RunOptions | None = None, guarded: bool = False) -> MessageReceived:
    return MessageReceived(at=1, content="hi", options=options, awaits_guardrails=guarded)


def list_requests(state, *tools):
    return [(request.kind, request.for_client) for request in make_plan(state, make_graph(*tools)).requests]


def test_client_call_is_checked_then_requested() -> None:
    state = fold_facts(opening(), message(THEIRS), reply("a", 1, call()))
    assert make_plan(state, make_graph()).effects == [CheckCall(state.batch[0].ref)]
    state.apply(approval_check(2, needed=False))
    assert list_requests(state) == [("result", True)]
    assert make_plan(state, make_graph()).effects == []


def test_every_agent_has_the_clients_tools() -> None:
    facts = (opening(), message(THEIRS), reply("a", 1, handoff_call("b")), handoff_taken(2, 0, "a", "b"), reply("b", 3, call()))
    state = fold_facts(*facts, approval_check(4, needed=False))
    assert list_requests(state) == [("result", True)]


def test_next_message_ends_the_offer() -> None:
    state = fold_facts(opening(), message(THEIRS), reply("a", 1, "Yes?"), message(), reply("a", 3, call()))
    assert [type(effect) for effect in make_plan(state, make_graph()).effects] == [AnswerCall]


def test_call_keeps_the_offer_of_its_request() -> None:
    state = fold_facts(opening(), message(THEIRS), message(), reply("a", 1, call()), approval_check(3, needed=False))
    assert state.run_options == RunOptions()
    assert list_requests(state) == [("result", True)]


def test_answer_may_bring_other_tools() -> None:
    facts = (opening(), message(THEIRS), reply("a", 1, call()), approval_check(2, needed=False))
    state = fold_facts(*facts, decision(2, kind="result", verdict="answer", output="o", options=OTHERS), reply("a", 4, call("u")))
    assert state.run_options == OTHERS
    assert make_plan(state, make_graph()).effects == [CheckCall(state.batch[0].ref)]


def test_answer_without_options_keeps_the_tools() -> None:
    facts = (opening(), message(THEIRS), reply("a", 1, call()), approval_check(2, needed=False))
    state = fold_facts(*facts, decision(2, kind="result", verdict="answer", output="o"))
    assert state.run_options == THEIRS


def test_changed_options_need_new_turn_context() -> None:
    facts = (opening(), message(THEIRS), reply("a", 1, call()), approval_check(2, needed=False))
    same = fold_facts(*facts, decision(2, kind="result", verdict="answer", output="o"))
    other = fold_facts(*facts, decision(2, kind="result", verdict="answer", output="o", options=OTHERS))
    assert (same.context_digest, other.context_digest) == ("f", "")


def test_options_of_an_unchecked_message_wait() -> None:
    state = fold_facts(opening(), message(THEIRS, guarded=True))
    assert state.run_options == RunOptions()
    state.apply(GuardrailJudged(at=2, kind="input", position=1, agent="a"))
    assert state.run_options == THEIRS


def test_options_of_a_withheld_message_never_apply() -> None:
    state = fold_facts(opening(), message(THEIRS, guarded=True), GuardrailJudged(at=2, kind="input", position=1, agent="a", stop=True, reason="no"))
    assert state.run_options == RunOptions()


@pytest.mark.parametrize("own", [ToolRules("t"), ToolRules("t", deferred=True)])
def test_agents_tool_wins_over_the_clients(own: ToolRules) -> None:
    state = fold_facts(opening(), message(THEIRS), reply("a", 1, call()))
    assert CheckCall(state.batch[0].ref) not in make_plan(state, make_graph(own)).effects
    assert (("result", True)) not in list_requests(state, own)


def test_output_format_requires_a_reply_check() -> None:
    state = fold_facts(opening(), message(TYPED), reply("a", 1, "{}", awaits_checks=True))
    assert make_plan(state, make_graph()).effects == [CheckOutput(2)]
    state.apply(GuardrailJudged(at=3, kind="output", position=2, stop=True, reason="no object"))
    assert [type(effect) for effect in make_plan(state, make_graph()).effects] == [RequestModel]


def test_output_format_does_not_check_calls() -> None:
    state = fold_facts(opening(), message(TYPED), reply("a", 1, handoff_call("b")))
    assert CheckOutput(2) not in make_plan(state, make_graph()).effects


def test_required_call_requires_a_reply_check() -> None:
    required = RunOptions((OfferedTool("t"),), required=True, digest="d")
    assert make_plan(fold_facts(opening(), message(required), reply("a", 1, "No.")), make_graph()).effects == [CheckOutput(2)]


@pytest.mark.parametrize("kind", ["fork", "copy", "move"])
def test_branch_requests_the_result_under_another_id(kind: str) -> None:
    facts = (opening(), message(THEIRS), reply("a", 1, call()), approval_check(2, needed=False))
    before = make_plan(fold_facts(*facts), make_graph()).requests
    state = fold_facts(*facts, replace(opening(origin=Origin("p", 4, kind)), ledger_id="other"))
    assert list_requests(state) == [("result", True)]
    assert make_plan(state, make_graph()).requests[0].id != before[0].id
    assert state.run_options == THEIRS


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(RunOptions((OfferedTool("t"), OfferedTool("t")), digest="d"), id="one name twice"),
        pytest.param(RunOptions((OfferedTool(""),), digest="d"), id="no name"),
        pytest.param(RunOptions((OfferedTool("t"),)), id="tools without definitions"),
        pytest.param(RunOptions(typed=True), id="a format without its schema"),
        pytest.param(RunOptions(digest="d"), id="definitions of nothing"),
        pytest.param(RunOptions(required=True, typed=True, digest="d"), id="a required call of no tool"),
    ],
)
def test_illegal_options_change_nothing(options: RunOptions) -> None:
    facts = (opening(), message(THEIRS), reply("a", 1, call()), approval_check(2, needed=False))
    state = fold_facts(*facts)
    for fact in (message(options), decision(2, kind="result", verdict="answer", output="o", options=options)):
        with pytest.raises(IllegalFact, match="client"):
            state.apply(fact)
    assert (state.length, state.run_options, state.batch[0].output) == (len(facts), THEIRS, None)


def test_client_secrets_are_known_with_its_options() -> None:
    options = RunOptions((OfferedTool("t", ("pin",)),), digest="d")
    assert make_graph().find_secret_arguments("a", "t", options) == ("pin",)
    assert make_graph().find_secret_arguments("a", "t") is None
    assert make_graph(ToolRules("t")).find_secret_arguments("a", "t", options) == ()


def test_facts_name_their_definitions_as_contents() -> None:
    answer = Decided(at=1, kind="result", verdict="answer", digest=digest_arguments("{}"), options=OTHERS)
    assert find_content_digests(message(THEIRS)) == {"d"}
    assert find_content_digests(answer) == {"e"}


def test_definitions_decode_as_they_were_encoded() -> None:
    definitions = RunDefinitions((ToolSpec("t", "does it", '{"type":"object"}'),), '{"type":"object"}')
    assert decode_definitions(encode_definitions(definitions)[1]) == definitions
    with pytest.raises(CodecError, match="not the tools of a client"):
        decode_definitions(b'{"tools": 1}')


@pytest.mark.parametrize("name", ["t", "handoff_to_a"])
def test_names_that_an_agent_has_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match=f"named '{name}' of its own"):
        check_options(make_graph(ToolRules("t")), RunOptions((OfferedTool(name),), digest="d"))


def test_too_many_tools_are_refused() -> None:
    many = RunOptions(tuple(OfferedTool(f"t{number}") for number in range(127)), digest="d")
    check_options(make_graph(), many)
    with pytest.raises(BadInput, match="more than 128 tools"):
        check_options(make_graph(ToolRules("own")), many)
