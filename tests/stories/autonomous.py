"""Stories of autonomous agents, and of termination conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato import Agent, HandoffBuilder, Message, ToolContext, Workflow, tool
from legato.core.facts import AgentPrompted, MessageReceived, ModelReplied, TerminationJudged
from legato.core.view import ModelRequest
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import Story, StoryResult, World
from tests.stories.conversation_checks import list_outputs, list_texts
from tests.stories.story_builder import do_deed, make_story

STORIES: dict[str, Story] = {}

# -- 18: autonomous agents ---------------------------------------------------------------------------------------------


def build_writer(world: World, limit: int) -> Workflow:
    model = ScriptedModel(lambda seen: f"Chapter {seen.reply_count + 1}.")
    agent = Agent("writer", model=model)
    return HandoffBuilder("book", [agent]).with_autonomous_mode([agent], {agent: "Next chapter."}, {agent: limit}).build()


def make_prompt_count_check(*runs: int) -> Callable[[StoryResult, list[ModelRequest]], None]:
    """Return a check of the number of prompts after each message of the user."""

    def check(result: StoryResult, requests: list[ModelRequest]) -> None:
        counts: list[int] = []
        for fact in result.session.facts:
            if isinstance(fact, MessageReceived):
                counts.append(0)
            elif isinstance(fact, AgentPrompted):
                counts[-1] += 1
                assert fact.text == "Next chapter."
        assert counts == list(runs)
        assert result.session.status == "waiting"
        assert len(requests) == len(runs) + sum(runs)
        # A prompt is in the model's request, and is no message of the user.
        assert [message.role for message in result.session.messages].count("user") == len(runs)
        synthetic = [message.text for message in requests[-1].messages if message.synthetic]
        assert synthetic == ["Next chapter."] * sum(runs)

    return check


STORIES["an agent that answers without handing off is prompted to go on until its turn limit; then the user is asked"] = make_story(
    lambda world: build_writer(world, 3), ["Write a book", "More"], make_prompt_count_check(3, 3)
)
STORIES["an autonomous limit of 0 means 0"] = make_story(
    lambda world: build_writer(world, 0), ["Write a book", "More"], make_prompt_count_check(0, 0)
)


def build_autonomous_pair(world: World) -> Workflow:
    @tool
    async def research(topic: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"{topic} is known")

    script = {
        "thinker": ["Hm.", call("research", topic="rain"), "I know about rain.", handoff("writer"), "Back. One.", "Two.", "Three."],
        "writer": ["Draft.", ["Done.", handoff("thinker")]],
    }
    model = ScriptedModel(by_agent=script)
    agents = [Agent("thinker", model=model, tools=[research]), Agent("writer", model=model)]
    return HandoffBuilder("pair", agents).with_autonomous_mode(turn_limits={"thinker": 2, "writer": 2}).build()


def check_limit_counts_since_handoff(result: StoryResult, requests: list[ModelRequest]) -> None:
    agents = [request.agent for request in requests]
    assert agents == ["thinker"] * 4 + ["writer"] * 2 + ["thinker"] * 3
    assert sum(isinstance(fact, AgentPrompted) for fact in result.session.facts) == 2 + 1 + 2
    assert result.world.count("rain is known") == 1
    assert result.session.status == "waiting"
    assert result.session.messages[-1].text == "Three."


STORIES["an autonomous limit counts since control came to the agent; tool turns cost none of it"] = make_story(
    build_autonomous_pair, ["Write about rain"], check_limit_counts_since_handoff
)

# -- 19: termination ---------------------------------------------------------------------------------------------------


def build_ending_desk(world: World, condition: Callable[[Sequence[Message]], Any]) -> Workflow:
    @tool(needs_approval=True)
    async def refund(order: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"refunded {order}")

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
    """Return True at a goodbye. The condition receives only messages of users and agents."""
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


def check_run_ends_and_restarts(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert result.session.status == "terminated"
    assert result.world.count("refunded 7") == 1
    assert [request.agent for request in requests] == ["triage", "triage", "refunds", "refunds", "refunds", "refunds"]
    facts = result.session.facts
    replies = [position for position, fact in enumerate(facts) if isinstance(fact, ModelReplied)]
    verdicts = {fact.position: fact.stop for fact in facts if isinstance(fact, TerminationJudged)}
    assert [verdicts[reply] for reply in replies] == [False, False, False, True, False, True]
    # After a terminated run a new message starts a new run in the same conversation, with its history.
    assert list_texts(requests[4]) == ["Refund order 7", "Hello.", "Refunding.", "Goodbye.", "One more thing"]
    assert list_outputs(requests[4]) == ["Control passed to refunds.", "refunded 7"]


for _title, _condition in (("sync", is_over), ("async", is_over_async)):
    STORIES[
        f"a {_title} termination condition sees messages with their authors, and no tool traffic; satisfied, no further request is made; "
        "a new message goes on with the history"
    ] = make_story(
        lambda world, condition=_condition: build_ending_desk(world, condition),
        ["Refund order 7", "One more thing", "And bye"],
        check_run_ends_and_restarts,
    )


def build_ending_with_call(world: World) -> Workflow:
    @tool
    async def close(ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, "closed")

    model = ScriptedModel(by_agent={"clerk": [["We are closed.", call("close")], "Open again."]})
    return (
        HandoffBuilder("shop", [Agent("clerk", model=model, tools=[close])])
        .with_termination_condition(lambda messages: messages[-1].text == "We are closed.")
        .build()
    )


def check_batch_is_answered_first(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert result.world.count("closed") == 1
    assert len(requests) == 2
    assert list_outputs(requests[1]) == ["closed"]
    assert [message.text for message in requests[1].messages][-1] == "Hello?"
    assert result.session.status == "waiting"


STORIES["a reply that ends the conversation and makes a call: the call is answered first, and seen when the user speaks again"] = (
    make_story(build_ending_with_call, ["Good evening", "Hello?"], check_batch_is_answered_first)
)
