"""Stories of history policies: per agent and per edge, summaries, filters."""

from __future__ import annotations

from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Workflow, history, tool
from legato.core.facts import Compacted, ModelReplied
from legato.core.view import ModelRequest
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import Story, StoryResult, World
from tests.stories.conversation_checks import list_called_tools, list_outputs, list_texts
from tests.stories.story_builder import do_deed, make_story

STORIES: dict[str, Story] = {}


def build_edge_policy(world: World) -> Workflow:
    @tool
    async def peek(ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, "peeked")

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


def check_policy_of_edge(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert [request.agent for request in requests] == ["a", "a", "c", "b", "b", "c"]
    by_dialogue, by_handoff, still_by_handoff, by_own = requests[2:]
    assert list_texts(by_dialogue) == ["Go", "A peeks."]
    assert list_called_tools(by_dialogue) == []
    assert list_texts(by_handoff) == ["C here."]
    assert list_called_tools(by_handoff) == ["handoff_to_b"]
    assert list_texts(still_by_handoff) == ["C here.", "B here.", "On"]
    assert list_texts(by_own) == ["Go", "A peeks.", "C here.", "B here.", "On"]
    assert list_outputs(by_own)[0] == "peeked"


STORIES["a policy on an edge holds for the target while control came that way, and no longer"] = make_story(
    build_edge_policy, ["Go", "On"], check_policy_of_edge
)


def build_last_turns(world: World) -> Workflow:
    @tool
    async def note(number: int, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"noted {number}")

    def reply(seen: ModelRequest) -> Any:
        return call("note", number=seen.reply_count // 2) if seen.reply_count % 2 == 0 else f"Note {seen.reply_count // 2}."

    agent = Agent("clerk", model=ScriptedModel(reply), tools=[note], history=history.last(2))
    return HandoffBuilder("notes", [agent]).build()


def check_last_two_turns(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_texts(requests[-1]) == ["three", "Note 2.", "four"]
    assert list_outputs(requests[-1]) == ["noted 2", "noted 3"]


STORIES["policy last(2): the last two messages and all that followed them, never half a call"] = make_story(
    build_last_turns, ["one", "two", "three", "four"], check_last_two_turns
)


def summarise(text: str) -> str:
    return f"<{len(text.splitlines())} lines, up to {text.splitlines()[-1]}>"


def build_summarised(world: World) -> Workflow:
    @tool
    async def fetch(number: int, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"page {number} " + "x" * 200)

    def reply(seen: ModelRequest) -> Any:
        return call("fetch", number=seen.reply_count // 2) if seen.reply_count % 2 == 0 else f"Read {seen.reply_count // 2}."

    agent = Agent("reader", model=ScriptedModel(reply), tools=[fetch], history=history.summarised(150, by=summarise, keep=1))
    return HandoffBuilder("read", [agent]).build()


def check_summary_replaces_history(result: StoryResult, requests: list[ModelRequest]) -> None:
    compacted = [fact for fact in result.session.facts if isinstance(fact, Compacted)]
    assert compacted
    assert [fact.upto for fact in compacted] == sorted({fact.upto for fact in compacted})
    last = requests[-1]
    assert last.summary == compacted[-1].summary
    assert sum("Summary of the conversation" in message.text for message in last.messages) == 1
    assert list_texts(last)[-1] == "five"
    # The messages that the summary covers are not sent, and no other message is missing.
    covered = compacted[-1].upto
    texts = {position: fact.content for position, fact in enumerate(result.session.facts) if hasattr(fact, "content")}
    assert list_texts(last)[0] == next(text for position, text in sorted(texts.items()) if position > covered)
    assert len(result.session.messages) == 10  # the facts stay


STORIES["a summary stands for what it covers, each message is in it or in the request, and the facts stay"] = make_story(
    build_summarised, ["one", "two", "three", "four", "five"], check_summary_replaces_history
)


def drop_chatter(groups: list[Any]) -> list[Any]:
    return [group for group in groups if group.agent != "chatterbox"]


def build_filtered(world: World) -> Workflow:
    @tool
    async def sing(ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, "la la")

    script = {
        "chatterbox": [["Blah.", call("sing")], ["Blah blah.", handoff("monk")]],
        "monk": ["...", "......"],
    }
    model = ScriptedModel(by_agent=script)
    agents = [Agent("chatterbox", model=model, tools=[sing]), Agent("monk", model=model, history=history.custom(drop_chatter))]
    return HandoffBuilder("temple", agents).build()


def check_chatter_is_dropped(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_texts(requests[-1]) == ["Speak", "...", "Go on"]
    assert list_called_tools(requests[-1]) == []
    choices = [fact.kept_groups for fact in result.session.facts if isinstance(fact, ModelReplied) and fact.agent == "monk"]
    assert choices == [((0, 0),), ((0, 0), (3, 4))]


STORIES["a custom filter chooses what an agent sees; the choice is recorded, and the request can be shown again"] = make_story(
    build_filtered, ["Speak", "Go on"], check_chatter_is_dropped
)
