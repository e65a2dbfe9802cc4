"""Stories of clients that run tools themselves, and that want the answer in a format of theirs."""

from __future__ import annotations

import json

from legato import Agent, ClientTool, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import ApprovalChecked, Decided, GuardrailJudged
from legato.core.pending_requests import Pending
from legato.core.view import Request
from legato.testing import ScriptedModel, call, handoff
from legato.testing.people import Person, Verdict
from legato.testing.story import Story, Told, World
from tests.stories.checking import outputs
from tests.stories.telling import done, story

STORIES: dict[str, Story] = {}

PAGE = ClientTool("open_page", "Opens a page.", {"properties": {"url": {"type": "string"}}, "required": ["url"]})
CLOCK = ClientTool("clock", "Tells the time.")

ANSWER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


def offering(told: Story, **offer: object) -> Story:
    """The same story with a person who offers this."""
    person = told.person
    return Story(told.build, Person(person.messages, person.decide, steps=person.steps, **offer), told.check)  # type: ignore[arg-type]


def browsing(world: World) -> Workflow:
    @tool
    async def note(text: str, ctx: ToolContext[object]) -> str:
        return done(world, ctx, f"noted {text}")

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


def by_client(request: Pending) -> Verdict:
    assert request.for_client
    return "answer", f"{request.tool} {request.arguments.get('url', 'noon')}"


def each_page_was_opened(told: Told, requests: list[Request]) -> None:
    assert [sorted(spec.name for spec in request.frame.tools if not spec.name.startswith("handoff_to_")) for request in requests] == [
        ["clock", "open_page"],
        *[["clock", "note", "open_page"]] * 3,
    ]
    wrong, noted, clock, first, second = outputs(requests[-1])[-5:]
    assert wrong.startswith("the arguments of open_page are not valid, and it did not run")
    assert (noted, clock, first, second) == ("noted a", "clock noon", "open_page x", "open_page y")
    assert told.world.times("noted a") == 1
    assert [fact.needed for fact in told.session.facts if isinstance(fact, ApprovalChecked)] == [False] * 3
    assert len([fact for fact in told.session.facts if isinstance(fact, Decided) and fact.kind == "result"]) == 3
    assert told.session.messages[-1].text == "Both are open."


STORIES["a client runs tools of its own, beside those of the agent, and wrong arguments never reach it"] = offering(
    story(browsing, ["Open both"], each_page_was_opened, by_client), tools=(PAGE, CLOCK)
)


def formatted(world: World) -> Workflow:
    model = ScriptedModel(
        by_agent={
            "triage": [["I ask the desk.", handoff("desk")]],
            "desk": ["In Bonn.", json.dumps({"town": "Bonn"}), json.dumps({"city": "Bonn"})],
        }
    )
    return HandoffBuilder("formatted", [Agent("triage", model=model), Agent("desk", model=model)]).build()


def answer_fits(told: Told, requests: list[Request]) -> None:
    assert [json.loads(request.frame.output) for request in requests] == [ANSWER] * 4
    assert [fact.stop for fact in told.session.facts if isinstance(fact, GuardrailJudged)] == [True, True, False]
    assert [message.text for message in told.session.messages[1:]] == ["I ask the desk.", '{"city": "Bonn"}']


STORIES["an answer in the format of its client: what does not fit is not shown, and is written again"] = offering(
    story(formatted, ["Where?"], answer_fits), output_schema=ANSWER
)
