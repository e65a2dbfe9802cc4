"""Stories of calls that wait for people."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

from legato import Agent, HandoffBuilder, Limits, Secret, ToolContext, Workflow, tool
from legato.core.facts import ApprovalChecked, CallLost, CallReturned, CallStarted, Decided, MessageReceived, ModelReplied
from legato.core.pending_requests import Pending
from legato.core.view import ModelRequest
from legato.testing import ScriptedModel, call, handoff
from legato.testing.scripted_users import Verdict
from legato.testing.story import Story, StoryResult, World
from tests.stories.conversation_checks import find_call_number, list_outputs, list_texts
from tests.stories.story_builder import count_messages, do_deed, make_story

STORIES: dict[str, Story] = {}

# -- 5: three parallel calls, two with approval ------------------------------------------------------------------------


def build_cleanup_desk(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def cleanup(target: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"cleaned {target}")

    @tool
    async def diagnostic(check: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"{check}: 72 degrees")

    batch = [call("cleanup", target="temp"), call("diagnostic", check="thermal"), call("cleanup", target="cache")]
    model = ScriptedModel(by_agent={"support": [batch, "That is all."]})
    return HandoffBuilder("support", [Agent("support", model=model, tools=[cleanup, diagnostic])]).build()


EXPECTED_OUTPUTS = {
    "approve": lambda target: f"cleaned {target}",
    "reject": lambda target: f"Not run: a person declined this call. Keep the {target}.",
    "edit": lambda target: f'(A person changed the arguments; this ran with {{"target": "old {target}"}})\ncleaned old {target}',
}
"""The output of a cleanup that the model receives, by the person's verdict."""


def make_decide(verdicts: dict[str, str]) -> Any:
    """Return a function that decides each cleanup by its target."""

    def decide(request: Pending) -> Verdict:
        target = request.arguments["target"]
        match verdicts[target]:
            case "reject":
                return "reject", f"Keep the {target}."
            case "edit":
                return "edit", {"target": f"old {target}"}
            case verdict:
                return verdict

    return decide


def make_outputs_check(first: str, second: str) -> Any:
    def check(result: StoryResult, requests: list[ModelRequest]) -> None:
        assert list_outputs(requests[1]) == [EXPECTED_OUTPUTS[first]("temp"), "thermal: 72 degrees", EXPECTED_OUTPUTS[second]("cache")]
        assert result.world.count("thermal: 72 degrees") == 1
        for target, verdict in (("temp", first), ("cache", second)):
            assert result.world.count(f"cleaned {target}") == (verdict == "approve")
            assert result.world.count(f"cleaned old {target}") == (verdict == "edit")
        recorded = [type(fact) for fact in result.session.facts]
        lost = any(isinstance(fact, Decided) and fact.kind == "outcome" for fact in result.session.facts)
        assert lost or recorded.index(CallReturned) < recorded.index(Decided)  # the call without approval ran while the others waited

    return check


for _first, _second in product(EXPECTED_OUTPUTS, repeat=2):
    _decisions = f"{_first} the first and {_second} the last"
    STORIES[f"three parallel calls, gated, open, gated: {_decisions}, all three are answered in order"] = make_story(
        build_cleanup_desk,
        ["Clean up and check"],
        make_outputs_check(_first, _second),
        make_decide({"temp": _first, "cache": _second}),
    )

# -- 21: four decisions ------------------------------------------------------------------------------------------------


def build_four_calls(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def pay(to: str, cents: int, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"paid {cents} to {to}")

    people = ["ann", "bob", "cid", "dan"]
    model = ScriptedModel(by_agent={"payer": [[call("pay", to=name, cents=100) for name in people], "All four are settled."]})
    return HandoffBuilder("pay", [Agent("payer", model=model, tools=[pay])]).build()


def decide_four_ways(request: Pending) -> Verdict:
    return {"ann": "approve", "bob": ("reject", "Bob was paid."), "cid": ("edit", {"to": "cid", "cents": 50}), "dan": None}[
        request.arguments["to"]
    ]


def check_partial_answers(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert len(requests) == 1  # the model is not requested before the fourth is decided
    (remaining,) = result.session.pending
    assert remaining.arguments == {"to": "dan", "cents": 100}
    assert result.session.status == "pending"
    assert [result.world.count(deed) for deed in ("paid 100 to ann", "paid 50 to cid", "paid 100 to bob", "paid 100 to dan")] == [
        1,
        1,
        0,
        0,
    ]
    decisions = [fact for fact in result.session.facts if isinstance(fact, Decided) and fact.kind == "approval"]
    answers = {find_call_number(result.session.facts, fact.call): fact.verdict for fact in decisions if fact.call}
    assert answers == {0: "approve", 1: "reject", 2: "edit"}


STORIES["approve one, reject one, edit the third, leave the fourth: partial answers are kept"] = make_story(
    build_four_calls, ["Pay all four"], check_partial_answers, decide_four_ways
)

# -- 24: call ids from providers ---------------------------------------------------------------------------------------


def build_equal_call_ids(world: World) -> Workflow:
    @tool
    async def count(number: int, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"counted {number}")

    def counting(seen: ModelRequest) -> Any:
        if seen.reply_count < 2:
            return [call("count", "call_1", number=2 * seen.reply_count), call("count", "call_1", number=2 * seen.reply_count + 1)]
        return "Counted to three."

    return HandoffBuilder("count", [Agent("counter", model=ScriptedModel(counting), tools=[count])]).build()


def check_all_calls_ran(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_outputs(requests[2]) == [f"counted {number}" for number in range(4)]
    assert [result.world.count(f"counted {number}") for number in range(4)] == [1, 1, 1, 1]
    assert len({key for key, _ in result.world.effects}) == 4


STORIES["a provider that gives every call the same id: all calls are run and answered"] = make_story(
    build_equal_call_ids, ["Count"], check_all_calls_ran
)


def build_same_call_twice(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def toss(ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, "tossed")

    model = ScriptedModel(by_agent={"gambler": [[call("toss"), call("toss")], "Two tosses."]})
    return HandoffBuilder("toss", [Agent("gambler", model=model, tools=[toss])]).build()


def check_both_calls_ran(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert result.world.count("tossed") == 2
    assert list_outputs(requests[1]) == ["tossed", "tossed"]


STORIES["the same call twice in one reply is two calls, and one approval is not two"] = make_story(
    build_same_call_twice, ["Toss twice"], check_both_calls_ran
)

# -- 27: a message while an approval is pending ------------------------------------------------------------------------


def build_refund_desk(world: World, mode: str) -> Workflow:
    @tool(needs_approval=True)
    async def refund(order: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"refunded {order}")

    model = ScriptedModel(by_agent={"refunds": [["One moment.", call("refund", order="7")], "Understood."]})
    return HandoffBuilder("desk", [Agent("refunds", model=model, tools=[refund])]).with_messages(mode).build()


async def approve_after_second_message(request: Pending) -> Verdict:
    return "approve" if await count_messages(request) == 2 else None


def check_message_is_queued(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert len(requests) == 2
    assert list_outputs(requests[1]) == ["refunded 7"]
    assert result.world.count("refunded 7") == 1
    assert list_texts(requests[1]) == ["Refund order 7", "One moment.", "And hurry"]
    assert requests[1].messages[-1].text == "And hurry"  # after the whole batch
    assert [message.text for message in result.session.messages] == ["Refund order 7", "One moment.", "And hurry", "Understood."]


STORIES["a message while an approval is pending is kept, and seen after the batch is answered"] = make_story(
    lambda world: build_refund_desk(world, "queue"), ["Refund order 7", "And hurry"], check_message_is_queued, approve_after_second_message
)


def check_call_is_superseded(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert len(requests) == 2
    assert "the user sent a new message first" in list_outputs(requests[1])[0]
    assert list_texts(requests[1])[-1] == "No, wait"
    assert result.world.effects == []
    assert result.session.pending == []


STORIES["a message supersedes a pending approval where the workflow says so"] = make_story(
    lambda world: build_refund_desk(world, "supersede"), ["Refund order 7", "No, wait"], check_call_is_superseded, lambda request: None
)

# -- 28: needs_approval as a function ----------------------------------------------------------------------------------


def build_approval_function(world: World) -> Workflow:
    async def large(ctx: ToolContext[Any], arguments: dict[str, Any], call: Any) -> bool:
        assert call.tool == "refund"
        assert call.arguments == arguments
        return bool(arguments["cents"] > 1000)

    @tool(needs_approval=large)
    async def refund(cents: int, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"refunded {cents}")

    model = ScriptedModel(by_agent={"refunds": [[call("refund", cents=10), call("refund", cents=5000)], "Done."]})
    return HandoffBuilder("desk", [Agent("refunds", model=model, tools=[refund])]).build()


def check_large_refund_needs_approval(result: StoryResult, requests: list[ModelRequest]) -> None:
    facts = result.session.facts
    needs_approval = {find_call_number(facts, fact.call): fact.needed for fact in facts if isinstance(fact, ApprovalChecked)}
    assert needs_approval == {0: False, 1: True}
    assert list_outputs(requests[1]) == ["refunded 10", "Not run: a person declined this call. Too much."]
    assert [result.world.count(f"refunded {cents}") for cents in (10, 5000)] == [1, 0]


STORIES["needs_approval as an async function: its verdict is recorded for each call"] = make_story(
    build_approval_function, ["Refund both"], check_large_refund_needs_approval, lambda request: ("reject", "Too much.")
)

# -- 30: results from outside ------------------------------------------------------------------------------------------


def build_deferred_desk(world: World) -> Workflow:
    @tool(deferred=True)
    def ask_bank(question: str) -> str:
        """Ask the bank; the answer comes days later."""
        return ""

    @tool(deferred=True, needs_approval=True)
    def ask_lawyer(question: str) -> str:
        """Ask the lawyer."""
        return ""

    batch = [call("ask_bank", question="covered?"), call("ask_lawyer", question="legal?")]
    model = ScriptedModel(by_agent={"clerk": [batch, "Covered and legal."]})
    return HandoffBuilder("bank", [Agent("clerk", model=model, tools=[ask_bank, ask_lawyer])]).build()


def supply_results(request: Pending) -> Verdict:
    if request.kind == "approval":
        return "approve"
    return "answer", {"covered": True} if request.tool == "ask_bank" else "Yes, it is legal."


def check_results_are_supplied(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert [json.loads(list_outputs(requests[1])[0]), list_outputs(requests[1])[1]] == [{"covered": True}, "Yes, it is legal."]
    assert not any(isinstance(fact, CallStarted) for fact in result.session.facts)


STORIES["a deferred tool's result is supplied from outside, after approval where that is needed"] = make_story(
    build_deferred_desk, ["Is it covered?"], check_results_are_supplied, supply_results
)

# -- more --------------------------------------------------------------------------------------------------------------


def build_standing_desk(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def send(to: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"sent to {to}")

    script = {
        "mailer": [call("send", to="ann"), [call("send", to="bob"), call("send", to="cid")], handoff("other")],
        "other": [call("send", to="dan"), "Sent."],
    }
    model = ScriptedModel(by_agent=script)
    return HandoffBuilder("mail", [Agent(name, model=model, tools=[send]) for name in script]).build()


def approve_always(request: Pending) -> Verdict:
    return ("reject", "Not this one.") if request.arguments["to"] == "dan" else "always"


def check_approval_is_for_one_agent(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert [result.world.count(f"sent to {name}") for name in ("ann", "bob", "cid", "dan")] == [1, 1, 1, 0]
    decisions = [fact for fact in result.session.facts if isinstance(fact, Decided) and fact.kind == "approval"]
    decided = [(find_call_number(result.session.facts, fact.call), fact.source) for fact in decisions if fact.call]
    assert decided == [(0, ""), (0, "standing"), (1, "standing"), (0, "")]
    assert "Not this one." in list_outputs(requests[-1])[-1]


STORIES["approve always: later calls of that tool by that agent record their own approval; another agent's call is asked about"] = (
    make_story(build_standing_desk, ["Send"], check_approval_is_for_one_agent, approve_always)
)


def build_capped_desk(world: World) -> Workflow:
    @tool
    async def step(number: int, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"step {number}")

    model = ScriptedModel(by_agent={"walker": [[call("step", number=number) for number in range(5)], "I stopped."]})
    return HandoffBuilder("walk", [Agent("walker", model=model, tools=[step])]).with_limits(Limits(tool_calls=2, turns=9)).build()


def check_limit_stops_calls(result: StoryResult, requests: list[ModelRequest]) -> None:
    # Two, and two more; an attempt that was lost and run again counts too, so a death may cost a step.
    steps = [result.world.count(f"step {number}") for number in range(5)]
    starts = sum(isinstance(fact, CallStarted) for fact in result.session.facts)
    lost = sum(isinstance(fact, CallLost) for fact in result.session.facts)
    assert 4 <= starts <= 4 + lost  # a started call that a person wants to rerun may finish after a limit
    assert max(steps) == 1
    assert lost or steps == sorted(steps, reverse=True)
    assert len(requests) == 2
    assert "a limit stopped this run" in list_outputs(requests[1])[-1]
    assert list_texts(requests[1])[-1] == "Never mind"


STORIES["a limit of tool calls, approved once and rejected then: what was not started is answered so, and the turn is the user's"] = (
    make_story(
        build_capped_desk,
        ["Walk", "Never mind"],
        check_limit_stops_calls,
        lambda request: "approve" if request.id.endswith("-0") else ("reject", ""),
    )
)


def build_secret_desk(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def log_in(user: str, password: Secret[str], ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"welcome {user}")

    batch = [call("log_in", user="ada", password="hunter2"), call("log_in", user="bob", password=["hunter2"])]
    model = ScriptedModel(by_agent={"door": [batch, "You are in."]})
    return HandoffBuilder("door", [Agent("door", model=model, tools=[log_in])]).build()


def approve_with_password(request: Pending) -> Verdict:
    assert "hunter2" not in request.prompt
    assert "hunter2" not in str(request)
    assert "hunter2" not in repr(request)
    assert request.arguments["password"] == "hunter2"
    return "approve"


def check_secret_is_masked(result: StoryResult, requests: list[ModelRequest]) -> None:
    for event in result.events:
        assert "hunter2" not in str(event)
    (first, *_) = [fact for fact in result.session.facts if isinstance(fact, ModelReplied)]
    assert "hunter2" in str(first)  # the ledger and the requests have it
    assert any("hunter2" in call.arguments for message in requests[1].messages for call in message.calls)
    assert result.world.count("welcome ada") == 1
    assert result.world.count("welcome bob") == 0


STORIES["a secret argument is in the ledger and in requests, and masked in every event and prompt"] = make_story(
    build_secret_desk, ["Let me in"], check_secret_is_masked, approve_with_password
)


def check_both_messages_follow(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert sum(isinstance(fact, MessageReceived) for fact in result.session.facts) == 3
    assert requests[1].messages[-1].text == "Third"
    assert requests[1].messages[-2].text == "Second"
    assert list_outputs(requests[1]) == ["refunded 7"]


async def approve_after_third_message(request: Pending) -> Verdict:
    return "approve" if await count_messages(request) == 3 else None


STORIES["two messages while an approval is pending are both seen, in order, in one request"] = make_story(
    lambda world: build_refund_desk(world, "queue"), ["First", "Second", "Third"], check_both_messages_follow, approve_after_third_message
)
