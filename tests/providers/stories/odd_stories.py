"""Stories with contents that some APIs cannot express. They are played over provider formats only."""

from __future__ import annotations

from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import Call, OutputText, Refusal
from legato.core.view import ModelRequest
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import Story, StoryResult, World
from tests.stories.conversation_checks import list_called_tools, list_outputs, list_texts
from tests.stories.story_builder import do_deed, make_story

STORIES: dict[str, Story] = {}


def make_talker(world: World) -> Workflow:
    @tool
    async def look(ctx: ToolContext[Any], where: str = "here") -> str:
        return do_deed(world, ctx, f"looked {where}")

    around = [OutputText("First."), Call("look", ""), OutputText("  "), call("look", where="there"), OutputText("Last."), handoff("closer")]
    model = ScriptedModel(by_agent={"talker": [around], "closer": [["That", "is", "all."], "Still."]})
    return HandoffBuilder("talk", [Agent("talker", "Talk.", model, tools=[look]), Agent("closer", "Close.", model)]).build()


def nothing_is_lost(played: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_called_tools(requests[1]) == ["look", "look", "handoff_to_closer"]
    assert list_outputs(requests[1])[:2] == ["looked here", "looked there"]
    assert list_texts(requests[2]) == ["Go", "First.\n  \nLast.", "That\nis\nall.", "Sure?"]


STORIES["words before, between and after calls, blank ones too, and a call without arguments"] = make_story(
    make_talker, ["Go", "Sure?"], nothing_is_lost
)


def make_guard(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"guard": [Refusal("I cannot help with that."), "With this I can."]})
    return HandoffBuilder("gate", [Agent("guard", "Guard.", model)]).build()


def goes_on(played: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_texts(requests[1]) == ["Open the vault", "I cannot help with that.", "Open the door"]


STORIES["a model declines, and goes on when it is asked for something else"] = make_story(
    make_guard, ["Open the vault", "Open the door"], goes_on
)


def make_listener(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"ear": ["I hear.", "I hear more."]})
    return HandoffBuilder("listen", [Agent("ear", model=model)]).build()


def parts_stay(played: StoryResult, requests: list[ModelRequest]) -> None:
    assert [part.text for part in requests[1].messages[0].parts] == ["One.", "Two."]  # type: ignore[union-attr]


STORIES["a message of several texts"] = make_story(make_listener, [["One.", "Two."], "Three."], parts_stay)
