"""Stories of agents that go on by themselves, and of conversations that end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato import Agent, HandoffBuilder, Message, ToolContext, Workflow, tool
from legato.core.facts import AgentPrompted, GuardrailJudged, MessageReceived, ModelReplied
from legato.core.view import Request
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import Story, Told, World
from tests.stories.checking import outputs, said
from tests.stories.telling import done, story

STORIES: dict[str, Story] = {}

# -- 18: prompted to go on ---------------------------------------------------------------------------------------------


def writer(world: World, limit: int) -> Workflow:
    model = ScriptedModel(lambda seen: f"Chapter {seen.turn + 1}.")
    agent = Agent("writer", model=model)
    return HandoffBuilder("book", [agent]).with_autonomous_mode([agent], {agent: "Next chapter."}, {agent: limit}).build()


def prompted(*runs: int) -> Callable[[Told, list[Request]], None]:
    """So many prompts after each message of the user, and then the user is asked."""

    def check(told: Told, requests: list[Request]) -> None:
        counts: list[int] = []
        for fact in told.session.facts:
            if isinstance(fact, MessageReceived):
                counts.append(0)
            elif isinstance(fact, AgentPrompted):
                counts[-1] += 1
                assert fact.text == "Next chapter."
        assert counts == list(runs)
        assert told.session.status == "waiting"
        assert len(requests) == len(runs) + sum(runs)
        # A prompt is seen by the model and is no message of the user's.
        assert [message.role for message in told.session.messages].count("user") == len(runs)
        synthetic = [message.text for message in requests[-1].messages if message.synthetic]
        assert synthetic == ["Next chapter."] * sum(runs)

    return check


STORIES["an agent that answers without handing off is prompted to go on until its turn limit; then the user is asked"] = story(
    lambda world: writer(world, 3), ["Write a book", "More"], prompted(3, 3)
)
STORIES["an autonomous limit of 0 means 0"] = story(lambda world: writer(world, 0), ["Write a book", "More"], prompted(0, 0))


def autonomous_pair(world: World) -> Workflow:
    @tool
    async def research(topic: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"{topic} is known")

    script = {
        "thinker": ["Hm.", call("research", topic="rain"), "I know about rain.", handoff("writer"), "Back. One.", "Two.", "Three."],
        "writer": ["Draft.", ["Done.", handoff("thinker")]],
    }
    model = ScriptedModel(by_agent=script)
    agents = [Agent("thinker", model=model, tools=[research]), Agent("writer", model=model)]
    return HandoffBuilder("pair", agents).with_autonomous_mode(turn_limits={"thinker": 2, "writer": 2}).build()


def counted_since_control_came(told: Told, requests: list[Request]) -> None:
    agents = [request.agent for request in requests]
    assert agents == ["thinker"] * 4 + ["writer"] * 2 + ["thinker"] * 3
    assert sum(isinstance(fact, AgentPrompted) for fact in told.session.facts) == 2 + 1 + 2
    assert told.world.times("rain is known") == 1
    assert told.session.status == "waiting"
    assert told.session.messages[-1].text == "Three."


STORIES["an autonomous limit counts since control came to the agent; tool turns cost none of it"] = story(
    autonomous_pair, ["Write about rain"], counted_since_control_came
)

# -- 19: termination ---------------------------------------------------------------------------------------------------


def ending_desk(world: World, condition: Callable[[Sequence[Message]], Any]) -> Workflow:
    @tool(needs_approval=True)
    async def refund(order: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"refunded {order}")

    script = {
        "triage": ["Hello.", handoff("refunds")],
        "refunds": [["Refunding.", call("refund", order="7")], "Goodbye.", "Hello again.", "Goodbye again."],
    }
    model = ScriptedModel(by_agent=script)
    agents = [Agent("triage", model=model), Agent("refunds", model=model, tools=[refund])]
    return (
        HandoffBuilder("desk", agents)
        .with_autonomous_mode(["triage"], turn_limits={"triage": 1})
        .with_termination_condition(condition)
        .build()
    )


def is_over(messages: Sequence[Message]) -> bool:
    """Sees a conversation of messages, and nothing else."""
    assert all(message.role in ("user", "assistant") for message in messages)
    assert all(message.text for message in messages)
    assert not any(message.synthetic or message.calls or message.call for message in messages)
    users = [message.text for message in messages if message.role == "user"]
    assert users == ["Refund order 7", "One more thing", "And bye"][: len(users)]
    authors = [(message.author_name, message.text) for message in messages if message.role == "assistant"]
    assert authors[:3] == [("triage", "Hello."), ("refunds", "Refunding."), ("refunds", "Goodbye.")][: len(authors)]
    return messages[-1].text.startswith("Goodbye")


async def is_over_async(messages: Sequence[Message]) -> bool:
    return is_over(messages)


def ended_and_began_anew(told: Told, requests: list[Request]) -> None:
    assert told.session.status == "terminated"
    assert told.world.times("refunded 7") == 1
    assert [request.agent for request in requests] == ["triage", "triage", "refunds", "refunds", "refunds", "refunds"]
    facts = told.session.facts
    replies = [position for position, fact in enumerate(facts) if isinstance(fact, ModelReplied)]
    verdicts = {fact.position: fact.stop for fact in facts if isinstance(fact, GuardrailJudged) and fact.kind == "termination"}
    assert [verdicts[reply] for reply in replies] == [False, False, False, True, False, True]
    # After a terminated run a new message starts a new run in the same conversation, with its history.
    assert said(requests[4]) == ["Refund order 7", "Hello.", "Refunding.", "Goodbye.", "One more thing"]
    assert outputs(requests[4]) == ["Control passed to refunds.", "refunded 7"]


for _title, _condition in (("sync", is_over), ("async", is_over_async)):
    STORIES[
        f"a {_title} termination condition sees messages with their authors, and no tool traffic; satisfied, no further request is made; "
        "a new message goes on with the history"
    ] = story(
        lambda world, condition=_condition: ending_desk(world, condition),
        ["Refund order 7", "One more thing", "And bye"],
        ended_and_began_anew,
    )


def ends_with_a_call(world: World) -> Workflow:
    @tool
    async def close(ctx: ToolContext[Any]) -> str:
        return done(world, ctx, "closed")

    model = ScriptedModel(by_agent={"clerk": [["We are closed.", call("close")], "Open again."]})
    return (
        HandoffBuilder("shop", [Agent("clerk", model=model, tools=[close])])
        .with_termination_condition(lambda messages: messages[-1].text == "We are closed.")
        .build()
    )


def batch_is_answered_first(told: Told, requests: list[Request]) -> None:
    assert told.world.times("closed") == 1
    assert len(requests) == 2
    assert outputs(requests[1]) == ["closed"]
    assert [message.text for message in requests[1].messages][-1] == "Hello?"
    assert told.session.status == "waiting"


STORIES["a reply that ends the conversation and makes a call: the call is answered first, and seen when the user speaks again"] = story(
    ends_with_a_call, ["Good evening", "Hello?"], batch_is_answered_first
)
