"""Stories of guardrails, typed outputs, context providers and middleware."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from legato import Agent, HandoffBuilder, Middleware, Provided, ToolContext, Turn, Workflow, guardrail, tool
from legato.core.facts import GuardrailJudged, ModelRequestFailed
from legato.core.pending_requests import Pending
from legato.core.view import ModelRequest
from legato.errors import ModelFailed
from legato.testing import ScriptedModel, call, handoff
from legato.testing.scripted_users import Verdict
from legato.testing.story import Story, StoryResult, World
from tests.stories.conversation_checks import list_outputs, list_texts
from tests.stories.story_builder import do_deed, make_story

STORIES: dict[str, Story] = {}

# -- guardrails --------------------------------------------------------------------------------------------------------


@guardrail("input")
async def no_cards(context: Any, text: str) -> str | None:
    return "Please do not send card numbers." if "4111" in text else None


def build_guarded_input(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"clerk": ["Hello.", "Noted."]})
    return HandoffBuilder("desk", [Agent("clerk", model=model, guardrails=[no_cards])]).build()


def check_message_is_withheld(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert len(requests) == 2
    assert list_texts(requests[1]) == ["Hi", "Hello.", "Sorry, no card"]
    texts = [message.text for message in result.session.messages]
    assert texts == ["Hi", "Hello.", "My card is 4111", "Please do not send card numbers.", "Sorry, no card", "Noted."]
    assert sum(isinstance(fact, GuardrailJudged) and fact.kind == "input" for fact in result.session.facts) == 3


STORIES["an input guardrail withholds a message from every request and answers it in its own words"] = make_story(
    build_guarded_input, ["Hi", "My card is 4111", "Sorry, no card"], check_message_is_withheld
)


@guardrail("output")
def polite(context: Any, text: str) -> str | None:
    return None if "please" in text else "say please"


def build_guarded_output(world: World) -> Workflow:
    model = ScriptedModel(by_agent={"clerk": ["Your name.", "Your name, please."]})
    return HandoffBuilder("desk", [Agent("clerk", model=model, guardrails=[polite])]).build()


def check_reply_is_rewritten(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert len(requests) == 2
    assert requests[1].messages[-1].synthetic
    assert "say please" in requests[1].messages[-1].text
    assert result.session.status == "waiting"
    assert result.session.messages[-1].text == "Your name, please."


STORIES["an output guardrail objects, the model is told and writes it again"] = make_story(
    build_guarded_output, ["Hi"], check_reply_is_rewritten
)


@guardrail("tool")
async def not_for_mallory(context: Any, call: Any) -> str | None:
    return "Mallory gets nothing." if call.arguments.get("to") == "mallory" else None


def build_guarded_tool(world: World) -> Workflow:
    @tool
    async def pay(to: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"paid {to}")

    @tool(needs_approval=True)
    async def gift(to: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"gave {to}")

    batch = [call("pay", to="mallory"), call("pay", to="alice"), call("gift", to="mallory"), call("gift", to="alice")]
    model = ScriptedModel(by_agent={"payer": [batch, "Done."]})
    return HandoffBuilder("pay", [Agent("payer", model=model, tools=[pay, gift], guardrails=[not_for_mallory])]).build()


def check_only_alice_is_paid(result: StoryResult, requests: list[ModelRequest]) -> None:
    refused = "Not run: Mallory gets nothing."
    assert list_outputs(requests[1]) == [refused, "paid alice", refused, "gave alice"]
    assert sorted(deed for _, deed in result.world.effects) == ["gave alice", "paid alice"]


STORIES["a tool guardrail refuses some calls of a batch; nobody is asked to approve those, and the others run"] = make_story(
    build_guarded_tool, ["Pay"], check_only_alice_is_paid
)

# -- typed outputs -----------------------------------------------------------------------------------------------------


class Verdict_(BaseModel):
    guilty: bool
    years: int


def build_judge(world: World, replies: list[str]) -> Workflow:
    model = ScriptedModel(lambda seen: replies[min(seen.reply_count, len(replies) - 1)])
    return HandoffBuilder("court", [Agent("judge", model=model, output_type=Verdict_, output_retries=1)]).build()


def check_second_reply_is_accepted(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert len(requests) == 2
    assert "years" in requests[1].messages[-1].text
    assert result.session.messages[-1].text == '{"guilty": true, "years": 3}'
    assert result.session.status == "waiting"


STORIES["a typed output that does not fit is sent back with what is wrong, and accepted when it fits"] = make_story(
    lambda world: build_judge(world, ['{"guilty": true, "years": "many"}', '{"guilty": true, "years": 3}']),
    ["Judge"],
    check_second_reply_is_accepted,
)


def decide_retry_limit(request: Pending) -> Verdict:
    assert request.kind == "limit"
    assert "not accepted" in request.prompt
    return "approve" if request.id.endswith("-0") else ("reject", "")


def check_retries_stop_at_limit(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert result.session.status == "waiting"
    assert len(requests) == 3  # one, one retry, and one more that a person allowed
    assert sum(isinstance(fact, GuardrailJudged) and fact.kind == "output" and fact.stop for fact in result.session.facts) == 3


STORIES["a typed output that never fits asks a person after its retries; rejected, the turn is the user's again"] = make_story(
    lambda world: build_judge(world, ["guilty!"]), ["Judge"], check_retries_stop_at_limit, decide_retry_limit
)

# -- context providers, middleware -------------------------------------------------------------------------------------


def build_tour(world: World) -> Workflow:
    async def weather(turn: Turn) -> Provided:
        assert turn.agent == "guide"
        return Provided(instructions="It rains.", messages=(f"{len(turn.messages)} messages so far.",))

    def season(turn: Turn) -> str:
        return "It is autumn."

    @tool
    async def look(ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, "a museum")

    script = {"guide": [call("look"), "Go to the museum.", handoff("host")], "host": ["Welcome."]}
    model = ScriptedModel(by_agent=script)
    guide = Agent("guide", "Guide people.", model, [look], context_providers=[weather, season])
    return HandoffBuilder("tour", [guide, Agent("host", "Host.", model)]).build()


def check_turn_contexts(result: StoryResult, requests: list[ModelRequest]) -> None:
    first, second, third, host = requests
    assert first.turn_context.instructions == "Guide people.\n\nIt rains.\n\nIt is autumn."
    assert first.turn_context == second.turn_context  # evaluated once for the whole tool loop
    assert first.turn_context.messages == ("1 messages so far.",)
    assert third.turn_context.messages == ("3 messages so far.",)
    assert host.turn_context.messages == ()
    assert host.turn_context.instructions == "Host."
    assert list_texts(host) == ["What now?", "Go to the museum.", "And then?"]


STORIES["a context provider adds to its agent's frame, once per message, and to nobody's history"] = make_story(
    build_tour, ["What now?", "And then?"], check_turn_contexts
)


class Shouting(Middleware):
    """Changes the outputs of tools."""

    async def around_tool(self, call: Any, proceed: Any) -> object:
        return f"{await proceed()}!" if call.tool == "greet" else "kept away"


class Retrying(Middleware):
    """Repeats a failed request."""

    async def around_model(self, request: ModelRequest, proceed: Any) -> Any:
        try:
            return await proceed(request)
        except ModelFailed:
            return await proceed(request)


def build_kennel(world: World) -> Workflow:
    @tool
    async def greet(name: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"hello {name}")

    @tool
    async def bite(name: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"bit {name}")

    model = ScriptedModel(by_agent={"dog": [[call("greet", name="ann"), call("bite", name="bob")], "Woof."]})
    return HandoffBuilder("kennel", [Agent("dog", model=model, tools=[greet, bite], middleware=[Retrying(), Shouting()])]).build()


def check_middleware_outputs(result: StoryResult, requests: list[ModelRequest]) -> None:
    greeting, bite = list_outputs(requests[1])
    assert greeting.startswith("hello ann")  # an outcome that a person supplied has no exclamation mark
    assert bite == "kept away"
    assert result.world.count("bit bob") == 0
    assert result.world.count("hello ann") == 1


STORIES["middleware wraps a tool's output and can keep a tool from running"] = make_story(build_kennel, ["Greet"], check_middleware_outputs)

# -- models that fail --------------------------------------------------------------------------------------------------


def build_stumbling_model(world: World) -> Workflow:
    """Return a workflow whose model fails in the middle of its first reply, in each process."""
    fell: list[bool] = []

    class Stumbling(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Any) -> Any:
            if not fell:
                fell.append(True)
                emit("The answer ")
                emit("is forty")
                raise ModelFailed("the line broke", retryable=True, retry_after=0.0)
            return await super().reply(request, emit)

    return HandoffBuilder("line", [Agent("oracle", model=Stumbling(lambda seen: "The answer is 42."))]).build()


def check_broken_reply_leaves_no_text(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert len(requests) == 1
    assert [message.text for message in result.session.messages] == ["What is it?", "The answer is 42."]
    assert all("line broke" in fact.error for fact in result.session.facts if isinstance(fact, ModelRequestFailed))


STORIES["a stream that breaks leaves an attempt and no words; the retry is whole"] = make_story(
    build_stumbling_model, ["What is it?"], check_broken_reply_leaves_no_text
)
