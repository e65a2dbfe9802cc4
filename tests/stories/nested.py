"""Stories of agents that work as tools and have to ask people."""

from __future__ import annotations

from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import CallPaused, CallReturned, MessageReceived
from legato.core.pending_requests import Pending
from legato.core.view import Request
from legato.testing import ScriptedModel, call, handoff
from legato.testing.people import Verdict
from legato.testing.story import Story, Told, World
from tests.stories.checking import outputs
from tests.stories.telling import done, messages_said, story

STORIES: dict[str, Story] = {}


def payer(world: World, *replies: Any) -> Agent:
    """An agent that pays, if people let it."""

    @tool(needs_approval=True)
    async def pay(to: str, cents: int, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"paid {cents} to {to}")

    @tool
    async def look_up(to: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"looked up {to}")

    @tool(deferred=True)
    async def ask_bank(question: str) -> str:
        raise AssertionError("deferred")

    model = ScriptedModel(by_agent={"payer": list(replies)})
    return Agent("payer", model=model, tools=[pay, look_up, ask_bank], description="Pays people.")


# -- one level -----------------------------------------------------------------------------------------------------------


def office(world: World) -> Workflow:
    batch = [call("look_up", to="ann"), call("pay", to="ann", cents=5), call("pay", to="bob", cents=6), call("pay", to="cyd", cents=7)]
    helper = payer(world, batch, "Two of three are paid.")
    script = {"boss": [call("ask_payer", task="Pay all three"), handoff("clerk")], "clerk": ["Noted."]}
    model = ScriptedModel(by_agent=script)
    return HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool()]), Agent("clerk", model=model)]).build()


def two_of_three(request: Pending) -> Verdict:
    assert request.agent == "payer"
    assert request.session.startswith("story/")
    return {"ann": "approve", "bob": ("reject", "Not Bob."), "cyd": ("edit", {"to": "cyd", "cents": 1})}[request.arguments["to"]]


async def nested_calls_were_decided(told: Told, requests: list[Request]) -> None:
    assert [told.world.times(what) for what in ("paid 5 to ann", "paid 6 to bob", "paid 7 to cyd", "paid 1 to cyd")] == [1, 0, 0, 1]
    assert outputs(requests[1]) == ["Two of three are paid."]
    assert outputs(requests[2])[0] == "Two of three are paid."
    inner = [request for request in told.requests if request.session != told.session.id]
    looked_up, ann, bob, cyd = outputs(inner[-1])
    assert (looked_up, ann) == ("looked up ann", "paid 5 to ann")
    assert "Not Bob." in bob
    assert cyd.endswith("paid 1 to cyd")
    assert sum(isinstance(fact, MessageReceived) for fact in await told.session.store.read(inner[-1].session)) == 1
    asked = [event.data for event in told.events if event.type == "request_info" and isinstance(event.data, Pending)]
    by_kind = {(request.kind, request.tool) for request in asked}
    assert by_kind <= {("approval", "pay"), ("outcome", "pay"), ("outcome", "look_up"), ("outcome", "ask_payer")}


STORIES["an agent as a tool asks people: approve, reject and edit in the outer session, and both conversations go on"] = story(
    office, ["Pay ann, bob and cyd"], nested_calls_were_decided, two_of_three
)

# -- any depth, and beside requests of one's own ---------------------------------------------------------------------------


def holding(world: World) -> Workflow:
    @tool(needs_approval=True)
    async def sign(ctx: ToolContext[Any]) -> str:
        return done(world, ctx, "signed")

    @tool
    async def file(ctx: ToolContext[Any]) -> str:
        return done(world, ctx, "filed")

    inner = payer(world, [call("pay", to="dan", cents=9), call("ask_bank", question="rate?")], "Paid at the bank's rate.")
    middle = Agent(
        "manager",
        model=ScriptedModel(by_agent={"manager": [[call("sign"), call("ask_payer", task="Pay dan")], "The payer says it is paid."]}),
        tools=[sign, inner.as_tool()],
    )
    model = ScriptedModel(by_agent={"boss": [[call("ask_manager", task="See to dan"), call("sign"), call("file")], "All settled."]})
    return HandoffBuilder("holding", [Agent("boss", model=model, tools=[middle.as_tool(), sign, file])]).build()


def all_levels_were_asked(told: Told, requests: list[Request]) -> None:
    assert outputs(requests[1]) == ["The payer says it is paid.", "signed", "filed"]
    assert [told.world.times(what) for what in ("signed", "filed", "paid 9 to dan")] == [2, 1, 1]


STORIES["an agent of an agent of an agent asks people, beside what its callers ask: all is answered in the outermost session"] = story(
    holding, ["See to dan"], all_levels_were_asked
)

# -- messages --------------------------------------------------------------------------------------------------------------


def hurried(world: World, messages: str) -> Workflow:
    model = ScriptedModel(by_agent={"boss": [call("ask_payer", task="Pay eve"), "I heard you."]})
    boss = Agent("boss", model=model, tools=[payer(world, call("pay", to="eve", cents=3), "Eve is paid.").as_tool()])
    return HandoffBuilder("hurry", [boss]).with_messages(messages).build()


async def given_up(told: Told, requests: list[Request]) -> None:
    assert told.world.deeds == []
    (output,) = outputs(requests[1])
    # Whoever died after the conversation was stopped, and before the call was answered, left a call that goes on, to a stopped end.
    assert "the user sent a new message first" in output or output.endswith("payer did not finish: cancelled")
    assert requests[1].messages[-1].text == "Stop, do not pay"
    (paused, *_) = [fact for fact in told.session.facts if isinstance(fact, CallPaused)]
    inner = await told.session.store.read(paused.session)
    assert [fact.status for fact in inner if isinstance(fact, CallReturned)] == ["cancelled"]


STORIES["a message supersedes a call that waits for another conversation: that is stopped first, and nothing of it runs"] = story(
    lambda world: hurried(world, "supersede"), ["Pay eve", "Stop, do not pay"], given_up, lambda request: None
)


def kept_waiting(told: Told, requests: list[Request]) -> None:
    assert told.world.times("paid 3 to eve") == 1
    assert outputs(requests[1]) == ["Eve is paid."]
    assert requests[1].messages[-1].text == "Are you there?"


async def after_the_second_message(request: Pending) -> Verdict:
    return "approve" if await messages_said(request) == 2 else None


STORIES["a message while a call waits for another conversation is kept, and seen after the call is answered"] = story(
    lambda world: hurried(world, "queue"), ["Pay eve", "Are you there?"], kept_waiting, after_the_second_message
)
