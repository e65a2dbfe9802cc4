"""Stories of handoffs between agents."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from legato import Agent, HandoffBuilder, Limits, ToolContext, Workflow, file, history, image, tool
from legato.core.facts import AgentPrompted, Call, HandedOff, MessageReceived
from legato.core.pending_requests import Pending
from legato.core.view import ModelRequest
from legato.testing import ScriptedModel, call, handoff
from legato.testing.scripted_users import Verdict
from legato.testing.story import Story, StoryResult, World
from tests.stories.conversation_checks import list_called_tools, list_lines, list_outputs, list_texts
from tests.stories.story_builder import do_deed, make_story

STORIES: dict[str, Story] = {}


def list_handoffs(result: StoryResult) -> list[tuple[str, str]]:
    """Return the handoffs that were taken, in order."""
    return [(fact.source, fact.target) for fact in result.session.facts if isinstance(fact, HandedOff)]


def list_agents(requests: list[ModelRequest]) -> list[str]:
    return [request.agent for request in requests]


# -- 3: three turns, two agents ----------------------------------------------------------------------------------------


def build_three_turns(world: World) -> Workflow:
    model = ScriptedModel(
        by_agent={
            "triage": [handoff("refunds"), handoff("refunds")],
            "refunds": ["Which order?", handoff("triage"), "Refunded.", "You are welcome."],
        }
    )
    return HandoffBuilder("desk", [Agent("triage", "Route.", model), Agent("refunds", "Refund.", model)]).build()


def check_requests_grow(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_agents(requests) == ["triage", "refunds", "refunds", "triage", "refunds", "refunds"]
    # 1 message; + a handoff call and its output; + an answer and a message; + a handoff; + a handoff; + an answer and a message
    assert [len(request.messages) for request in requests] == [1, 3, 5, 7, 9, 11]
    assert list_texts(requests[-1]) == ["My order came broken", "Which order?", "Order 7", "Refunded.", "Thanks"]
    assert all(request.turn_context.messages == () for request in requests)
    assert result.session.status == "waiting"


STORIES["three user turns through two agents: each request grows by what was said, and by nothing else"] = make_story(
    build_three_turns, ["My order came broken", "Order 7", "Thanks"], check_requests_grow
)

# -- 6: a tool call and a handoff in one reply -------------------------------------------------------------------------


def build_tool_and_handoff(world: World) -> Workflow:
    @tool
    async def look_up(order: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"order {order} was sent on Monday")

    model = ScriptedModel(by_agent={"triage": [[call("look_up", order="7"), handoff("refunds")]], "refunds": ["Sent on Monday."]})
    triage = Agent("triage", model=model, tools=[look_up])
    return HandoffBuilder("desk", [triage, Agent("refunds", model=model)]).build()


def check_output_is_included(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_outputs(requests[1]) == ["order 7 was sent on Monday", "Control passed to refunds."]
    assert result.world.count("order 7 was sent on Monday") == 1
    assert list_handoffs(result) == [("triage", "refunds")]


STORIES["a tool call and a handoff in one reply: the tool's output is in the next agent's request"] = make_story(
    build_tool_and_handoff, ["Where is order 7?"], check_output_is_included
)


def build_handoff_before_tool(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def refund(order: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"refunded {order}")

    model = ScriptedModel(by_agent={"triage": [["I pass you on.", handoff("refunds"), call("refund", order="7")]], "refunds": ["Done."]})
    triage = Agent("triage", model=model, tools=[refund])
    return HandoffBuilder("desk", [triage, Agent("refunds", model=model)]).build()


def check_handoff_waits(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_outputs(requests[1]) == ["Control passed to refunds.", "refunded 7"]
    assert result.world.count("refunded 7") == 1


STORIES["a handoff waits until the gated call behind it in the same reply is answered"] = make_story(
    build_handoff_before_tool, ["Refund order 7"], check_handoff_waits
)

# -- 7: two handoffs in one reply --------------------------------------------------------------------------------------


def build_two_handoffs(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"triage": [[handoff("refunds"), handoff("billing")]], "refunds": ["Refunds here."]})
    return HandoffBuilder("desk", [Agent(name, model=model) for name in ("triage", "refunds", "billing")]).build()


def check_first_is_taken(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_handoffs(result) == [("triage", "refunds")]
    assert list_outputs(requests[1]) == ["Control passed to refunds.", "Not taken: control had passed to refunds."]


STORIES["two handoff calls in one reply: the first is taken, the second answered truthfully"] = make_story(
    build_two_handoffs, ["Help"], check_first_is_taken
)


def build_two_handoffs_with_approval(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"triage": [[handoff("refunds"), handoff("billing")]], "billing": ["Billing here."]})
    agents = [Agent(name, model=model) for name in ("triage", "refunds", "billing")]
    return (
        HandoffBuilder("desk", agents)
        .add_handoff("triage", "refunds", needs_approval=True)
        .add_handoff("triage", "billing")
        .add_handoff("refunds", "triage")
        .add_handoff("billing", "triage")
        .build()
    )


def check_second_is_taken(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_handoffs(result) == [("triage", "billing")]
    assert list_outputs(requests[1]) == [
        "Not run: a person declined this call. Refunds is closed.",
        "Control passed to billing.",
    ]


STORIES["two handoffs, the first gated and rejected: the second is taken"] = make_story(
    build_two_handoffs_with_approval, ["Help"], check_second_is_taken, lambda request: ("reject", "Refunds is closed.")
)

# -- 8: handoffs that are not allowed ----------------------------------------------------------------------------------


def build_forbidden(world: World) -> Workflow:
    model = ScriptedModel(
        by_agent={"triage": [[handoff("billing"), handoff("nobody")], handoff("refunds")], "refunds": [handoff("refunds"), "Here I am."]}
    )
    return (
        HandoffBuilder("desk", [Agent(name, model=model) for name in ("triage", "refunds", "billing")])
        .add_handoff("triage", "refunds")
        .add_handoff("refunds", ["triage", "billing"])
        .add_handoff("billing", "triage")
        .build()
    )


def check_handoffs_are_answered(result: StoryResult, requests: list[ModelRequest]) -> None:
    first, second = list_outputs(requests[1])
    assert "no tool named 'handoff_to_billing'" in first
    assert "handoff_to_refunds" in first
    assert "no tool named 'handoff_to_nobody'" in second
    assert "no tool named 'handoff_to_refunds'" in list_outputs(requests[-1])[-1]
    assert list_handoffs(result) == [("triage", "refunds")]
    assert result.session.messages[-1].text == "Here I am."


STORIES["a handoff that no edge allows, to nobody or to oneself: an answer to the model, not a crash"] = make_story(
    build_forbidden, ["Help"], check_handoffs_are_answered
)

# -- 9: round trips ----------------------------------------------------------------------------------------------------


def build_round_trip(world: World, policy: history.History) -> Workflow:
    @tool
    async def weigh(what: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"{what} weighs 3 kg")

    model = ScriptedModel(
        by_agent={
            "A": [["A looks.", call("weigh", what="ant")], handoff("B"), "All known."],
            "B": [["B looks.", call("weigh", what="bee")], ["B is done.", handoff("C")]],
            "C": [["C looks.", call("weigh", what="cat"), handoff("A")]],
        }
    )
    agents = [Agent(name, model=model, tools=[weigh], history=policy) for name in "ABC"]
    return HandoffBuilder("round", agents).add_handoff("A", "B").add_handoff("B", "C").add_handoff("C", "A").build()


def check_everything_is_included(result: StoryResult, requests: list[ModelRequest]) -> None:
    last = requests[-1]
    assert last.agent == "A"
    assert [output for output in list_outputs(last) if "kg" in output] == ["ant weighs 3 kg", "bee weighs 3 kg", "cat weighs 3 kg"]
    assert list_called_tools(last) == ["weigh", "handoff_to_B", "weigh", "handoff_to_C", "weigh", "handoff_to_A"]
    assert list_texts(last) == ["Weigh them", "A looks.", "B looks.", "B is done.", "C looks."]


def check_words_are_included(result: StoryResult, requests: list[ModelRequest]) -> None:
    last = requests[-1]
    assert last.agent == "A"
    assert list_texts(last) == ["Weigh them", "A looks.", "B looks.", "B is done.", "C looks."]
    assert list_outputs(last) == []
    assert list_called_tools(last) == []


def check_own_tools_are_included(result: StoryResult, requests: list[ModelRequest]) -> None:
    last = requests[-1]
    assert list_texts(last) == ["Weigh them", "A looks.", "B looks.", "B is done.", "C looks."]
    assert list_outputs(last) == ["ant weighs 3 kg", "Control passed to B."]
    assert list_called_tools(last) == ["weigh", "handoff_to_B"]


def check_history_since_handoff(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_texts(requests[2]) == []
    assert list_called_tools(requests[2]) == ["handoff_to_B"]
    assert list_texts(requests[-1]) == ["C looks."]
    assert list_outputs(requests[-1]) == ["cat weighs 3 kg", "Control passed to A."]


for _title, _policy, _check in (
    ("everything: A's second request has B's and C's tool outputs", history.everything(), check_everything_is_included),
    ("dialogue: A's second request has all their words and none of their tool traffic", history.dialogue(), check_words_are_included),
    ("own tools: A's second request has all words and only its own tool traffic", history.own_tools(), check_own_tools_are_included),
    ("since the handoff: each sees what was said from the reply that handed over on", history.since_handoff(), check_history_since_handoff),
):
    STORIES[f"A -> B -> C -> A, policy {_title}"] = make_story(
        lambda world, see=_policy: build_round_trip(world, see), ["Weigh them"], _check
    )

# -- 10: back and forth (800 times in test_usage_and_cost.py) ----------------------------------------------------------


def build_ping_pong(world: World) -> Workflow:
    def play(seen: ModelRequest) -> Any:
        return "Enough." if seen.reply_count == 8 else handoff("pong" if seen.agent == "ping" else "ping")

    model = ScriptedModel(play)
    return HandoffBuilder("game", [Agent("ping", model=model), Agent("pong", model=model)]).build()


def check_requests_grow_by_one_reply(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert len(list_handoffs(result)) == 8
    assert [len(request.messages) for request in requests] == [1 + 2 * turn for turn in range(9)]


STORIES["hand back and forth in one run: each request is one call and one output longer"] = make_story(
    build_ping_pong, ["Play"], check_requests_grow_by_one_reply
)

# -- 11: the receiver of the second message ----------------------------------------------------------------------------


def build_second_message(world: World, mode: str) -> Workflow:
    model = ScriptedModel(by_agent={"triage": [handoff("refunds"), "Triage again."], "refunds": ["Which order?", "Refunded."]})
    agents = [Agent("triage", model=model), Agent("refunds", model=model)]
    return HandoffBuilder("desk", agents).with_next_turn(mode).build()


def make_receiver_check(agent: str) -> Any:
    def check(result: StoryResult, requests: list[ModelRequest]) -> None:
        assert list_agents(requests) == ["triage", "refunds", agent]
        assert list_texts(requests[-1]) == ["Broken!", "Which order?", "Order 7"]

    return check


STORIES["a second message goes to the agent who last had control"] = make_story(
    lambda world: build_second_message(world, "sticky"), ["Broken!", "Order 7"], make_receiver_check("refunds")
)
STORIES["a second message goes to the start agent where the workflow says so"] = make_story(
    lambda world: build_second_message(world, "start"), ["Broken!", "Order 7"], make_receiver_check("triage")
)

# -- 12: handoffs with approval ----------------------------------------------------------------------------------------


def build_handoff_with_approval(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"triage": [handoff("refunds", "wants money"), "Then I help you myself."], "refunds": ["Refunds here."]})
    return (
        HandoffBuilder("desk", [Agent("triage", model=model), Agent("refunds", model=model)])
        .add_handoff("triage", "refunds", needs_approval=True)
        .add_handoff("refunds", "triage")
        .build()
    )


def check_source_continues(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_agents(requests) == ["triage", "triage"]
    assert list_outputs(requests[1]) == ["Not run: a person declined this call. They are at lunch."]
    assert list_handoffs(result) == []
    assert result.session.messages[-1].author_name == "triage"


def check_target_takes_over(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_agents(requests) == ["triage", "refunds"]
    assert list_handoffs(result) == [("triage", "refunds")]


STORIES["a gated handoff, rejected: the source goes on with the reason"] = make_story(
    build_handoff_with_approval, ["Money back"], check_source_continues, lambda request: ("reject", "They are at lunch.")
)
STORIES["a gated handoff, approved: the target takes over"] = make_story(
    build_handoff_with_approval, ["Money back"], check_target_takes_over
)

# -- 13: a reason and a typed input ------------------------------------------------------------------------------------


class Ticket(BaseModel):
    order: str
    cents: int


def build_typed_handoff(world: World, policy: history.History | None = None) -> Workflow:
    model = ScriptedModel(
        by_agent={
            "triage": [
                handoff("refunds", "angry", input={"order": "7", "cents": "many"}),
                handoff("refunds", "angry", input={"order": "7", "cents": 250}),
            ],
            "refunds": ["2.50 are on their way."],
        }
    )
    return (
        HandoffBuilder("desk", [Agent("triage", model=model), Agent("refunds", model=model)])
        .add_handoff("triage", "refunds", input_type=Ticket, history=policy)
        .add_handoff("refunds", "triage")
        .build()
    )


def check_input_is_passed(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_agents(requests) == ["triage", "triage", "refunds"]
    assert "cents" in list_outputs(requests[1])[0]  # the answer to the wrong call names the problem
    for event in result.events:
        if event.type == "handoff_sent":
            assert (event.data.reason, json.loads(event.data.input)) == ("angry", {"order": "7", "cents": 250})
    last = requests[-1]
    added = " ".join(message.text for message in last.messages[: len(last.turn_context.messages)])
    passed = added + " ".join(call.arguments for message in last.messages for call in message.calls)
    assert "angry" in passed
    assert "250" in passed


STORIES["a handoff with a reason and typed input: invalid input is answered, valid input is recorded and given to the target"] = make_story(
    build_typed_handoff, ["Money back"], check_input_is_passed
)
STORIES["a handoff's reason and input reach a target whose policy hides tool traffic"] = make_story(
    lambda world: build_typed_handoff(world, history.dialogue()), ["Money back"], check_input_is_passed
)

# -- 14: images and files ----------------------------------------------------------------------------------------------

PICTURE = b"\x89PNG not really"
LETTER = b"%PDF not really"


async def check_attachments_survive(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_agents(requests) == ["triage", "refunds", "refunds"]
    for request in requests:
        (kind, parts), *_ = list_lines(request)
        assert kind == "user"
        assert [type(part).__name__ for part in parts] == ["Text", "Image", "File", "Image"]
        assert parts[2].name == "letter.pdf"
        assert parts[3].url == "https://example.com/cat.png"
        assert await result.session.store.content(result.session.id, parts[1].digest) == PICTURE
        assert await result.session.store.content(result.session.id, parts[2].digest) == LETTER


def build_picture_desk(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"triage": [handoff("refunds")], "refunds": ["I see it is broken.", "Yes."]})
    return HandoffBuilder("desk", [Agent("triage", model=model), Agent("refunds", model=model)]).build()


STORIES["images and files survive a handoff"] = make_story(
    build_picture_desk,
    [["Look", image(PICTURE), file(LETTER, "letter.pdf", "application/pdf"), image("https://example.com/cat.png")], "Sure?"],
    check_attachments_survive,
)

# -- 15: names ---------------------------------------------------------------------------------------------------------

NAMES = ["Front Desk", "Rückerstattung 💶", "返金", "x" * 80, "x" * 79 + "y"]


def build_odd_names(world: World) -> Workflow:
    def next_one(seen: ModelRequest) -> Any:
        position = NAMES.index(seen.agent)
        return handoff(NAMES[position + 1]) if position + 1 < len(NAMES) else "Through."

    model = ScriptedModel(next_one)
    return HandoffBuilder("names", [Agent(name, model=model) for name in NAMES]).build()


def check_names_are_legal(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_agents(requests) == NAMES
    for request in requests:
        names = [spec.name for spec in request.turn_context.tools]
        assert len(set(names)) == len(names) == len(NAMES) - 1
        for name in names:
            assert len(name) <= 64
            assert all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name)


STORIES["names with spaces, unicode and 80 characters: tool names stay legal and unique"] = make_story(
    build_odd_names, ["Go"], check_names_are_legal
)

# -- 17: loops ---------------------------------------------------------------------------------------------------------


def build_loop(world: World, limits: Limits) -> Workflow:
    def pass_on(seen: ModelRequest) -> Any:
        spoken = [message.text for message in seen.messages if message.role == "user"]
        return "Stopped." if "stop" in spoken else handoff("b" if seen.agent == "a" else "a")

    model = ScriptedModel(pass_on)
    return HandoffBuilder("loop", [Agent("a", model=model), Agent("b", model=model)]).with_limits(limits).build()


def reject_second_limit(request: Pending) -> Verdict:
    assert request.kind == "limit"
    assert "a -> b" in request.prompt
    assert "b -> a" in request.prompt
    return "approve" if request.id.endswith("-0") else ("reject", "")


def check_loop_is_stopped(result: StoryResult, requests: list[ModelRequest]) -> None:
    taken = list_handoffs(result)
    assert taken.count(("a", "b")) == 4  # two, and two more
    assert result.session.messages[-1].text == "Stopped."
    assert result.session.status == "waiting"
    stopped = [output for output in list_outputs(requests[-1]) if "limit stopped" in output]
    assert len(stopped) == 1
    assert not any(isinstance(fact, AgentPrompted) for fact in result.session.facts)


STORIES["an agent that always hands on is paused by a limit that names the loop; rejected, the turn goes back to the user"] = make_story(
    lambda world: build_loop(world, Limits(same_edge=2)), ["Go", "stop"], check_loop_is_stopped, reject_second_limit
)


def check_turns_are_counted(result: StoryResult, requests: list[ModelRequest]) -> None:
    facts = result.session.facts
    second = [position for position, fact in enumerate(facts) if isinstance(fact, MessageReceived)][1]
    assert sum(request.upto < second for request in requests) == 3
    assert result.session.messages[-1].text == "Stopped."


STORIES["a limit of three turns pauses after three replies, and the next message begins a new count"] = make_story(
    lambda world: build_loop(world, Limits(turns=3)), ["Go", "stop"], check_turns_are_counted, lambda request: ("reject", "")
)

# -- more --------------------------------------------------------------------------------------------------------------


def build_wrong_reason(world: World) -> Workflow:
    model = ScriptedModel(
        by_agent={
            "triage": [[Call("handoff_to_refunds", '{"reason": 7}'), Call("handoff_to_refunds", "{broken")], handoff("refunds")],
            "refunds": ["Here."],
        }
    )
    return HandoffBuilder("desk", [Agent("triage", model=model), Agent("refunds", model=model)]).build()


def check_reason_is_corrected(result: StoryResult, requests: list[ModelRequest]) -> None:
    first, second = list_outputs(requests[1])
    assert "reason" in first
    assert "not JSON" in second
    assert list_handoffs(result) == [("triage", "refunds")]


STORIES["a handoff call with broken arguments is not taken, and the model is told why"] = make_story(
    build_wrong_reason, ["Help"], check_reason_is_corrected
)
