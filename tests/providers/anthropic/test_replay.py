"""Which thinking goes back to the Messages API: all that the law allows, and never more."""

from __future__ import annotations

from typing import Any

from legato.core.facts import Call, Hosted, Words
from legato.core.model_reply import Reply
from legato.providers.formats.anthropic.blocks import reply_blocks
from legato.providers.formats.anthropic.compile import compile_request
from legato.providers.formats.anthropic.past import FOREIGN, MOVED, REFUSED
from legato.providers.formats.options import Options
from tests.providers.anthropic.talks import (
    CITED,
    FREE,
    HIDDEN,
    Desk,
    asked,
    blocks_of,
    frame,
    origin_of,
    replied,
    said,
    search,
    thinks,
    thoughts,
    use,
    words,
)


def test_thinking_goes_back_within_a_frame_as_it_came() -> None:
    desk = Desk.of("a").say()
    desk.turn("a", thinks("one"), HIDDEN, use("t1"))
    desk.turn("a", thinks("two"), words("Done."))
    body = desk.say("More").ask("a")
    assert thoughts(body) == ["one", "two"]
    assert len(blocks_of(body, "redacted_thinking")) == 1
    assert desk.compiled is not None
    assert desk.compiled.reasoning
    assert desk.compiled.losses == ()


def test_a_handoff_drops_bound_thinking_and_the_way_back_restores_ones_own() -> None:
    desk = Desk.of("a", "b").say()
    desk.turn("a", thinks("a1"), use("t1"))
    assert thoughts(desk.turn("b", thinks("b1"), use("t2"))) == []
    assert thoughts(desk.turn("b", thinks("b2"), use("t3"))) == ["b1"]
    assert thoughts(desk.turn("a", thinks("a2"), use("t4"))) == ["a1"]
    assert thoughts(desk.turn("a", thinks("a3"), words("Done."))) == ["a1", "a2"]
    assert thoughts(desk.say("On").ask("b")) == ["b1", "b2"]
    assert thoughts(desk.ask("a")) == ["a1", "a2", "a3"]


def test_a_loss_is_told_by_the_first_reply_that_suffers_it_and_no_more() -> None:
    desk = Desk.of("a", "b").say()
    desk.turn("a", thinks("a1"), use("t1"))
    told = []
    for number in range(2):
        desk.turn("b", thinks("b"), use(f"b{number}"))
        assert desk.groups[-1].fact is not None
        told.append(desk.groups[-1].fact.losses)
    assert told == [(f"reasoning of a: {MOVED}",), ()]


def test_a_changed_frame_drops_bound_thinking() -> None:
    desk = Desk.of("a").say()
    desk.turn("a", thinks("a1"), words("Hi."))
    desk.say("More")
    desk.frames["a"] = frame("a", "tool_of_a", instructions="It is Tuesday.")
    assert thoughts(desk.ask("a")) == []
    desk.frames["a"] = frame("a", "tool_of_a", "another_tool")
    assert thoughts(desk.ask("a")) == []
    desk.frames["a"] = frame("a", "tool_of_a")
    assert thoughts(desk.ask("a")) == ["a1"]


def test_a_changed_history_drops_the_bound_thinking_after_the_change_alone() -> None:
    desk = Desk.of("a").say("One")
    desk.turn("a", thinks("a1"), words("First."))
    desk.say("Two")
    desk.turn("a", thinks("a2"), words("Second."))
    desk.say("Three")
    assert thoughts(desk.ask("a")) == ["a1", "a2"]
    assert thoughts(desk.ask("a", view=[*desk.groups[:2], *desk.groups[3:]])) == ["a1"]
    assert thoughts(desk.ask("a", view=desk.groups[1:])) == []


def test_thinking_that_is_not_bound_goes_back_wherever_its_model_is() -> None:
    desk = Desk.of("a", "b", model=FREE, effort=None, thinking_tokens=1024).say()
    desk.turn("a", thinks("a1"), use("t1"))
    body = desk.turn("b", thinks("b1"), use("t2"))
    assert thoughts(body) == ["a1"]
    assert body["thinking"]["type"] == "enabled"
    assert thoughts(desk.ask("a")) == ["a1", "b1"]


def test_thinking_of_another_model_stays_behind() -> None:
    desk = Desk.of("a", "b")
    desk.models["b"] = Options(model="claude-sonnet-5", effort="low")
    desk.say().turn("a", thinks("a1"), use("t1"))
    assert thoughts(desk.ask("b")) == []
    assert desk.compiled is not None
    assert desk.compiled.losses == (f"reasoning of a: {FOREIGN}",)


def test_a_model_with_a_budget_does_not_think_in_a_loop_that_began_without() -> None:
    desk = Desk.of("a", "b", effort=None, thinking_tokens=1024).say()
    desk.turn("a", thinks("a1"), use("t1"))
    assert desk.turn("b", words("Let me see."), use("t2"))["thinking"] == {"type": "disabled"}
    assert desk.compiled is not None
    assert any(loss.startswith("thinking of b: off") for loss in desk.compiled.losses)
    assert desk.say("And?").turn("b", use("t3"))["thinking"] == {"type": "disabled"}  # the user's words stand in the same message
    desk.turn("b", words("Done."))
    assert desk.say("Thanks").ask("b")["thinking"]["type"] == "enabled"


def test_after_a_refusal_no_thinking_from_before_goes_out_again() -> None:
    desk = Desk.of("a").say()
    desk.turn("a", thinks("a1"), use("t1"))
    body = desk.turn("a", thinks("a2"), use("t2"), reasoning=False)
    assert thoughts(body) == []
    assert desk.compiled is not None
    assert desk.compiled.losses == (f"reasoning of a: {REFUSED}",)
    assert thoughts(desk.turn("a", thinks("a3"), words("Done."))) == ["a2"]
    assert thoughts(desk.say("More").ask("a")) == ["a2", "a3"]


def test_who_does_not_want_thinking_replayed_gets_none() -> None:
    desk = Desk.of("a", replay_reasoning=False).say()
    desk.turn("a", thinks("a1"), use("t1"))
    assert thoughts(desk.ask("a")) == []
    assert desk.compiled is not None
    assert not desk.compiled.reasoning


def test_thinking_after_which_nothing_came_is_left_out() -> None:
    desk = Desk.of("a").say()
    desk.turn("a", words("So"), thinks("cut"))
    assert [block["type"] for _, block in blocks_of(desk.say("Go on").ask("a"))] == ["text", "text", "text"]


def test_thinking_after_a_call_whose_id_had_to_be_replaced_is_left_out() -> None:
    desk = Desk.of("a").say()
    desk.turn("a", thinks("one"), use("same"))
    desk.turn("a", thinks("two"), use("same"), thinks("three"), use("other"))
    assert thoughts(desk.ask("a")) == ["one"]


def test_searches_and_citations_go_back_to_where_they_were_made_and_only_there() -> None:
    desk = Desk.of("a", "b").say()
    desk.turn("a", thinks("one"), *search(), thinks("two"), words("Found it.", citations=CITED), use("t1"))
    body = desk.ask("a")
    assert thoughts(body) == ["one", "two"]
    assert [block["type"] for role, block in blocks_of(body) if role == "assistant"] == [
        "thinking",
        "server_tool_use",
        "web_search_tool_result",
        "thinking",
        "text",
        "tool_use",
    ]
    assert blocks_of(body, "text")[1][1]["citations"] == CITED
    other = desk.ask("b")
    assert [block["type"] for role, block in blocks_of(other) if role == "assistant"] == ["text", "tool_use"]
    assert "citations" not in blocks_of(other, "text")[1][1]
    assert desk.compiled is not None
    assert [loss.partition(":")[0] for loss in desk.compiled.losses] == [
        "reasoning of a",
        "server_tool_use of a",
        "web_search_tool_result of a",
        "citations of a",
    ]


def test_a_search_without_its_result_is_not_sent_back() -> None:
    desk = Desk.of("a").say()
    desk.turn("a", search()[0], words("I was cut"))
    assert [block["type"] for role, block in blocks_of(desk.say("Go on").ask("a")) if role == "assistant"] == ["text"]


def test_what_another_provider_did_by_itself_is_told_as_a_loss() -> None:
    reply = Reply(items=(Hosted("web_search_call", '{"type":"web_search_call"}'), Words("So.")), origin="responses x gpt-5")
    groups = [said(0, "Hi"), replied(3, "a", reply), said(6, "Well?")]
    options = Options(model="claude-sonnet-5")
    made = compile_request(asked(frame("a"), groups), options, origin_of(options), stream=False)
    assert made.losses == ("web_search_call of a: only the provider that ran it can take it back",)


# -- code that the provider runs ---------------------------------------------------------------------------------------

CODE = {"type": "code_execution_20260120", "name": "code_execution"}
RUN = {"type": "server_tool_use", "id": "srv_1", "name": "code_execution", "input": {"code": "x = handoff()"}}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "srv_1", "content": {"type": "code_execution_result", "stdout": "7"}}
BY_CODE = {"caller": {"type": "code_execution_20260120", "tool_id": "srv_1"}}


def sent_by_assistant(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for role, block in blocks_of(body) if role == "assistant"]


def test_the_next_request_runs_code_where_the_last_one_did() -> None:
    desk = Desk.of("a", "b", hosted=(CODE,)).say()
    assert "container" not in desk.turn("a", words("One."), container="container_1")
    assert desk.say().turn("a", words("Two."))["container"] == "container_1"
    assert desk.say().turn("b", words("Three."), container="container_2")["container"] == "container_1"
    assert desk.say().ask("a")["container"] == "container_2"
    assert "container" not in desk.ask("a", reuse=False)
    assert desk.compiled is not None
    assert desk.compiled.losses == (f"container of a: {REFUSED}",)


def test_a_container_stays_with_who_made_it_and_with_tools_that_use_one() -> None:
    desk = Desk.of("a", "b", hosted=(CODE,)).say()
    desk.turn("a", words("One."), container="container_1")
    desk.models["b"] = Options(model="claude-sonnet-5", hosted=(CODE,))
    assert "container" not in desk.say().ask("b")
    desk.models["b"] = Options(model=desk.models["a"].model)
    assert "container" not in desk.ask("b")


def test_a_container_that_the_caller_names_is_the_one_that_is_used() -> None:
    skills = [{"type": "anthropic", "skill_id": "pptx"}]
    for given, sent in (("mine", "mine"), ({"skills": skills}, {"skills": skills, "id": "container_1"}), ({"id": "mine"}, {"id": "mine"})):
        desk = Desk.of("a", hosted=(CODE,), extra={"container": given}).say()
        assert desk.turn("a", words("One."), container="container_1")["container"] == given
        assert desk.say().ask("a")["container"] == sent


def test_code_that_waits_for_a_call_goes_on_with_its_output() -> None:
    """The call comes from code that has no result yet: both go back as they came, and the result comes with the next reply."""
    desk = Desk.of("a", hosted=(CODE,)).say()
    desk.turn("a", words("Let me see."), RUN, use("t1") | BY_CODE, container="container_1")
    body = desk.ask("a")
    assert sent_by_assistant(body) == [words("Let me see."), RUN, use("t1") | BY_CODE]
    assert body["container"] == "container_1"
    desk.turn("a", RAN, words("Seven."))
    assert sent_by_assistant(desk.say().ask("a"))[3:] == [RAN, words("Seven.")]


def test_code_that_nothing_went_on_with_is_not_sent_back() -> None:
    desk = Desk.of("a", "b", hosted=(CODE,)).say()
    desk.turn("a", RUN, use("t1") | BY_CODE, container="container_1")
    desk.turn("b", words("I take over."))
    assert [block["type"] for block in sent_by_assistant(desk.say().ask("a"))] == ["tool_use", "text"]
    desk.turn("a", words("Back."))
    assert [block["type"] for block in sent_by_assistant(desk.say().ask("a"))] == ["tool_use", "text", "text"]


def test_code_whose_container_is_not_known_is_not_sent_back() -> None:
    desk = Desk.of("a", hosted=(CODE,)).say()
    desk.turn("a", thinks("one"), RUN, use("t1") | BY_CODE)
    assert sent_by_assistant(desk.ask("a")) == [use("t1")]
    desk = Desk.of("a", hosted=(CODE,)).say()
    desk.turn("a", RUN, use("t1") | BY_CODE, container="container_1")
    assert sent_by_assistant(desk.ask("a", reuse=False)) == [use("t1")]


def test_a_search_that_waits_for_a_call_goes_on_with_its_output() -> None:
    use_of_search, found = search()
    desk = Desk.of("a").say()
    desk.turn("a", use_of_search, use("t1"))
    assert sent_by_assistant(desk.ask("a")) == [use_of_search, use("t1")]
    desk.turn("a", thinks("Aha."), found, thinks("Hm."), words("So."))
    body = desk.say().ask("a")
    assert found in sent_by_assistant(body)
    assert thoughts(body) == ["Aha.", "Hm."]


def test_another_agent_gets_a_call_without_the_code_that_made_it() -> None:
    desk = Desk.of("a", "b", hosted=(CODE,)).say()
    desk.turn("a", RUN, use("t1") | BY_CODE, container="container_1")
    desk.turn("a", RAN, words("Seven."))
    assert sent_by_assistant(desk.say().ask("b")) == [use("t1"), words("Seven.")]


def test_code_whose_result_cannot_go_back_does_not_either() -> None:
    desk = Desk.of("a", hosted=(CODE,)).say()
    desk.turn("a", RUN, use("t1") | BY_CODE, container="container_1")
    desk.turn("a", RAN | {"tool_use_id": "srv_1"}, {"type": "container_upload"} | {"cache_control": "odd"}, words("Seven."))
    assert sent_by_assistant(desk.say().ask("a")) == [use("t1"), words("Seven.")]


def test_what_is_recorded_of_a_call_cannot_stand_in_for_the_call() -> None:
    forged = Call("handoff", "{}", "t1", extra='{"id": "t9", "caller": {"type": "direct"}}')
    odd = Call("handoff", "{}", "t2", extra="no JSON")
    blocks = reply_blocks([forged, odd], "a", 3, [])
    assert [(block["id"], "caller" in block) for block in blocks] == [("t1", True), ("t2", False)]


def test_an_output_names_the_set_of_tools_that_its_call_named() -> None:
    desk = Desk.of("a").say()
    desk.turn("a", use("t1") | {"toolset_name": "computer"})
    ((_, result),) = blocks_of(desk.ask("a"), "tool_result")
    assert result["toolset_name"] == "computer"


def test_a_summary_that_the_provider_made_goes_back_as_it_came() -> None:
    summary = {"type": "compaction", "content": "They want a teapot.", "encrypted_content": "c2VhbA=="}
    desk = Desk.of("a", "b").say()
    desk.turn("a", summary, words("A teapot, then."))
    assert sent_by_assistant(desk.say().ask("a")) == [summary, words("A teapot, then.")]
    assert sent_by_assistant(desk.ask("b")) == [words("A teapot, then.")]
