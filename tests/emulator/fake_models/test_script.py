"""Scripts, function models and reply lists. The first rule of a script that applies makes the reply."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from legato.emulator.fake_models import (
    FakeReply,
    FunctionModel,
    ModelPrompt,
    PromptMessage,
    ReplyCall,
    ReplyList,
    ReplyRefusal,
    ReplyText,
    ReplyThought,
    Script,
    ScriptedCall,
    ScriptRule,
    SupportDesk,
)
from legato.errors import BadInput
from tests.emulator.fake_models.conversations import Agent, list_calls, make_prompt, make_tool, run_conversation

LOOKUP = make_tool("lookup_order", "Find an order", order_id="string")
REFUND = make_tool("refund", "Give money back", order_id="string", amount="number")
TO_REFUNDS = make_tool("handoff_to_refunds", "Refunds")
MESSAGES = (
    PromptMessage("user", "Refund A-17"),
    PromptMessage("assistant", "", (ReplyCall("lookup_order", "{}", "c1"), ReplyCall("refund", "{}", "c2"))),
    PromptMessage("tool", "shipped", call_id="c1", tool="lookup_order"),
    PromptMessage("tool", "paid 49.90", call_id="c2", tool="refund"),
)
PROMPT = ModelPrompt("responses", "gpt-5-mini", "You are the Refunds clerk.", (LOOKUP, REFUND), MESSAGES)


def join_texts(say: FakeReply) -> str:
    return " ".join(item.text for item in say.items if isinstance(item, ReplyText))


CONDITIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "none": ({}, True),
    "a part of the instructions, in any case": ({"instructions": "refunds"}, True),
    "other instructions": ({"instructions": "triage"}, False),
    "a part of what was said": ({"said": "refund a"}, True),
    "something else said": ({"said": "weather"}, False),
    "a regular expression": ({"said": r"/^refund [a-z]-\d+$/"}, True),
    "one that does not match": ({"said": "/^[0-9]+$/"}, False),
    "a tool that was given": ({"tool": "refund"}, True),
    "a tool that was not": ({"tool": "ref"}, False),
    "one of some tools": ({"tool": "/ref.*/"}, True),
    "the tool just heard": ({"after_tool": "refund"}, True),
    "another tool heard at the same time": ({"after_tool": "lookup_order"}, True),
    "a tool not heard": ({"after_tool": "weather"}, False),
    "a part of an output": ({"output": "49.90"}, True),
    "an output of the wrong tool": ({"output": "49.90", "after_tool": "lookup_order"}, False),
    "the model": ({"model": "gpt-5-mini"}, True),
    "a part of the model's name": ({"model": "gpt-5"}, False),
    "the API": ({"api": "responses"}, True),
    "another API": ({"api": "chat"}, False),
    "the turn": ({"turn": 2}, True),
    "another turn": ({"turn": 1}, False),
    "one of several turns": ({"turn": [1, 2]}, True),
    "all of several conditions": ({"turn": 2, "said": "refund", "api": "responses", "tool": "refund", "after_tool": "refund"}, True),
    "all but one": ({"turn": 2, "said": "refund", "api": "chat", "tool": "refund"}, False),
}


@pytest.mark.parametrize(("conditions", "expected"), CONDITIONS.values(), ids=CONDITIONS)
def test_rule_applies_if_all_conditions_hold(conditions: dict[str, Any], expected: bool) -> None:
    assert (Script([ScriptRule(**conditions, say="yes")]).find_rule(PROMPT) is not None) == expected


def test_first_applicable_rule_replies() -> None:
    script = Script([ScriptRule(said="weather", say="one"), ScriptRule(said="refund", say="two"), ScriptRule(say="three")])
    assert join_texts(script.reply(PROMPT)) == "two"


def test_fallback_replies_without_applicable_rule() -> None:
    model_prompt = make_prompt("Hello!")
    assert Script([ScriptRule(said="refund", say="x")]).reply(model_prompt) == SupportDesk().reply(model_prompt)
    assert join_texts(Script([], fallback=ReplyList(["from the queue"])).reply(model_prompt)) == "from the queue"


def test_rule_can_return_every_item_type() -> None:
    refund = ScriptedCall("refund", {"amount": 1, "of": ["{said}"]}, "c9")
    rule = ScriptRule(say=[ReplyThought("hm"), "One moment.", ScriptedCall("lookup_order"), refund, ReplyRefusal("No.")])
    assert Script([rule]).reply(make_prompt("Where is A-17?", LOOKUP)).items == (
        ReplyThought("hm"),
        ReplyText("One moment."),
        ReplyCall("lookup_order", '{"order_id": "A-17"}'),
        ReplyCall("refund", '{"amount": 1, "of": ["Where is A-17?"]}', "c9"),
        ReplyRefusal("No."),
    )


def test_rule_can_call_an_unknown_tool() -> None:
    assert Script([ScriptRule(say=[ScriptedCall("nowhere")])]).reply(make_prompt("Hello")).items == (ReplyCall("nowhere", "{}"),)


def test_rules_can_script_a_handoff() -> None:
    script = Script(
        [
            ScriptRule(instructions="triage", say=[ScriptedCall("handoff_to_refunds")]),
            ScriptRule(after_tool="refund", say="Done: {output}."),
            ScriptRule(instructions="refunds", say=[ScriptedCall("refund")]),
        ]
    )
    agents = {"": Agent("You are triage.", (TO_REFUNDS,)), "handoff_to_refunds": Agent("You are refunds.", (REFUND,))}
    result = run_conversation(script, "Refund 5.50 for A-17", agents, {"refund": "5.50 paid"})
    assert result.called_tools == [["handoff_to_refunds"], ["refund"]]
    assert result.last_text == "Done: 5.50 paid."


def test_calling_rule_stops_after_the_output() -> None:
    """A rule that calls a tool does not call it again once it has the output, until the user's next message."""
    script = Script([ScriptRule(said="order", say=[ScriptedCall("lookup_order")])])
    result = run_conversation(script, "My order A-17", {"": Agent("", (LOOKUP,))}, {"lookup_order": "shipped"})
    assert result.called_tools == [["lookup_order"]]
    again = run_conversation(script, "And order B-22?", {"": Agent("", (LOOKUP,))}, earlier_messages=result.messages)
    assert again.called_tools == [["lookup_order"]]


def test_rule_with_turn_ignores_earlier_outputs() -> None:
    script = Script([ScriptRule(turn=[1, 2, 3], say=[ScriptedCall("lookup_order")]), ScriptRule(say="enough")])
    result = run_conversation(script, "My order A-17", {"": Agent("", (LOOKUP,))})
    assert (len(result.called_tools), result.last_text) == (3, "enough")


def test_times_limits_a_rule_per_conversation() -> None:
    script = Script([ScriptRule(said="hello", times=2, say="Hello!"), ScriptRule(say="We have met.")])
    messages: tuple[PromptMessage, ...] = ()
    texts = []
    for words in ("hello", "hello", "what", "hello", "hello"):
        messages = (*messages, PromptMessage("user", words))
        texts.append(join_texts(script.reply(make_prompt(messages=messages))))
        messages = (*messages, PromptMessage("assistant", texts[-1]))
    assert texts == ["Hello!", "Hello!", "We have met.", "We have met.", "We have met."]
    assert join_texts(script.reply(make_prompt("hello"))) == "Hello!"  # another conversation has its own count


def test_adjacent_assistant_messages_are_one_turn() -> None:
    messages = (
        PromptMessage("user", "a"),
        PromptMessage("assistant", "b"),
        PromptMessage("assistant", "", (ReplyCall("x"),)),
        PromptMessage("tool", "c"),
        PromptMessage("user", "d"),
    )
    assert join_texts(Script([ScriptRule(turn=2, say="turn {turn}")]).reply(make_prompt(messages=messages))) == "turn 2"


def test_template_values_are_filled_in() -> None:
    rule = ScriptRule(say="{said}|{output}|{tool}|{turn}|{model}|{api}|{{said}}|{ said }|{}|{Said}")
    assert join_texts(Script([rule]).reply(PROMPT)) == "Refund A-17|paid 49.90|refund|2|gpt-5-mini|responses|{said}|{ said }|{}|{Said}"


def test_output_value_is_that_of_after_tool() -> None:
    assert join_texts(Script([ScriptRule(after_tool="lookup_order", say="{tool}: {output}")]).reply(PROMPT)) == "lookup_order: shipped"


@given(st.text() | st.sampled_from(["{output}", "{said.__class__}", "{0}", "{said!r}", "%s", "{{turn}}", "\\1"]))
def test_user_text_is_filled_in_verbatim(texts: str) -> None:
    assert join_texts(Script([ScriptRule(say="[{said}]")]).reply(make_prompt(messages=(PromptMessage("user", texts),)))) == f"[{texts}]"


def test_rule_may_have_only_a_fault() -> None:
    """A rule without `say` may have a fault or a finish; the fallback replies."""
    script = Script([ScriptRule(said="slow", fault="slow delay=1"), ScriptRule(said="cut", finish="length")], fallback=ReplyList(["words"]))
    assert (script.fault(make_prompt("slow down")), join_texts(script.reply(make_prompt("slow down")))) == ("slow delay=1", "words")
    assert (script.fault(make_prompt("cut")), script.reply(make_prompt("cut")).finish) == ("", "length")
    assert script.fault(make_prompt("else")) == ""


INVALID_RULES: dict[str, dict[str, Any]] = {
    "a turn that is none": {"turn": 0},
    "a turn that is text": {"turn": "first"},
    "no turns at all": {"turn": []},
    "a turn that is true": {"turn": True},
    "an unknown API": {"api": "gemini"},
    "an unknown finish": {"finish": "tired"},
    "no name of a tool": {"tool": ""},
    "a broken regular expression": {"said": "/(/"},
    "something that cannot be said": {"say": 5},
    "something in a list that cannot be said": {"say": ["a", 5]},
    "nothing to say": {"say": []},
    "a value that is not there": {"say": "Hello {nmae}"},
    "such a value in an argument": {"say": [ScriptedCall("x", {"a": [{"b": "{secret}"}]})]},
    "arguments that are text": {"say": [ScriptedCall("x", "{}")]},  # type: ignore[arg-type]  # meant to be wrong
    "a thought that is no text": {"say": [ReplyThought(5)]},  # type: ignore[arg-type]  # meant to be wrong
    "times that are none": {"times": 0},
    "a fault that is no text": {"fault": 5},
}


@pytest.mark.parametrize("values", INVALID_RULES.values(), ids=INVALID_RULES)
def test_invalid_rule_is_rejected_at_construction(values: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as caught:
        ScriptRule(**values)
    key = next(iter(values))
    assert f"{key!r} cannot be used" in str(caught.value)
    assert "expected" in str(caught.value)


def test_script_accepts_only_rules() -> None:
    with pytest.raises(BadInput, match="made of rules"):
        Script([{"say": "x"}])  # type: ignore[list-item]  # meant to be wrong


RULES = st.builds(
    lambda conditions, say, times: ScriptRule(**conditions, say=say, times=times),
    st.sampled_from([conditions for conditions, _ in CONDITIONS.values()]),
    st.sampled_from(["a", [ScriptedCall("lookup_order")], None, [ReplyThought("b"), "c"]]),
    st.sampled_from([None, 1, 2]),
)


@given(rules=st.lists(RULES, max_size=5), others=st.lists(st.sampled_from(["Refund", "Hello", "A-17"]), max_size=3))
def test_script_replies_are_independent_of_other_conversations(rules: list[ScriptRule], others: list[str]) -> None:
    script = Script(rules)
    first = script.reply(PROMPT)
    for texts in others:
        script.reply(replace(PROMPT, messages=(*MESSAGES, PromptMessage("user", texts))))
    assert script.reply(PROMPT) == first
    assert Script(rules).reply(PROMPT) == first


# -- function models and reply lists


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("words", (ReplyText("words"),)),
        (ReplyText("words"), (ReplyText("words"),)),
        (["a", ReplyCall("x")], (ReplyText("a"), ReplyCall("x"))),
        (FakeReply((ReplyRefusal("no"),)), (ReplyRefusal("no"),)),
        ([], ()),
    ],
)
def test_function_may_return_any_reply_form(value: Any, expected: tuple[Any, ...]) -> None:
    assert FunctionModel(lambda model_prompt: value).reply(make_prompt("Hello")).items == expected


@pytest.mark.parametrize("value", [None, 5, [5], {"text": "x"}, b"x"])
def test_invalid_function_result_is_named(value: Any) -> None:
    def my_model(model_prompt: ModelPrompt) -> Any:
        return value

    with pytest.raises(BadInput, match=r"the result of my_model\(\) is not a valid reply"):
        FunctionModel(my_model).reply(make_prompt("Hello"))


def test_async_function_is_rejected_and_closed() -> None:
    async def my_model(model_prompt: ModelPrompt) -> str:
        return "never"

    with pytest.raises(BadInput, match="without async"):
        FunctionModel(my_model).reply(make_prompt("Hello"))  # type: ignore[arg-type]  # meant to be wrong


def test_function_gets_the_model_prompt() -> None:
    assert (
        join_texts(
            FunctionModel(lambda model_prompt: f"{model_prompt.model} heard {model_prompt.last_user_text}").reply(make_prompt("Hello"))
        )
        == "m heard Hello"
    )


def test_reply_list_goes_by_conversation_turns() -> None:
    replies = ReplyList(["one", [ReplyThought("t"), ReplyCall("lookup_order", json.dumps({"order_id": "A-17"}))], "three"])
    assert join_texts(replies.reply(make_prompt("a"))) == "one"
    assert join_texts(replies.reply(make_prompt("b"))) == "one"
    messages = (PromptMessage("user", "a"), PromptMessage("assistant", "one"), PromptMessage("user", "b"))
    assert list_calls(replies.reply(make_prompt(messages=messages)))[0].tool == "lookup_order"


def test_exhausted_reply_list_raises_bad_input() -> None:
    messages = (PromptMessage("user", "a"), PromptMessage("assistant", "one"), PromptMessage("user", "b"))
    with pytest.raises(BadInput, match="there is no reply number 2"):
        ReplyList(["one"]).reply(make_prompt(messages=messages))
