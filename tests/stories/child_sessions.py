"""Stories of agents that work as tools, in child sessions, and need decisions of people."""

from __future__ import annotations

from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import CallPaused, CallReturned, MessageReceived
from legato.core.pending_requests import Pending
from legato.core.view import ModelRequest
from legato.testing import ScriptedModel, call, handoff
from legato.testing.scripted_users import Verdict
from legato.testing.story import Story, StoryResult, World
from tests.stories.conversation_checks import list_outputs
from tests.stories.story_builder import count_messages, do_deed, make_story

STORIES: dict[str, Story] = {}


def make_payer(world: World, *replies: Any) -> Agent:
    """Return an agent that pays, if people approve."""

    @tool(needs_approval=True)
    async def pay(to: str, cents: int, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"paid {cents} to {to}")

    @tool
    async def look_up(to: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"looked up {to}")

    @tool(deferred=True)
    async def ask_bank(question: str) -> str:
        raise AssertionError("deferred")

    model = ScriptedModel(by_agent={"payer": list(replies)})
    return Agent("payer", model=model, tools=[pay, look_up, ask_bank], description="Pays people.")


# -- one level ---------------------------------------------------------------------------------------------------------


def build_office(world: World) -> Workflow:
    batch = [call("look_up", to="ann"), call("pay", to="ann", cents=5), call("pay", to="bob", cents=6), call("pay", to="cyd", cents=7)]
    helper = make_payer(world, batch, "Two of three are paid.")
    script = {"boss": [call("ask_payer", task="Pay all three"), handoff("clerk")], "clerk": ["Noted."]}
    model = ScriptedModel(by_agent=script)
    return HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool()]), Agent("clerk", model=model)]).build()


def decide_payments(request: Pending) -> Verdict:
    assert request.agent == "payer"
    assert request.session.startswith("story/")
    return {"ann": "approve", "bob": ("reject", "Not Bob."), "cyd": ("edit", {"to": "cyd", "cents": 1})}[request.arguments["to"]]


async def check_child_decisions(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert [result.world.count(what) for what in ("paid 5 to ann", "paid 6 to bob", "paid 7 to cyd", "paid 1 to cyd")] == [1, 0, 0, 1]
    assert list_outputs(requests[1]) == ["Two of three are paid."]
    assert list_outputs(requests[2])[0] == "Two of three are paid."
    inner = [request for request in result.requests if request.session_id != result.session.id]
    looked_up, ann, bob, cyd = list_outputs(inner[-1])
    assert (looked_up, ann) == ("looked up ann", "paid 5 to ann")
    assert "Not Bob." in bob
    assert cyd.endswith("paid 1 to cyd")
    assert sum(isinstance(fact, MessageReceived) for fact in await result.session.store.read(inner[-1].session_id)) == 1
    reported = [event.data for event in result.events if event.type == "request_info" and isinstance(event.data, Pending)]
    by_kind = {(request.kind, request.tool) for request in reported}
    assert by_kind <= {("approval", "pay"), ("outcome", "pay"), ("outcome", "look_up"), ("outcome", "ask_payer")}


STORIES["an agent as a tool asks people: approve, reject and edit in the outer session, and both conversations go on"] = make_story(
    build_office, ["Pay ann, bob and cyd"], check_child_decisions, decide_payments
)

# -- any depth, and beside the parent's own requests -------------------------------------------------------------------


def build_holding(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def sign(ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, "signed")

    @tool
    async def file(ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, "filed")

    inner = make_payer(world, [call("pay", to="dan", cents=9), call("ask_bank", question="rate?")], "Paid at the bank's rate.")
    middle = Agent(
        "manager",
        model=ScriptedModel(by_agent={"manager": [[call("sign"), call("ask_payer", task="Pay dan")], "The payer says it is paid."]}),
        tools=[sign, inner.as_tool()],
    )
    model = ScriptedModel(by_agent={"boss": [[call("ask_manager", task="See to dan"), call("sign"), call("file")], "All settled."]})
    return HandoffBuilder("holding", [Agent("boss", model=model, tools=[middle.as_tool(), sign, file])]).build()


def check_all_levels_are_asked(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_outputs(requests[1]) == ["The payer says it is paid.", "signed", "filed"]
    assert [result.world.count(what) for what in ("signed", "filed", "paid 9 to dan")] == [2, 1, 1]


STORIES["an agent of an agent of an agent asks people, beside what its callers ask: all is answered in the outermost session"] = make_story(
    build_holding, ["See to dan"], check_all_levels_are_asked
)

# -- messages ----------------------------------------------------------------------------------------------------------


def build_hurried(world: World, messages: str) -> Workflow:
    model = ScriptedModel(by_agent={"boss": [call("ask_payer", task="Pay eve"), "I heard you."]})
    boss = Agent("boss", model=model, tools=[make_payer(world, call("pay", to="eve", cents=3), "Eve is paid.").as_tool()])
    return HandoffBuilder("hurry", [boss]).with_messages(messages).build()


async def check_call_is_abandoned(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert result.world.effects == []
    (output,) = list_outputs(requests[1])
    # A process that died between the stop of the child session and the answer to the call left a call that resumes a stopped child.
    assert "the user sent a new message first" in output or output.endswith("payer did not finish: cancelled")
    assert requests[1].messages[-1].text == "Stop, do not pay"
    (paused, *_) = [fact for fact in result.session.facts if isinstance(fact, CallPaused)]
    inner = await result.session.store.read(paused.session)
    assert [fact.status for fact in inner if isinstance(fact, CallReturned)] == ["cancelled"]


STORIES["a message supersedes a call that waits for another conversation: that is stopped first, and nothing of it runs"] = make_story(
    lambda world: build_hurried(world, "supersede"), ["Pay eve", "Stop, do not pay"], check_call_is_abandoned, lambda request: None
)


def check_message_waits(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert result.world.count("paid 3 to eve") == 1
    assert list_outputs(requests[1]) == ["Eve is paid."]
    assert requests[1].messages[-1].text == "Are you there?"


async def approve_after_second_message(request: Pending) -> Verdict:
    return "approve" if await count_messages(request) == 2 else None


STORIES["a message while a call waits for another conversation is kept, and seen after the call is answered"] = make_story(
    lambda world: build_hurried(world, "queue"), ["Pay eve", "Are you there?"], check_message_waits, approve_after_second_message
)
