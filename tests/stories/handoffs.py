"""Stories of control passing from agent to agent."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from legato import Agent, HandoffBuilder, Limits, ToolContext, Workflow, file, history, image, tool
from legato.core.facts import AgentPrompted, Call, HandedOff, MessageReceived
from legato.core.pending_requests import Pending
from legato.core.view import Request
from legato.testing import ScriptedModel, call, handoff
from legato.testing.people import Verdict
from legato.testing.story import Story, Told, World
from tests.stories.checking import calls, conversation, outputs, said
from tests.stories.telling import done, story

STORIES: dict[str, Story] = {}


def handoffs(told: Told) -> list[tuple[str, str]]:
    """The handoffs that were taken, in order."""
    return [(fact.source, fact.target) for fact in told.session.facts if isinstance(fact, HandedOff)]


def agents_asked(requests: list[Request]) -> list[str]:
    return [request.agent for request in requests]


# -- 3: three turns, two agents ----------------------------------------------------------------------------------------


def three_turns(world: World) -> Workflow:
    model = ScriptedModel(
        by_agent={
            "triage": [handoff("refunds"), handoff("refunds")],
            "refunds": ["Which order?", handoff("triage"), "Refunded.", "You are welcome."],
        }
    )
    return HandoffBuilder("desk", [Agent("triage", "Route.", model), Agent("refunds", "Refund.", model)]).build()


def grows_by_what_was_said(told: Told, requests: list[Request]) -> None:
    assert agents_asked(requests) == ["triage", "refunds", "refunds", "triage", "refunds", "refunds"]
    # 1 message; + a handoff call and its output; + an answer and a message; + a handoff; + a handoff; + an answer and a message
    assert [len(request.messages) for request in requests] == [1, 3, 5, 7, 9, 11]
    assert said(requests[-1]) == ["My order came broken", "Which order?", "Order 7", "Refunded.", "Thanks"]
    assert all(request.frame.messages == () for request in requests)
    assert told.session.status == "waiting"


STORIES["three user turns through two agents: each request grows by what was said, and by nothing else"] = story(
    three_turns, ["My order came broken", "Order 7", "Thanks"], grows_by_what_was_said
)

# -- 6: a tool call and a handoff in one reply -------------------------------------------------------------------------


def tool_and_handoff(world: World) -> Workflow:
    @tool
    async def look_up(order: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"order {order} was sent on Monday")

    model = ScriptedModel(by_agent={"triage": [[call("look_up", order="7"), handoff("refunds")]], "refunds": ["Sent on Monday."]})
    triage = Agent("triage", model=model, tools=[look_up])
    return HandoffBuilder("desk", [triage, Agent("refunds", model=model)]).build()


def output_goes_along(told: Told, requests: list[Request]) -> None:
    assert outputs(requests[1]) == ["order 7 was sent on Monday", "Control passed to refunds."]
    assert told.world.times("order 7 was sent on Monday") == 1
    assert handoffs(told) == [("triage", "refunds")]


STORIES["a tool call and a handoff in one reply: the tool's output is in the next agent's request"] = story(
    tool_and_handoff, ["Where is order 7?"], output_goes_along
)


def handoff_before_tool(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def refund(order: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"refunded {order}")

    model = ScriptedModel(by_agent={"triage": [["I pass you on.", handoff("refunds"), call("refund", order="7")]], "refunds": ["Done."]})
    triage = Agent("triage", model=model, tools=[refund])
    return HandoffBuilder("desk", [triage, Agent("refunds", model=model)]).build()


def waits_for_its_batch(told: Told, requests: list[Request]) -> None:
    assert outputs(requests[1]) == ["Control passed to refunds.", "refunded 7"]
    assert told.world.times("refunded 7") == 1


STORIES["a handoff waits until the gated call behind it in the same reply is answered"] = story(
    handoff_before_tool, ["Refund order 7"], waits_for_its_batch
)

# -- 7: two handoffs in one reply --------------------------------------------------------------------------------------


def two_handoffs(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"triage": [[handoff("refunds"), handoff("billing")]], "refunds": ["Refunds here."]})
    return HandoffBuilder("desk", [Agent(name, model=model) for name in ("triage", "refunds", "billing")]).build()


def first_is_taken(told: Told, requests: list[Request]) -> None:
    assert handoffs(told) == [("triage", "refunds")]
    assert outputs(requests[1]) == ["Control passed to refunds.", "Not taken: control had passed to refunds."]


STORIES["two handoff calls in one reply: the first is taken, the second answered truthfully"] = story(
    two_handoffs, ["Help"], first_is_taken
)


def two_handoffs_first_gated(world: World) -> Workflow:
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


def second_is_taken(told: Told, requests: list[Request]) -> None:
    assert handoffs(told) == [("triage", "billing")]
    assert outputs(requests[1]) == [
        "Not run: a person declined this call. Refunds is closed.",
        "Control passed to billing.",
    ]


STORIES["two handoffs, the first gated and rejected: the second is taken"] = story(
    two_handoffs_first_gated, ["Help"], second_is_taken, lambda request: ("reject", "Refunds is closed.")
)

# -- 8: handoffs that cannot be ----------------------------------------------------------------------------------------


def forbidden(world: World) -> Workflow:
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


def told_not_crashed(told: Told, requests: list[Request]) -> None:
    first, second = outputs(requests[1])
    assert "no tool named 'handoff_to_billing'" in first
    assert "handoff_to_refunds" in first
    assert "no tool named 'handoff_to_nobody'" in second
    assert "no tool named 'handoff_to_refunds'" in outputs(requests[-1])[-1]
    assert handoffs(told) == [("triage", "refunds")]
    assert told.session.messages[-1].text == "Here I am."


STORIES["a handoff that no edge allows, to nobody or to oneself: an answer to the model, not a crash"] = story(
    forbidden, ["Help"], told_not_crashed
)

# -- 9: round trips ----------------------------------------------------------------------------------------------------


def round_trip(world: World, see: history.History) -> Workflow:
    @tool
    async def weigh(what: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"{what} weighs 3 kg")

    model = ScriptedModel(
        by_agent={
            "A": [["A looks.", call("weigh", what="ant")], handoff("B"), "All known."],
            "B": [["B looks.", call("weigh", what="bee")], ["B is done.", handoff("C")]],
            "C": [["C looks.", call("weigh", what="cat"), handoff("A")]],
        }
    )
    agents = [Agent(name, model=model, tools=[weigh], history=see) for name in "ABC"]
    return HandoffBuilder("round", agents).add_handoff("A", "B").add_handoff("B", "C").add_handoff("C", "A").build()


def sees_everything(told: Told, requests: list[Request]) -> None:
    last = requests[-1]
    assert last.agent == "A"
    assert [output for output in outputs(last) if "kg" in output] == ["ant weighs 3 kg", "bee weighs 3 kg", "cat weighs 3 kg"]
    assert calls(last) == ["weigh", "handoff_to_B", "weigh", "handoff_to_C", "weigh", "handoff_to_A"]
    assert said(last) == ["Weigh them", "A looks.", "B looks.", "B is done.", "C looks."]


def sees_words_only(told: Told, requests: list[Request]) -> None:
    last = requests[-1]
    assert last.agent == "A"
    assert said(last) == ["Weigh them", "A looks.", "B looks.", "B is done.", "C looks."]
    assert outputs(last) == []
    assert calls(last) == []


def sees_own_tools(told: Told, requests: list[Request]) -> None:
    last = requests[-1]
    assert said(last) == ["Weigh them", "A looks.", "B looks.", "B is done.", "C looks."]
    assert outputs(last) == ["ant weighs 3 kg", "Control passed to B."]
    assert calls(last) == ["weigh", "handoff_to_B"]


def sees_since_handoff(told: Told, requests: list[Request]) -> None:
    assert said(requests[2]) == []
    assert calls(requests[2]) == ["handoff_to_B"]
    assert said(requests[-1]) == ["C looks."]
    assert outputs(requests[-1]) == ["cat weighs 3 kg", "Control passed to A."]


for _title, _policy, _check in (
    ("everything: A's second request has B's and C's tool outputs", history.everything(), sees_everything),
    ("dialogue: A's second request has all their words and none of their tool traffic", history.dialogue(), sees_words_only),
    ("own tools: A's second request has all words and only its own tool traffic", history.own_tools(), sees_own_tools),
    ("since the handoff: each sees what was said from the reply that handed over on", history.since_handoff(), sees_since_handoff),
):
    STORIES[f"A -> B -> C -> A, policy {_title}"] = story(lambda world, see=_policy: round_trip(world, see), ["Weigh them"], _check)

# -- 10: back and forth (800 times in test_numbers.py) -----------------------------------------------------------------


def ping_pong(world: World) -> Workflow:
    def play(seen: Request) -> Any:
        return "Enough." if seen.turn == 8 else handoff("pong" if seen.agent == "ping" else "ping")

    model = ScriptedModel(play)
    return HandoffBuilder("game", [Agent("ping", model=model), Agent("pong", model=model)]).build()


def one_reply_at_a_time(told: Told, requests: list[Request]) -> None:
    assert len(handoffs(told)) == 8
    assert [len(request.messages) for request in requests] == [1 + 2 * turn for turn in range(9)]


STORIES["hand back and forth in one run: each request is one call and one output longer"] = story(ping_pong, ["Play"], one_reply_at_a_time)

# -- 11: who gets the second message -----------------------------------------------------------------------------------


def second_message(world: World, mode: str) -> Workflow:
    model = ScriptedModel(by_agent={"triage": [handoff("refunds"), "Triage again."], "refunds": ["Which order?", "Refunded."]})
    agents = [Agent("triage", model=model), Agent("refunds", model=model)]
    return HandoffBuilder("desk", agents).with_next_turn(mode).build()


def goes_to(agent: str) -> Any:
    def check(told: Told, requests: list[Request]) -> None:
        assert agents_asked(requests) == ["triage", "refunds", agent]
        assert said(requests[-1]) == ["Broken!", "Which order?", "Order 7"]

    return check


STORIES["a second message goes to the agent who last had control"] = story(
    lambda world: second_message(world, "sticky"), ["Broken!", "Order 7"], goes_to("refunds")
)
STORIES["a second message goes to the start agent where the workflow says so"] = story(
    lambda world: second_message(world, "start"), ["Broken!", "Order 7"], goes_to("triage")
)

# -- 12: gated handoffs ------------------------------------------------------------------------------------------------


def gated_handoff(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"triage": [handoff("refunds", "wants money"), "Then I help you myself."], "refunds": ["Refunds here."]})
    return (
        HandoffBuilder("desk", [Agent("triage", model=model), Agent("refunds", model=model)])
        .add_handoff("triage", "refunds", needs_approval=True)
        .add_handoff("refunds", "triage")
        .build()
    )


def source_goes_on(told: Told, requests: list[Request]) -> None:
    assert agents_asked(requests) == ["triage", "triage"]
    assert outputs(requests[1]) == ["Not run: a person declined this call. They are at lunch."]
    assert handoffs(told) == []
    assert told.session.messages[-1].author_name == "triage"


def target_takes_over(told: Told, requests: list[Request]) -> None:
    assert agents_asked(requests) == ["triage", "refunds"]
    assert handoffs(told) == [("triage", "refunds")]


STORIES["a gated handoff, rejected: the source goes on with the reason"] = story(
    gated_handoff, ["Money back"], source_goes_on, lambda request: ("reject", "They are at lunch.")
)
STORIES["a gated handoff, approved: the target takes over"] = story(gated_handoff, ["Money back"], target_takes_over)

# -- 13: a reason and a typed input ------------------------------------------------------------------------------------


class Ticket(BaseModel):
    order: str
    cents: int


def typed_handoff(world: World, see: history.History | None = None) -> Workflow:
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
        .add_handoff("triage", "refunds", input_type=Ticket, history=see)
        .add_handoff("refunds", "triage")
        .build()
    )


def input_is_given(told: Told, requests: list[Request]) -> None:
    assert agents_asked(requests) == ["triage", "triage", "refunds"]
    assert "cents" in outputs(requests[1])[0]  # the wrong one was answered, and told what was wrong
    for event in told.events:
        if event.type == "handoff_sent":
            assert (event.data.reason, json.loads(event.data.input)) == ("angry", {"order": "7", "cents": 250})
    last = requests[-1]
    added = " ".join(message.text for message in last.messages[: len(last.frame.messages)])
    given = added + " ".join(call.arguments for message in last.messages for call in message.calls)
    assert "angry" in given
    assert "250" in given


STORIES["a handoff with a reason and typed input: invalid input is answered, valid input is recorded and given to the target"] = story(
    typed_handoff, ["Money back"], input_is_given
)
STORIES["a handoff's reason and input reach a target whose policy hides tool traffic"] = story(
    lambda world: typed_handoff(world, history.dialogue()), ["Money back"], input_is_given
)

# -- 14: images and files ----------------------------------------------------------------------------------------------

PICTURE = b"\x89PNG not really"
LETTER = b"%PDF not really"


async def attachments_survive(told: Told, requests: list[Request]) -> None:
    assert agents_asked(requests) == ["triage", "refunds", "refunds"]
    for request in requests:
        (kind, parts), *_ = conversation(request)
        assert kind == "user"
        assert [type(part).__name__ for part in parts] == ["Text", "Image", "File", "Image"]
        assert parts[2].name == "letter.pdf"
        assert parts[3].url == "https://example.com/cat.png"
        assert await told.session.store.content(told.session.id, parts[1].digest) == PICTURE
        assert await told.session.store.content(told.session.id, parts[2].digest) == LETTER


def picture_desk(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"triage": [handoff("refunds")], "refunds": ["I see it is broken.", "Yes."]})
    return HandoffBuilder("desk", [Agent("triage", model=model), Agent("refunds", model=model)]).build()


STORIES["images and files survive a handoff"] = story(
    picture_desk,
    [["Look", image(PICTURE), file(LETTER, "letter.pdf", "application/pdf"), image("https://example.com/cat.png")], "Sure?"],
    attachments_survive,
)

# -- 15: names ---------------------------------------------------------------------------------------------------------

NAMES = ["Front Desk", "Rückerstattung 💶", "返金", "x" * 80, "x" * 79 + "y"]


def odd_names(world: World) -> Workflow:
    def next_one(seen: Request) -> Any:
        position = NAMES.index(seen.agent)
        return handoff(NAMES[position + 1]) if position + 1 < len(NAMES) else "Through."

    model = ScriptedModel(next_one)
    return HandoffBuilder("names", [Agent(name, model=model) for name in NAMES]).build()


def names_stay_legal(told: Told, requests: list[Request]) -> None:
    assert agents_asked(requests) == NAMES
    for request in requests:
        names = [spec.name for spec in request.frame.tools]
        assert len(set(names)) == len(names) == len(NAMES) - 1
        for name in names:
            assert len(name) <= 64
            assert all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name)


STORIES["names with spaces, unicode and 80 characters: tool names stay legal and unique"] = story(odd_names, ["Go"], names_stay_legal)

# -- 17: loops ---------------------------------------------------------------------------------------------------------


def loop(world: World, limits: Limits) -> Workflow:
    def pass_on(seen: Request) -> Any:
        spoken = [message.text for message in seen.messages if message.role == "user"]
        return "Stopped." if "stop" in spoken else handoff("b" if seen.agent == "a" else "a")

    model = ScriptedModel(pass_on)
    return HandoffBuilder("loop", [Agent("a", model=model), Agent("b", model=model)]).with_limits(limits).build()


def stop_at_the_second(request: Pending) -> Verdict:
    assert request.kind == "limit"
    assert "a -> b" in request.prompt
    assert "b -> a" in request.prompt
    return "approve" if request.id.endswith("-0") else ("reject", "")


def loop_was_stopped(told: Told, requests: list[Request]) -> None:
    taken = handoffs(told)
    assert taken.count(("a", "b")) == 4  # two, and once more as many
    assert told.session.messages[-1].text == "Stopped."
    assert told.session.status == "waiting"
    stopped = [output for output in outputs(requests[-1]) if "limit stopped" in output]
    assert len(stopped) == 1
    assert not any(isinstance(fact, AgentPrompted) for fact in told.session.facts)


STORIES["an agent that always hands on is paused by a limit that names the loop; rejected, the turn goes back to the user"] = story(
    lambda world: loop(world, Limits(same_edge=2)), ["Go", "stop"], loop_was_stopped, stop_at_the_second
)


def turns_were_counted(told: Told, requests: list[Request]) -> None:
    facts = told.session.facts
    second = [position for position, fact in enumerate(facts) if isinstance(fact, MessageReceived)][1]
    assert sum(request.upto < second for request in requests) == 3
    assert told.session.messages[-1].text == "Stopped."


STORIES["a limit of three turns pauses after three replies, and the next message begins a new count"] = story(
    lambda world: loop(world, Limits(turns=3)), ["Go", "stop"], turns_were_counted, lambda request: ("reject", "")
)

# -- more --------------------------------------------------------------------------------------------------------------


def reason_is_wrong(world: World) -> Workflow:
    model = ScriptedModel(
        by_agent={
            "triage": [[Call("handoff_to_refunds", '{"reason": 7}'), Call("handoff_to_refunds", "{broken")], handoff("refunds")],
            "refunds": ["Here."],
        }
    )
    return HandoffBuilder("desk", [Agent("triage", model=model), Agent("refunds", model=model)]).build()


def reason_was_corrected(told: Told, requests: list[Request]) -> None:
    first, second = outputs(requests[1])
    assert "reason" in first
    assert "not JSON" in second
    assert handoffs(told) == [("triage", "refunds")]


STORIES["a handoff call with broken arguments is not taken, and the model is told why"] = story(
    reason_is_wrong, ["Help"], reason_was_corrected
)
