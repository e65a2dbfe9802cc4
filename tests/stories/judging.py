"""Stories of guardrails, typed outputs, context providers and middleware."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from legato import Agent, HandoffBuilder, Middleware, Provided, ToolContext, Turn, Workflow, guardrail, tool
from legato.core.facts import GuardrailJudged, ModelRequestFailed
from legato.core.pending_requests import Pending
from legato.core.view import Request
from legato.errors import ModelFailed
from legato.testing import ScriptedModel, call, handoff
from legato.testing.people import Verdict
from legato.testing.story import Story, Told, World
from tests.stories.checking import outputs, said
from tests.stories.telling import done, story

STORIES: dict[str, Story] = {}

# -- guardrails --------------------------------------------------------------------------------------------------------


@guardrail("input")
async def no_cards(context: Any, text: str) -> str | None:
    return "Please do not send card numbers." if "4111" in text else None


def guarded_input(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"clerk": ["Hello.", "Noted."]})
    return HandoffBuilder("desk", [Agent("clerk", model=model, guardrails=[no_cards])]).build()


def message_was_withheld(told: Told, requests: list[Request]) -> None:
    assert len(requests) == 2
    assert said(requests[1]) == ["Hi", "Hello.", "Sorry, no card"]
    texts = [message.text for message in told.session.messages]
    assert texts == ["Hi", "Hello.", "My card is 4111", "Please do not send card numbers.", "Sorry, no card", "Noted."]
    assert sum(isinstance(fact, GuardrailJudged) and fact.kind == "input" for fact in told.session.facts) == 3


STORIES["an input guardrail withholds a message from every request and answers it in its own words"] = story(
    guarded_input, ["Hi", "My card is 4111", "Sorry, no card"], message_was_withheld
)


@guardrail("output")
def polite(context: Any, text: str) -> str | None:
    return None if "please" in text else "say please"


def guarded_output(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"clerk": ["Your name.", "Your name, please."]})
    return HandoffBuilder("desk", [Agent("clerk", model=model, guardrails=[polite])]).build()


def was_written_again(told: Told, requests: list[Request]) -> None:
    assert len(requests) == 2
    assert requests[1].messages[-1].synthetic
    assert "say please" in requests[1].messages[-1].text
    assert told.session.status == "waiting"
    assert told.session.messages[-1].text == "Your name, please."


STORIES["an output guardrail objects, the model is told and writes it again"] = story(guarded_output, ["Hi"], was_written_again)


@guardrail("tool")
async def not_for_mallory(context: Any, call: Any) -> str | None:
    return "Mallory gets nothing." if call.arguments.get("to") == "mallory" else None


def guarded_tool(world: World) -> Workflow:
    @tool
    async def pay(to: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"paid {to}")

    @tool(needs_approval=True)
    async def gift(to: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"gave {to}")

    batch = [call("pay", to="mallory"), call("pay", to="alice"), call("gift", to="mallory"), call("gift", to="alice")]
    model = ScriptedModel(by_agent={"payer": [batch, "Done."]})
    return HandoffBuilder("pay", [Agent("payer", model=model, tools=[pay, gift], guardrails=[not_for_mallory])]).build()


def only_alice(told: Told, requests: list[Request]) -> None:
    refused = "Not run: Mallory gets nothing."
    assert outputs(requests[1]) == [refused, "paid alice", refused, "gave alice"]
    assert sorted(deed for _, deed in told.world.deeds) == ["gave alice", "paid alice"]


STORIES["a tool guardrail refuses some calls of a batch; nobody is asked to approve those, and the others run"] = story(
    guarded_tool, ["Pay"], only_alice
)

# -- typed outputs -----------------------------------------------------------------------------------------------------


class Verdict_(BaseModel):
    guilty: bool
    years: int


def judge(world: World, replies: list[str]) -> Workflow:
    model = ScriptedModel(lambda seen: replies[min(seen.turn, len(replies) - 1)])
    return HandoffBuilder("court", [Agent("judge", model=model, output_type=Verdict_, output_retries=1)]).build()


def accepted_at_the_second(told: Told, requests: list[Request]) -> None:
    assert len(requests) == 2
    assert "years" in requests[1].messages[-1].text
    assert told.session.messages[-1].text == '{"guilty": true, "years": 3}'
    assert told.session.status == "waiting"


STORIES["a typed output that does not fit is sent back with what is wrong, and accepted when it fits"] = story(
    lambda world: judge(world, ['{"guilty": true, "years": "many"}', '{"guilty": true, "years": 3}']), ["Judge"], accepted_at_the_second
)


def asked_after_retries(request: Pending) -> Verdict:
    assert request.kind == "limit"
    assert "not accepted" in request.prompt
    return "approve" if request.id.endswith("-0") else ("reject", "")


def gave_up_at_the_limit(told: Told, requests: list[Request]) -> None:
    assert told.session.status == "waiting"
    assert len(requests) == 3  # one, one retry, and one more that a person allowed
    assert sum(isinstance(fact, GuardrailJudged) and fact.kind == "output" and fact.stop for fact in told.session.facts) == 3


STORIES["a typed output that never fits asks a person after its retries; rejected, the turn is the user's again"] = story(
    lambda world: judge(world, ["guilty!"]), ["Judge"], gave_up_at_the_limit, asked_after_retries
)

# -- context providers, middleware -------------------------------------------------------------------------------------


def provided(world: World) -> Workflow:
    async def weather(turn: Turn) -> Provided:
        assert turn.agent == "guide"
        return Provided(instructions="It rains.", messages=(f"{len(turn.messages)} messages so far.",))

    def season(turn: Turn) -> str:
        return "It is autumn."

    @tool
    async def look(ctx: ToolContext[Any]) -> str:
        return done(world, ctx, "a museum")

    script = {"guide": [call("look"), "Go to the museum.", handoff("host")], "host": ["Welcome."]}
    model = ScriptedModel(by_agent=script)
    guide = Agent("guide", "Guide people.", model, [look], context_providers=[weather, season])
    return HandoffBuilder("tour", [guide, Agent("host", "Host.", model)]).build()


def frames_are_fixed(told: Told, requests: list[Request]) -> None:
    first, second, third, host = requests
    assert first.frame.instructions == "Guide people.\n\nIt rains.\n\nIt is autumn."
    assert first.frame == second.frame  # evaluated once, fixed for the whole tool loop
    assert first.frame.messages == ("1 messages so far.",)
    assert third.frame.messages == ("3 messages so far.",)
    assert host.frame.messages == ()
    assert host.frame.instructions == "Host."
    assert said(host) == ["What now?", "Go to the museum.", "And then?"]


STORIES["a context provider adds to its agent's frame, once per message, and to nobody's history"] = story(
    provided, ["What now?", "And then?"], frames_are_fixed
)


class Shouting(Middleware):
    """Wraps the model's reply and the tool's output."""

    async def around_tool(self, call: Any, proceed: Any) -> object:
        return f"{await proceed()}!" if call.tool == "greet" else "kept away"


class Retrying(Middleware):
    """Asks again by itself."""

    async def around_model(self, request: Request, proceed: Any) -> Any:
        try:
            return await proceed(request)
        except ModelFailed:
            return await proceed(request)


def wrapped(world: World) -> Workflow:
    @tool
    async def greet(name: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"hello {name}")

    @tool
    async def bite(name: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"bit {name}")

    model = ScriptedModel(by_agent={"dog": [[call("greet", name="ann"), call("bite", name="bob")], "Woof."]})
    return HandoffBuilder("kennel", [Agent("dog", model=model, tools=[greet, bite], middleware=[Retrying(), Shouting()])]).build()


def was_wrapped(told: Told, requests: list[Request]) -> None:
    greeting, bite = outputs(requests[1])
    assert greeting.startswith("hello ann")  # a person who supplied a lost outcome did not shout
    assert bite == "kept away"
    assert told.world.times("bit bob") == 0
    assert told.world.times("hello ann") == 1


STORIES["middleware wraps a tool's output and can keep a tool from running"] = story(wrapped, ["Greet"], was_wrapped)

# -- models that fail --------------------------------------------------------------------------------------------------


def stumbling(world: World) -> Workflow:
    """Fails in the middle of its first words, in each life of the process."""
    fell: list[bool] = []

    class Stumbling(ScriptedModel):
        async def reply(self, request: Request, emit: Any) -> Any:
            if not fell:
                fell.append(True)
                emit("The answer ")
                emit("is forty")
                raise ModelFailed("the line broke", retryable=True, retry_after=0.0)
            return await super().reply(request, emit)

    return HandoffBuilder("line", [Agent("oracle", model=Stumbling(lambda seen: "The answer is 42."))]).build()


def no_word_of_the_broken_one(told: Told, requests: list[Request]) -> None:
    assert len(requests) == 1
    assert [message.text for message in told.session.messages] == ["What is it?", "The answer is 42."]
    assert all("line broke" in fact.error for fact in told.session.facts if isinstance(fact, ModelRequestFailed))


STORIES["a stream that breaks leaves an attempt and no words; the retry is whole"] = story(
    stumbling, ["What is it?"], no_word_of_the_broken_one
)
