"""Stories of calls that wait for people."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

from legato import Agent, HandoffBuilder, Limits, Secret, ToolContext, Workflow, tool
from legato.core.facts import ApprovalChecked, CallLost, CallReturned, CallStarted, Decided, MessageReceived, ModelReplied
from legato.core.pending_requests import Pending
from legato.core.view import Request
from legato.testing import ScriptedModel, call, handoff
from legato.testing.people import Verdict
from legato.testing.story import Story, Told, World
from tests.stories.checking import nth_call, outputs, said
from tests.stories.telling import done, messages_said, story

STORIES: dict[str, Story] = {}

# -- 5: three parallel calls, gated, open, gated -----------------------------------------------------------------------


def cleanup_desk(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def cleanup(target: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"cleaned {target}")

    @tool
    async def diagnostic(check: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"{check}: 72 degrees")

    batch = [call("cleanup", target="temp"), call("diagnostic", check="thermal"), call("cleanup", target="cache")]
    model = ScriptedModel(by_agent={"support": [batch, "That is all."]})
    return HandoffBuilder("support", [Agent("support", model=model, tools=[cleanup, diagnostic])]).build()


EXPECTED = {
    "approve": lambda target: f"cleaned {target}",
    "reject": lambda target: f"Not run: a person declined this call. Keep the {target}.",
    "edit": lambda target: f'(A person changed the arguments; this ran with {{"target": "old {target}"}})\ncleaned old {target}',
}
"""What the model is told of a cleanup, by what a person decided."""


def decided(verdicts: dict[str, str]) -> Any:
    """Decides each cleanup as listed, by its target."""

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


def three_outputs(first: str, second: str) -> Any:
    def check(told: Told, requests: list[Request]) -> None:
        result = outputs(requests[1])
        assert result == [EXPECTED[first]("temp"), "thermal: 72 degrees", EXPECTED[second]("cache")]
        assert told.world.times("thermal: 72 degrees") == 1
        for target, verdict in (("temp", first), ("cache", second)):
            assert told.world.times(f"cleaned {target}") == (verdict == "approve")
            assert told.world.times(f"cleaned old {target}") == (verdict == "edit")
        recorded = [type(fact) for fact in told.session.facts]
        lost = any(isinstance(fact, Decided) and fact.kind == "outcome" for fact in told.session.facts)
        assert lost or recorded.index(CallReturned) < recorded.index(Decided)  # the open one ran while the others waited

    return check


for _first, _second in product(EXPECTED, repeat=2):
    _decisions = f"{_first} the first and {_second} the last"
    STORIES[f"three parallel calls, gated, open, gated: {_decisions}, all three are answered in order"] = story(
        cleanup_desk,
        ["Clean up and check"],
        three_outputs(_first, _second),
        decided({"temp": _first, "cache": _second}),
    )

# -- 21: four decisions ------------------------------------------------------------------------------------------------


def four_calls(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def pay(to: str, cents: int, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"paid {cents} to {to}")

    people = ["ann", "bob", "cid", "dan"]
    model = ScriptedModel(by_agent={"payer": [[call("pay", to=name, cents=100) for name in people], "All four are settled."]})
    return HandoffBuilder("pay", [Agent("payer", model=model, tools=[pay])]).build()


def four_ways(request: Pending) -> Verdict:
    return {"ann": "approve", "bob": ("reject", "Bob was paid."), "cid": ("edit", {"to": "cid", "cents": 50}), "dan": None}[
        request.arguments["to"]
    ]


def partly_answered(told: Told, requests: list[Request]) -> None:
    assert len(requests) == 1  # the model is not asked before the fourth is decided
    (left,) = told.session.pending
    assert left.arguments == {"to": "dan", "cents": 100}
    assert told.session.status == "pending"
    assert [told.world.times(deed) for deed in ("paid 100 to ann", "paid 50 to cid", "paid 100 to bob", "paid 100 to dan")] == [1, 1, 0, 0]
    decisions = [fact for fact in told.session.facts if isinstance(fact, Decided) and fact.kind == "approval"]
    answers = {nth_call(told.session.facts, fact.call): fact.verdict for fact in decisions if fact.call}
    assert answers == {0: "approve", 1: "reject", 2: "edit"}


STORIES["approve one, reject one, edit the third, leave the fourth: partial answers are kept"] = story(
    four_calls, ["Pay all four"], partly_answered, four_ways
)

# -- 24: ids that providers give ---------------------------------------------------------------------------------------


def one_id_for_all(world: World) -> Workflow:
    @tool
    async def count(number: int, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"counted {number}")

    def counting(seen: Request) -> Any:
        if seen.turn < 2:
            return [call("count", "call_1", number=2 * seen.turn), call("count", "call_1", number=2 * seen.turn + 1)]
        return "Counted to three."

    return HandoffBuilder("count", [Agent("counter", model=ScriptedModel(counting), tools=[count])]).build()


def all_ran(told: Told, requests: list[Request]) -> None:
    assert outputs(requests[2]) == [f"counted {number}" for number in range(4)]
    assert [told.world.times(f"counted {number}") for number in range(4)] == [1, 1, 1, 1]
    assert len({key for key, _ in told.world.deeds}) == 4


STORIES["a provider that gives every call the same id: all calls are run and answered"] = story(one_id_for_all, ["Count"], all_ran)


def same_call_twice(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def toss(ctx: ToolContext[Any]) -> str:
        return done(world, ctx, "tossed")

    model = ScriptedModel(by_agent={"gambler": [[call("toss"), call("toss")], "Two tosses."]})
    return HandoffBuilder("toss", [Agent("gambler", model=model, tools=[toss])]).build()


def both_ran(told: Told, requests: list[Request]) -> None:
    assert told.world.times("tossed") == 2
    assert outputs(requests[1]) == ["tossed", "tossed"]


STORIES["the same call twice in one reply is two calls, and one approval is not two"] = story(same_call_twice, ["Toss twice"], both_ran)

# -- 27: a message while an approval is pending ------------------------------------------------------------------------


def refund_desk(world: World, mode: str) -> Workflow:
    @tool(needs_approval=True)
    async def refund(order: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"refunded {order}")

    model = ScriptedModel(by_agent={"refunds": [["One moment.", call("refund", order="7")], "Understood."]})
    return HandoffBuilder("desk", [Agent("refunds", model=model, tools=[refund])]).with_messages(mode).build()


async def only_after_the_second_message(request: Pending) -> Verdict:
    return "approve" if await messages_said(request) == 2 else None


def message_was_kept(told: Told, requests: list[Request]) -> None:
    assert len(requests) == 2
    assert outputs(requests[1]) == ["refunded 7"]
    assert told.world.times("refunded 7") == 1
    assert said(requests[1]) == ["Refund order 7", "One moment.", "And hurry"]
    assert requests[1].messages[-1].text == "And hurry"  # after the whole batch
    assert [message.text for message in told.session.messages] == ["Refund order 7", "One moment.", "And hurry", "Understood."]


STORIES["a message while an approval is pending is kept, and seen after the batch is answered"] = story(
    lambda world: refund_desk(world, "queue"), ["Refund order 7", "And hurry"], message_was_kept, only_after_the_second_message
)


def call_was_superseded(told: Told, requests: list[Request]) -> None:
    assert len(requests) == 2
    assert "the user sent a new message first" in outputs(requests[1])[0]
    assert said(requests[1])[-1] == "No, wait"
    assert told.world.deeds == []
    assert told.session.pending == []


STORIES["a message supersedes a pending approval where the workflow says so"] = story(
    lambda world: refund_desk(world, "supersede"), ["Refund order 7", "No, wait"], call_was_superseded, lambda request: None
)

# -- 28: needs_approval as a function ----------------------------------------------------------------------------------


def sometimes_gated(world: World) -> Workflow:
    async def large(ctx: ToolContext[Any], arguments: dict[str, Any], call: Any) -> bool:
        assert call.tool == "refund"
        assert call.arguments == arguments
        return bool(arguments["cents"] > 1000)

    @tool(needs_approval=large)
    async def refund(cents: int, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"refunded {cents}")

    model = ScriptedModel(by_agent={"refunds": [[call("refund", cents=10), call("refund", cents=5000)], "Done."]})
    return HandoffBuilder("desk", [Agent("refunds", model=model, tools=[refund])]).build()


def asked_for_the_large_one(told: Told, requests: list[Request]) -> None:
    facts = told.session.facts
    gates = {nth_call(facts, fact.call): fact.needed for fact in facts if isinstance(fact, ApprovalChecked)}
    assert gates == {0: False, 1: True}
    assert outputs(requests[1]) == ["refunded 10", "Not run: a person declined this call. Too much."]
    assert [told.world.times(f"refunded {cents}") for cents in (10, 5000)] == [1, 0]


STORIES["needs_approval as an async function: its verdict is recorded for each call"] = story(
    sometimes_gated, ["Refund both"], asked_for_the_large_one, lambda request: ("reject", "Too much.")
)

# -- 30: results from outside ------------------------------------------------------------------------------------------


def deferred_desk(world: World) -> Workflow:
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


def outside(request: Pending) -> Verdict:
    if request.kind == "approval":
        return "approve"
    return "answer", {"covered": True} if request.tool == "ask_bank" else "Yes, it is legal."


def results_arrived(told: Told, requests: list[Request]) -> None:
    assert [json.loads(outputs(requests[1])[0]), outputs(requests[1])[1]] == [{"covered": True}, "Yes, it is legal."]
    assert not any(isinstance(fact, CallStarted) for fact in told.session.facts)


STORIES["a deferred tool's result is supplied from outside, after approval where that is needed"] = story(
    deferred_desk, ["Is it covered?"], results_arrived, outside
)

# -- more --------------------------------------------------------------------------------------------------------------


def standing_desk(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def send(to: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"sent to {to}")

    script = {
        "mailer": [call("send", to="ann"), [call("send", to="bob"), call("send", to="cid")], handoff("other")],
        "other": [call("send", to="dan"), "Sent."],
    }
    model = ScriptedModel(by_agent=script)
    return HandoffBuilder("mail", [Agent(name, model=model, tools=[send]) for name in script]).build()


def always(request: Pending) -> Verdict:
    return ("reject", "Not this one.") if request.arguments["to"] == "dan" else "always"


def stands_for_one_agent(told: Told, requests: list[Request]) -> None:
    assert [told.world.times(f"sent to {name}") for name in ("ann", "bob", "cid", "dan")] == [1, 1, 1, 0]
    decisions = [fact for fact in told.session.facts if isinstance(fact, Decided) and fact.kind == "approval"]
    decided = [(nth_call(told.session.facts, fact.call), fact.source) for fact in decisions if fact.call]
    assert decided == [(0, ""), (0, "standing"), (1, "standing"), (0, "")]
    assert "Not this one." in outputs(requests[-1])[-1]


STORIES["approve always: later calls of that tool by that agent record their own approval; another agent's call is asked about"] = story(
    standing_desk, ["Send"], stands_for_one_agent, always
)


def capped_desk(world: World) -> Workflow:
    @tool
    async def step(number: int, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"step {number}")

    model = ScriptedModel(by_agent={"walker": [[call("step", number=number) for number in range(5)], "I stopped."]})
    return HandoffBuilder("walk", [Agent("walker", model=model, tools=[step])]).with_limits(Limits(tool_calls=2, turns=9)).build()


def stopped_after_four(told: Told, requests: list[Request]) -> None:
    # Two, and once more as many; an attempt that was lost and run again counts too, so a death may cost a step.
    steps = [told.world.times(f"step {number}") for number in range(5)]
    starts = sum(isinstance(fact, CallStarted) for fact in told.session.facts)
    lost = sum(isinstance(fact, CallLost) for fact in told.session.facts)
    assert 4 <= starts <= 4 + lost  # what a limit finds started, and a person wants run again, comes to its end
    assert max(steps) == 1
    assert lost or steps == sorted(steps, reverse=True)
    assert len(requests) == 2
    assert "a limit stopped this run" in outputs(requests[1])[-1]
    assert said(requests[1])[-1] == "Never mind"


STORIES["a limit of tool calls, approved once and rejected then: what was not started is answered so, and the turn is the user's"] = story(
    capped_desk, ["Walk", "Never mind"], stopped_after_four, lambda request: "approve" if request.id.endswith("-0") else ("reject", "")
)


def secret_desk(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def log_in(user: str, password: Secret[str], ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"welcome {user}")

    batch = [call("log_in", user="ada", password="hunter2"), call("log_in", user="bob", password=["hunter2"])]
    model = ScriptedModel(by_agent={"door": [batch, "You are in."]})
    return HandoffBuilder("door", [Agent("door", model=model, tools=[log_in])]).build()


def knows_the_password(request: Pending) -> Verdict:
    assert "hunter2" not in request.prompt
    assert "hunter2" not in str(request)
    assert "hunter2" not in repr(request)
    assert request.arguments["password"] == "hunter2"
    return "approve"


def nothing_leaked(told: Told, requests: list[Request]) -> None:
    for event in told.events:
        assert "hunter2" not in str(event)
    (first, *_) = [fact for fact in told.session.facts if isinstance(fact, ModelReplied)]
    assert "hunter2" in str(first)  # the ledger has it, and so do requests
    assert any("hunter2" in call.arguments for message in requests[1].messages for call in message.calls)
    assert told.world.times("welcome ada") == 1
    assert told.world.times("welcome bob") == 0


STORIES["a secret argument is in the ledger and in requests, and masked in every event and prompt"] = story(
    secret_desk, ["Let me in"], nothing_leaked, knows_the_password
)


def nothing_said_while_waiting(told: Told, requests: list[Request]) -> None:
    assert sum(isinstance(fact, MessageReceived) for fact in told.session.facts) == 3
    assert requests[1].messages[-1].text == "Third"
    assert requests[1].messages[-2].text == "Second"
    assert outputs(requests[1]) == ["refunded 7"]


async def only_after_the_third_message(request: Pending) -> Verdict:
    return "approve" if await messages_said(request) == 3 else None


STORIES["two messages while an approval is pending are both seen, in order, in one request"] = story(
    lambda world: refund_desk(world, "queue"), ["First", "Second", "Third"], nothing_said_while_waiting, only_after_the_third_message
)
