"""What a client asks of a run, in the fold and in the plan."""

import pytest
from msgspec.structs import replace

from legato.core.digests import digest_arguments
from legato.core.facts import Decided, GuardrailJudged, MessageReceived, OfferedTool, Origin, RunOptions
from legato.core.messages import contents_of
from legato.core.planner import Admit, Answer, CallModel, JudgeOutput, plan
from legato.core.run_options import RunDefinitions, check_options, decode_definitions, encode_definitions
from legato.core.turn_context import ToolSpec
from legato.core.workflow_graph import ToolRules
from legato.errors import BadInput, CodecError, IllegalFact
from tests.core.ledgers import answered, call, decided, folded, gated, graph, handed_off, handoff, opened

THEIRS = RunOptions((OfferedTool("t"),), digest="d")
OTHERS = RunOptions((OfferedTool("u"),), digest="e")
TYPED = RunOptions(typed=True, digest="f")


def said(options: RunOptions | None = None, guarded: bool = False) -> MessageReceived:
    return MessageReceived(at=1, content="hi", options=options, guarded=guarded)


def asked(state, *tools):
    return [(request.kind, request.for_client) for request in plan(state, graph(*tools)).requests]


def test_a_call_of_a_client_is_admitted_and_then_asked_for() -> None:
    state = folded(opened(), said(THEIRS), answered("a", 1, call()))
    assert plan(state, graph()).effects == [Admit(state.batch[0].ref)]
    state.apply(gated(2, needed=False))
    assert asked(state) == [("result", True)]
    assert plan(state, graph()).effects == []


def test_every_agent_of_the_session_has_the_tools() -> None:
    facts = (opened(), said(THEIRS), answered("a", 1, handoff("b")), handed_off(2, 0, "a", "b"), answered("b", 3, call()))
    state = folded(*facts, gated(4, needed=False))
    assert asked(state) == [("result", True)]


def test_the_next_message_ends_the_offer() -> None:
    state = folded(opened(), said(THEIRS), answered("a", 1, "Yes?"), said(), answered("a", 3, call()))
    assert [type(effect) for effect in plan(state, graph()).effects] == [Answer]


def test_a_call_keeps_the_offer_of_its_request() -> None:
    state = folded(opened(), said(THEIRS), said(), answered("a", 1, call()), gated(3, needed=False))
    assert state.run_options == RunOptions()
    assert asked(state) == [("result", True)]


def test_an_answer_brings_other_tools() -> None:
    facts = (opened(), said(THEIRS), answered("a", 1, call()), gated(2, needed=False))
    state = folded(*facts, decided(2, kind="result", verdict="answer", output="o", options=OTHERS), answered("a", 4, call("u")))
    assert state.run_options == OTHERS
    assert plan(state, graph()).effects == [Admit(state.batch[0].ref)]


def test_an_answer_without_options_keeps_the_tools() -> None:
    facts = (opened(), said(THEIRS), answered("a", 1, call()), gated(2, needed=False))
    state = folded(*facts, decided(2, kind="result", verdict="answer", output="o"))
    assert state.run_options == THEIRS


def test_changed_options_ask_for_a_new_frame() -> None:
    facts = (opened(), said(THEIRS), answered("a", 1, call()), gated(2, needed=False))
    same = folded(*facts, decided(2, kind="result", verdict="answer", output="o"))
    other = folded(*facts, decided(2, kind="result", verdict="answer", output="o", options=OTHERS))
    assert (same.frame, other.frame) == ("f", "")


def test_options_of_a_message_wait_with_it_for_the_guardrail() -> None:
    state = folded(opened(), said(THEIRS, guarded=True))
    assert state.run_options == RunOptions()
    state.apply(GuardrailJudged(at=2, kind="input", position=1, agent="a"))
    assert state.run_options == THEIRS


def test_options_of_a_withheld_message_are_never_in_force() -> None:
    state = folded(opened(), said(THEIRS, guarded=True), GuardrailJudged(at=2, kind="input", position=1, agent="a", stop=True, words="no"))
    assert state.run_options == RunOptions()


@pytest.mark.parametrize("own", [ToolRules("t"), ToolRules("t", deferred=True)])
def test_a_tool_of_the_agent_goes_before_the_clients(own: ToolRules) -> None:
    state = folded(opened(), said(THEIRS), answered("a", 1, call()))
    assert Admit(state.batch[0].ref) not in plan(state, graph(own)).effects
    assert (("result", True)) not in asked(state, own)


def test_a_format_has_the_answer_judged() -> None:
    state = folded(opened(), said(TYPED), answered("a", 1, "{}", guarded=True))
    assert plan(state, graph()).effects == [JudgeOutput(2)]
    state.apply(GuardrailJudged(at=3, kind="output", position=2, stop=True, words="no object"))
    assert [type(effect) for effect in plan(state, graph()).effects] == [CallModel]


def test_a_format_does_not_judge_calls() -> None:
    state = folded(opened(), said(TYPED), answered("a", 1, handoff("b")))
    assert JudgeOutput(2) not in plan(state, graph()).effects


def test_a_required_call_has_words_judged() -> None:
    required = RunOptions((OfferedTool("t"),), required=True, digest="d")
    assert plan(folded(opened(), said(required), answered("a", 1, "No.")), graph()).effects == [JudgeOutput(2)]


@pytest.mark.parametrize("kind", ["fork", "copy", "move"])
def test_a_branch_asks_for_the_result_under_another_id(kind: str) -> None:
    facts = (opened(), said(THEIRS), answered("a", 1, call()), gated(2, needed=False))
    before = plan(folded(*facts), graph()).requests
    state = folded(*facts, replace(opened(origin=Origin("p", 4, kind)), ledger="other"))
    assert asked(state) == [("result", True)]
    assert plan(state, graph()).requests[0].id != before[0].id
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
    facts = (opened(), said(THEIRS), answered("a", 1, call()), gated(2, needed=False))
    state = folded(*facts)
    for fact in (said(options), decided(2, kind="result", verdict="answer", output="o", options=options)):
        with pytest.raises(IllegalFact, match="client"):
            state.apply(fact)
    assert (state.length, state.run_options, state.batch[0].output) == (len(facts), THEIRS, None)


def test_secrets_of_a_client_are_known_where_it_offered_them() -> None:
    options = RunOptions((OfferedTool("t", ("pin",)),), digest="d")
    assert graph().secrets("a", "t", options) == ("pin",)
    assert graph().secrets("a", "t") is None
    assert graph(ToolRules("t")).secrets("a", "t", options) == ()


def test_definitions_are_contents_of_their_facts() -> None:
    answer = Decided(at=1, kind="result", verdict="answer", digest=digest_arguments("{}"), options=OTHERS)
    assert contents_of(said(THEIRS)) == {"d"}
    assert contents_of(answer) == {"e"}


def test_definitions_are_read_as_they_were_written() -> None:
    definitions = RunDefinitions((ToolSpec("t", "does it", '{"type":"object"}'),), '{"type":"object"}')
    assert decode_definitions(encode_definitions(definitions)[1]) == definitions
    with pytest.raises(CodecError, match="not the tools of a client"):
        decode_definitions(b'{"tools": 1}')


@pytest.mark.parametrize("name", ["t", "handoff_to_a"])
def test_names_that_an_agent_has_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match=f"named '{name}' of its own"):
        check_options(graph(ToolRules("t")), RunOptions((OfferedTool(name),), digest="d"))


def test_too_many_tools_are_refused() -> None:
    many = RunOptions(tuple(OfferedTool(f"t{number}") for number in range(127)), digest="d")
    check_options(graph(), many)
    with pytest.raises(BadInput, match="more than 128 tools"):
        check_options(graph(ToolRules("own")), many)
