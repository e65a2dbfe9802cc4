"""Stories of what agents see: policies per agent and per edge, summaries, filters."""

from __future__ import annotations

from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Workflow, history, tool
from legato.core.facts import Compacted, ModelReplied
from legato.core.view import Request
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import Story, Told, World
from tests.stories.checking import calls, outputs, said
from tests.stories.telling import done, story

STORIES: dict[str, Story] = {}


def edge_policy(world: World) -> Workflow:
    @tool
    async def peek(ctx: ToolContext[Any]) -> str:
        return done(world, ctx, "peeked")

    script = {
        "a": [["A peeks.", call("peek")], handoff("c")],
        "b": ["B here.", handoff("c")],
        "c": [["C here.", handoff("b")], "C again."],
    }
    model = ScriptedModel(by_agent=script)
    agents = [Agent(name, model=model, tools=[peek] if name == "a" else []) for name in script]
    return (
        HandoffBuilder("edges", agents)
        .add_handoff("a", "c", history=history.dialogue())
        .add_handoff("c", "b", history=history.since_handoff())
        .add_handoff("b", "c")
        .build()
    )


def by_the_edge(told: Told, requests: list[Request]) -> None:
    assert [request.agent for request in requests] == ["a", "a", "c", "b", "b", "c"]
    by_dialogue, by_handoff, still_by_handoff, by_own = requests[2:]
    assert said(by_dialogue) == ["Go", "A peeks."]
    assert calls(by_dialogue) == []
    assert said(by_handoff) == ["C here."]
    assert calls(by_handoff) == ["handoff_to_b"]
    assert said(still_by_handoff) == ["C here.", "B here.", "On"]
    assert said(by_own) == ["Go", "A peeks.", "C here.", "B here.", "On"]
    assert outputs(by_own)[0] == "peeked"


STORIES["a policy on an edge holds for the target while control came that way, and no longer"] = story(
    edge_policy, ["Go", "On"], by_the_edge
)


def last_turns(world: World) -> Workflow:
    @tool
    async def note(number: int, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"noted {number}")

    def reply(seen: Request) -> Any:
        return call("note", number=seen.turn // 2) if seen.turn % 2 == 0 else f"Note {seen.turn // 2}."

    agent = Agent("clerk", model=ScriptedModel(reply), tools=[note], history=history.last(2))
    return HandoffBuilder("notes", [agent]).build()


def two_turns_back(told: Told, requests: list[Request]) -> None:
    assert said(requests[-1]) == ["three", "Note 2.", "four"]
    assert outputs(requests[-1]) == ["noted 2", "noted 3"]


STORIES["policy last(2): the last two messages and all that followed them, never half a call"] = story(
    last_turns, ["one", "two", "three", "four"], two_turns_back
)


def brief(text: str) -> str:
    return f"<{len(text.splitlines())} lines, up to {text.splitlines()[-1]}>"


def summarised(world: World) -> Workflow:
    @tool
    async def fetch(number: int, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"page {number} " + "x" * 200)

    def reply(seen: Request) -> Any:
        return call("fetch", number=seen.turn // 2) if seen.turn % 2 == 0 else f"Read {seen.turn // 2}."

    agent = Agent("reader", model=ScriptedModel(reply), tools=[fetch], history=history.summarised(150, by=brief, keep=1))
    return HandoffBuilder("read", [agent]).build()


def summary_stands_for_the_rest(told: Told, requests: list[Request]) -> None:
    compacted = [fact for fact in told.session.facts if isinstance(fact, Compacted)]
    assert compacted
    assert [fact.upto for fact in compacted] == sorted({fact.upto for fact in compacted})
    last = requests[-1]
    assert last.summary == compacted[-1].summary
    assert sum("Summary of the conversation" in message.text for message in last.messages) == 1
    assert said(last)[-1] == "five"
    # What the summary covers is not sent, and nothing that it does not cover is missing.
    covered = compacted[-1].upto
    texts = {position: fact.content for position, fact in enumerate(told.session.facts) if hasattr(fact, "content")}
    assert said(last)[0] == next(text for position, text in sorted(texts.items()) if position > covered)
    assert len(told.session.messages) == 10  # the facts stay


STORIES["a summary stands for what it covers, each message is in it or in the request, and the facts stay"] = story(
    summarised, ["one", "two", "three", "four", "five"], summary_stands_for_the_rest
)


def without_chatter(groups: list[Any]) -> list[Any]:
    return [group for group in groups if group.agent != "chatterbox"]


def filtered(world: World) -> Workflow:
    @tool
    async def sing(ctx: ToolContext[Any]) -> str:
        return done(world, ctx, "la la")

    script = {
        "chatterbox": [["Blah.", call("sing")], ["Blah blah.", handoff("monk")]],
        "monk": ["...", "......"],
    }
    model = ScriptedModel(by_agent=script)
    agents = [Agent("chatterbox", model=model, tools=[sing]), Agent("monk", model=model, history=history.custom(without_chatter))]
    return HandoffBuilder("temple", agents).build()


def monk_heard_no_chatter(told: Told, requests: list[Request]) -> None:
    assert said(requests[-1]) == ["Speak", "...", "Go on"]
    assert calls(requests[-1]) == []
    kept = [fact.kept for fact in told.session.facts if isinstance(fact, ModelReplied) and fact.agent == "monk"]
    assert kept == [((0, 0),), ((0, 0), (3, 4))]


STORIES["a custom filter chooses what an agent sees; the choice is recorded, and the request can be shown again"] = story(
    filtered, ["Speak", "Go on"], monk_heard_no_chatter
)
