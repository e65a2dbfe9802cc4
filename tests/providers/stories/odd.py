"""Stories of things that not every API can say as they were said. Told over the wires only: to a script they are nothing special."""

from __future__ import annotations

from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import Call, Refusal, Words
from legato.core.view import Request
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import Story, Told, World
from tests.stories.checking import calls, outputs, said
from tests.stories.telling import done, story

STORIES: dict[str, Story] = {}


def chatter(world: World) -> Workflow:
    @tool
    async def look(ctx: ToolContext[Any], where: str = "here") -> str:
        return done(world, ctx, f"looked {where}")

    around = [Words("First."), Call("look", ""), Words("  "), call("look", where="there"), Words("Last."), handoff("closer")]
    model = ScriptedModel(by_agent={"talker": [around], "closer": [["That", "is", "all."], "Still."]})
    return HandoffBuilder("talk", [Agent("talker", "Talk.", model, tools=[look]), Agent("closer", "Close.", model)]).build()


def nothing_is_lost(told: Told, requests: list[Request]) -> None:
    assert calls(requests[1]) == ["look", "look", "handoff_to_closer"]
    assert outputs(requests[1])[:2] == ["looked here", "looked there"]
    assert said(requests[2]) == ["Go", "First.\n  \nLast.", "That\nis\nall.", "Sure?"]


STORIES["words before, between and after calls, blank ones too, and a call without arguments"] = story(
    chatter, ["Go", "Sure?"], nothing_is_lost
)


def declining(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"guard": [Refusal("I cannot help with that."), "With this I can."]})
    return HandoffBuilder("gate", [Agent("guard", "Guard.", model)]).build()


def goes_on(told: Told, requests: list[Request]) -> None:
    assert said(requests[1]) == ["Open the vault", "I cannot help with that.", "Open the door"]


STORIES["a model declines, and goes on when it is asked for something else"] = story(
    declining, ["Open the vault", "Open the door"], goes_on
)


def listener(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"ear": ["I hear.", "I hear more."]})
    return HandoffBuilder("listen", [Agent("ear", model=model)]).build()


def parts_stay(told: Told, requests: list[Request]) -> None:
    assert [part.text for part in requests[1].messages[0].parts] == ["One.", "Two."]  # type: ignore[union-attr]


STORIES["a message of several texts"] = story(listener, [["One.", "Two."], "Three."], parts_stay)
