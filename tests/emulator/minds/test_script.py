"""A script's rules: by instructions, turn, what was said, tools, outputs, model and API; the first that applies speaks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from legato.emulator.minds import Call, Called, Desk, Heard, Prompt, Queue, Refused, Rule, Say, Script, Thought, Use, Words
from legato.errors import BadInput
from tests.emulator.minds.conversations import Agent, prompt, talk, tool, uses

LOOKUP = tool("lookup_order", "Find an order", order_id="string")
REFUND = tool("refund", "Give money back", order_id="string", amount="number")
TO_REFUNDS = tool("handoff_to_refunds", "Refunds")
HEARD = (
    Heard("user", "Refund A-17"),
    Heard("assistant", "", (Use("lookup_order", "{}", "c1"), Use("refund", "{}", "c2"))),
    Heard("tool", "shipped", call="c1", tool="lookup_order"),
    Heard("tool", "paid 49.90", call="c2", tool="refund"),
)
ASKED = Prompt("responses", "gpt-5-mini", "You are the Refunds clerk.", (LOOKUP, REFUND), HEARD)


def text(say: Say) -> str:
    return " ".join(item.text for item in say.items if isinstance(item, Words))


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
def test_a_rule_applies_if_all_its_conditions_hold(conditions: dict[str, Any], expected: bool) -> None:
    assert (Script([Rule(**conditions, say="yes")]).rule_for(ASKED) is not None) == expected


def test_the_first_rule_that_applies_speaks() -> None:
    script = Script([Rule(said="weather", say="one"), Rule(said="refund", say="two"), Rule(say="three")])
    assert text(script.reply(ASKED)) == "two"


def test_where_no_rule_applies_the_fallback_speaks() -> None:
    asked = prompt("Hello!")
    assert Script([Rule(said="refund", say="x")]).reply(asked) == Desk().reply(asked)
    assert text(Script([], fallback=Queue(["from the queue"])).reply(asked)) == "from the queue"


def test_a_rule_can_think_speak_call_and_refuse() -> None:
    refund = Call("refund", {"amount": 1, "of": ["{said}"]}, "c9")
    rule = Rule(say=[Thought("hm"), "One moment.", Call("lookup_order"), refund, Refused("No.")])
    assert Script([rule]).reply(prompt("Where is A-17?", LOOKUP)).items == (
        Thought("hm"),
        Words("One moment."),
        Use("lookup_order", '{"order_id": "A-17"}'),
        Use("refund", '{"amount": 1, "of": ["Where is A-17?"]}', "c9"),
        Refused("No."),
    )


def test_a_tool_that_the_model_was_not_given_can_be_called_all_the_same() -> None:
    assert Script([Rule(say=[Call("nowhere")])]).reply(prompt("Hello")).items == (Use("nowhere", "{}"),)


def test_a_conversation_with_a_handoff_is_written_as_rules() -> None:
    script = Script(
        [
            Rule(instructions="triage", say=[Call("handoff_to_refunds")]),
            Rule(after_tool="refund", say="Done: {output}."),
            Rule(instructions="refunds", say=[Call("refund")]),
        ]
    )
    agents = {"": Agent("You are triage.", (TO_REFUNDS,)), "handoff_to_refunds": Agent("You are refunds.", (REFUND,))}
    told = talk(script, "Refund 5.50 for A-17", agents, {"refund": "5.50 paid"})
    assert told.calls == [["handoff_to_refunds"], ["refund"]]
    assert told.words == "Done: 5.50 paid."


def test_a_rule_that_calls_a_tool_does_not_call_it_again_when_it_has_the_output() -> None:
    script = Script([Rule(said="order", say=[Call("lookup_order")])])
    told = talk(script, "My order A-17", {"": Agent("", (LOOKUP,))}, {"lookup_order": "shipped"})
    assert told.calls == [["lookup_order"]]
    again = talk(script, "And order B-22?", {"": Agent("", (LOOKUP,))}, begin=told.heard)
    assert again.calls == [["lookup_order"]]


def test_a_rule_with_a_turn_calls_at_that_turn_whatever_was_heard() -> None:
    script = Script([Rule(turn=[1, 2, 3], say=[Call("lookup_order")]), Rule(say="enough")])
    told = talk(script, "My order A-17", {"": Agent("", (LOOKUP,))})
    assert (len(told.calls), told.words) == (3, "enough")


def test_a_rule_is_used_as_often_in_a_conversation_as_it_may_be() -> None:
    script = Script([Rule(said="hello", times=2, say="Hello!"), Rule(say="We have met.")])
    heard: tuple[Heard, ...] = ()
    said = []
    for words in ("hello", "hello", "what", "hello", "hello"):
        heard = (*heard, Heard("user", words))
        said.append(text(script.reply(prompt(heard=heard))))
        heard = (*heard, Heard("assistant", said[-1]))
    assert said == ["Hello!", "Hello!", "We have met.", "We have met.", "We have met."]
    assert text(script.reply(prompt("hello"))) == "Hello!"  # another conversation has its own count


def test_what_is_said_without_a_pause_is_one_turn() -> None:
    heard = (Heard("user", "a"), Heard("assistant", "b"), Heard("assistant", "", (Use("x"),)), Heard("tool", "c"), Heard("user", "d"))
    assert text(Script([Rule(turn=2, say="turn {turn}")]).reply(prompt(heard=heard))) == "turn 2"


def test_a_text_may_name_some_values() -> None:
    rule = Rule(say="{said}|{output}|{tool}|{turn}|{model}|{api}|{{said}}|{ said }|{}|{Said}")
    assert text(Script([rule]).reply(ASKED)) == "Refund A-17|paid 49.90|refund|2|gpt-5-mini|responses|{said}|{ said }|{}|{Said}"


def test_the_output_named_is_that_of_the_tool_the_rule_waits_for() -> None:
    assert text(Script([Rule(after_tool="lookup_order", say="{tool}: {output}")]).reply(ASKED)) == "lookup_order: shipped"


@given(st.text() | st.sampled_from(["{output}", "{said.__class__}", "{0}", "{said!r}", "%s", "{{turn}}", "\\1"]))
def test_what_people_say_is_put_in_as_it_is(said: str) -> None:
    assert text(Script([Rule(say="[{said}]")]).reply(prompt(heard=(Heard("user", said),)))) == f"[{said}]"


def test_a_rule_may_only_have_a_fault_and_leave_the_words_to_the_fallback() -> None:
    script = Script([Rule(said="slow", fault="slow delay=1"), Rule(said="cut", finish="length")], fallback=Queue(["words"]))
    assert (script.fault(prompt("slow down")), text(script.reply(prompt("slow down")))) == ("slow delay=1", "words")
    assert (script.fault(prompt("cut")), script.reply(prompt("cut")).finish) == ("", "length")
    assert script.fault(prompt("else")) == ""


WRONG: dict[str, dict[str, Any]] = {
    "a turn that is none": {"turn": 0},
    "a turn that is text": {"turn": "first"},
    "no turns at all": {"turn": []},
    "a turn that is true": {"turn": True},
    "an API that nobody has": {"api": "gemini"},
    "a finish that nobody knows": {"finish": "tired"},
    "no name of a tool": {"tool": ""},
    "a broken regular expression": {"said": "/(/"},
    "something that cannot be said": {"say": 5},
    "something in a list that cannot be said": {"say": ["a", 5]},
    "nothing to say": {"say": []},
    "a value that is not there": {"say": "Hello {nmae}"},
    "such a value in an argument": {"say": [Call("x", {"a": [{"b": "{secret}"}]})]},
    "arguments that are text": {"say": [Call("x", "{}")]},  # type: ignore[arg-type]  # meant to be wrong
    "a thought that is no text": {"say": [Thought(5)]},  # type: ignore[arg-type]  # meant to be wrong
    "times that are none": {"times": 0},
    "a fault that is no text": {"fault": 5},
}


@pytest.mark.parametrize("written", WRONG.values(), ids=WRONG)
def test_a_rule_that_cannot_be_used_is_refused_when_it_is_written(written: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as caught:
        Rule(**written)
    key = next(iter(written))
    assert f"{key!r} cannot be used" in str(caught.value)
    assert "expected" in str(caught.value)


def test_a_script_is_made_of_rules_only() -> None:
    with pytest.raises(BadInput, match="made of rules"):
        Script([{"say": "x"}])  # type: ignore[list-item]  # meant to be wrong


RULES = st.builds(
    lambda conditions, say, times: Rule(**conditions, say=say, times=times),
    st.sampled_from([conditions for conditions, _ in CONDITIONS.values()]),
    st.sampled_from(["a", [Call("lookup_order")], None, [Thought("b"), "c"]]),
    st.sampled_from([None, 1, 2]),
)


@given(rules=st.lists(RULES, max_size=5), others=st.lists(st.sampled_from(["Refund", "Hello", "A-17"]), max_size=3))
def test_a_script_answers_the_same_whoever_else_it_talks_to(rules: list[Rule], others: list[str]) -> None:
    script = Script(rules)
    first = script.reply(ASKED)
    for said in others:
        script.reply(replace(ASKED, heard=(*HEARD, Heard("user", said))))
    assert script.reply(ASKED) == first
    assert Script(rules).reply(ASKED) == first


# -- minds that are functions, and lists of replies


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("words", (Words("words"),)),
        (Words("words"), (Words("words"),)),
        (["a", Use("x")], (Words("a"), Use("x"))),
        (Say((Refused("no"),)), (Refused("no"),)),
        ([], ()),
    ],
)
def test_a_function_may_return_a_reply_in_any_form(returned: Any, expected: tuple[Any, ...]) -> None:
    assert Called(lambda asked: returned).reply(prompt("Hello")).items == expected


@pytest.mark.parametrize("returned", [None, 5, [5], {"text": "x"}, b"x"])
def test_a_function_that_returns_something_else_is_named(returned: Any) -> None:
    def my_mind(asked: Prompt) -> Any:
        return returned

    with pytest.raises(BadInput, match=r"the mind my_mind\(\) is nothing that can be said"):
        Called(my_mind).reply(prompt("Hello"))


def test_an_async_function_is_refused_and_not_left_hanging() -> None:
    async def my_mind(asked: Prompt) -> str:
        return "never"

    with pytest.raises(BadInput, match="without async"):
        Called(my_mind).reply(prompt("Hello"))  # type: ignore[arg-type]  # meant to be wrong


def test_a_function_sees_the_prompt() -> None:
    assert text(Called(lambda asked: f"{asked.model} heard {asked.said}").reply(prompt("Hello"))) == "m heard Hello"


def test_a_list_of_replies_goes_by_the_turns_of_each_conversation() -> None:
    queue = Queue(["one", [Thought("t"), Use("lookup_order", json.dumps({"order_id": "A-17"}))], "three"])
    assert text(queue.reply(prompt("a"))) == "one"
    assert text(queue.reply(prompt("b"))) == "one"
    heard = (Heard("user", "a"), Heard("assistant", "one"), Heard("user", "b"))
    assert uses(queue.reply(prompt(heard=heard)))[0].tool == "lookup_order"


def test_a_list_of_replies_that_is_used_up_says_so() -> None:
    heard = (Heard("user", "a"), Heard("assistant", "one"), Heard("user", "b"))
    with pytest.raises(BadInput, match="there is no reply number 2"):
        Queue(["one"]).reply(prompt(heard=heard))
