"""Stories of clients that execute tools themselves, and that request a format for the answer."""

from __future__ import annotations

import json

from legato import Agent, ClientTool, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import ApprovalChecked, Decided, GuardrailJudged
from legato.core.pending_requests import Pending
from legato.core.view import ModelRequest
from legato.testing import ScriptedModel, call, handoff
from legato.testing.scripted_users import ScriptedUser, Verdict
from legato.testing.story import Story, StoryResult, World
from tests.stories.conversation_checks import list_outputs
from tests.stories.story_builder import do_deed, make_story

STORIES: dict[str, Story] = {}

PAGE = ClientTool("open_page", "Opens a page.", {"properties": {"url": {"type": "string"}}, "required": ["url"]})
CLOCK = ClientTool("clock", "Tells the time.")

ANSWER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


def with_offer(story: Story, **offer: object) -> Story:
    """Return the same story with a person who offers client tools or a format."""
    person = story.user
    return Story(story.build, ScriptedUser(person.messages, person.decide, max_steps=person.max_steps, **offer), story.check)  # type: ignore[arg-type]


def build_browsing(world: World) -> Workflow:
    @tool
    async def note(text: str, ctx: ToolContext[object]) -> str:
        return do_deed(world, ctx, f"noted {text}")

    model = ScriptedModel(
        by_agent={
            "triage": [["One moment.", handoff("desk")]],
            "desk": [
                [call("open_page", url=7), call("note", text="a"), call("clock")],
                [call("open_page", url="x"), call("open_page", url="y")],
                "Both are open.",
            ],
        }
    )
    return HandoffBuilder("browsing", [Agent("triage", model=model), Agent("desk", model=model, tools=[note])]).build()


def answer_as_client(request: Pending) -> Verdict:
    assert request.for_client
    return "answer", f"{request.tool} {request.arguments.get('url', 'noon')}"


def check_pages_are_opened(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert [
        sorted(spec.name for spec in request.turn_context.tools if not spec.name.startswith("handoff_to_")) for request in requests
    ] == [
        ["clock", "open_page"],
        *[["clock", "note", "open_page"]] * 3,
    ]
    wrong, noted, clock, first, second = list_outputs(requests[-1])[-5:]
    assert wrong.startswith("the arguments of open_page are not valid, and it did not run")
    assert (noted, clock, first, second) == ("noted a", "clock noon", "open_page x", "open_page y")
    assert result.world.count("noted a") == 1
    assert [fact.needed for fact in result.session.facts if isinstance(fact, ApprovalChecked)] == [False] * 3
    assert len([fact for fact in result.session.facts if isinstance(fact, Decided) and fact.kind == "result"]) == 3
    assert result.session.messages[-1].text == "Both are open."


STORIES["a client runs tools of its own, beside those of the agent, and wrong arguments never reach it"] = with_offer(
    make_story(build_browsing, ["Open both"], check_pages_are_opened, answer_as_client), tools=(PAGE, CLOCK)
)


def build_formatted(world: World) -> Workflow:
    model = ScriptedModel(
        by_agent={
            "triage": [["I ask the desk.", handoff("desk")]],
            "desk": ["In Bonn.", json.dumps({"town": "Bonn"}), json.dumps({"city": "Bonn"})],
        }
    )
    return HandoffBuilder("formatted", [Agent("triage", model=model), Agent("desk", model=model)]).build()


def check_answer_fits(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert [json.loads(request.turn_context.output) for request in requests] == [ANSWER] * 4
    assert [fact.stop for fact in result.session.facts if isinstance(fact, GuardrailJudged)] == [True, True, False]
    assert [message.text for message in result.session.messages[1:]] == ["I ask the desk.", '{"city": "Bonn"}']


STORIES["an answer in the format of its client: what does not fit is not shown, and is written again"] = with_offer(
    make_story(build_formatted, ["Where?"], check_answer_fits), output_schema=ANSWER
)
