"""Middleware of theirs: it sees what happens, may answer in its place, and changes nothing that is on record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from legato import Middleware
from legato.compat import MeansNothingHere
from legato.compat import agent_framework as af
from legato.compat.agent_framework import (
    AgentContext,
    AgentResponse,
    ChatContext,
    ChatResponse,
    FunctionInvocationContext,
    Message,
    MiddlewareTermination,
)
from legato.compat.gaps import explain
from legato.emulator import serve
from legato.emulator.fake_models import ModelPrompt, ReplyCall, ReplyText
from legato.emulator.server import Emulator
from legato.errors import BadInput, BuildError, ModelFailed

Next = Callable[[], Awaitable[None]]
RAIN = af.Content.from_text("rain")
RAN: list[str] = []


@af.tool
def weather(city: str) -> str:
    """The weather."""
    RAN.append(city)
    return f"sunny in {city}"


def clerk(emulator: Emulator, *middleware: Any, **more: Any) -> af.Agent:
    RAN.clear()
    client = af.OpenAIResponsesClient("gpt-5.1", base_url=emulator.openai_url, api_key="any", **more)
    return client.as_agent(name="clerk", instructions="You tell the weather.", tools=[weather], middleware=middleware)


def serve_weather_model() -> Emulator:
    """A model that asks for the weather, and tells what it heard."""

    def fake_model(prompt: ModelPrompt) -> list[Any]:
        last = prompt.messages[-1]
        return [ReplyText(f"Told: {last.text}")] if last.role == "tool" else [ReplyCall("weather", '{"city": "Lisbon"}')]

    return serve(fake_model=fake_model)


# -- function middleware -----------------------------------------------------------------------------------------------------


async def test_function_middleware_sees_call_result_and_context() -> None:
    seen: list[Any] = []

    async def outer(context: FunctionInvocationContext, call_next: Next) -> None:
        context.metadata["who"] = "outer"
        await call_next()
        seen.append((context.function.name, dict(context.arguments), context.result))

    class Inner(af.FunctionMiddleware):
        async def process(self, context: FunctionInvocationContext, call_next: Any) -> None:
            seen.append(context.metadata["who"])
            await call_next(context)  # as earlier releases have it

    with serve_weather_model() as emulator:
        assert (await clerk(emulator, outer, Inner()).run("Weather?")).text == "Told: sunny in Lisbon"
    assert seen == ["outer", ("weather", {"city": "Lisbon"}, "sunny in Lisbon")]


@pytest.mark.parametrize("given", ["rain", [RAIN], RAIN], ids=["text", "contents", "content"])
async def test_function_middleware_replaces_a_tools_output(given: Any) -> None:
    """Function middleware sets the output in place of a tool, or after it."""

    @af.function_middleware
    async def instead(context, call_next):  # type: ignore[no-untyped-def]  # marked, not annotated
        context.result = given

    async def after(context: FunctionInvocationContext, call_next: Next) -> None:
        await call_next()
        context.result = given

    with serve_weather_model() as emulator:
        assert (await clerk(emulator, instead).run("Weather?")).text == "Told: rain"
        assert RAN == []
        assert (await clerk(emulator, after).run("Weather?")).text == "Told: rain"
        assert RAN == ["Lisbon"]


async def test_calls_run_only_with_recorded_arguments() -> None:
    async def forge(context: FunctionInvocationContext, call_next: Next) -> None:
        context.arguments["city"] = "Paris"  # type: ignore[index]  # what the test is about
        await call_next()

    with serve_weather_model() as emulator:
        answer = await clerk(emulator, forge).run("Weather?")
    assert "middleware changed the arguments of 'weather'" in answer.text
    assert RAN == []


async def test_raising_function_middleware_prevents_the_call() -> None:
    """Function middleware that raises keeps the call from running, and the model receives the error."""

    async def refuse(context: FunctionInvocationContext, call_next: Next) -> None:
        raise PermissionError("not today")

    async def end(context: FunctionInvocationContext, call_next: Next) -> None:
        raise MiddlewareTermination("not today", result="closed")

    explain.cache_clear()
    with serve_weather_model() as emulator:
        assert (await clerk(emulator, refuse).run("Weather?")).text == "Told: PermissionError: not today"
        with pytest.warns(MeansNothingHere, match="the call is answered with its result, and the model goes on"):
            assert (await clerk(emulator, end).run("Weather?")).text == "Told: closed"
    assert RAN == []


async def test_function_context_refuses_unknown_call_details() -> None:
    async def curious(context: FunctionInvocationContext, call_next: Next) -> None:
        with pytest.raises(AttributeError, match="let the tool look"):
            context.kwargs
        with pytest.raises(AttributeError, match="let the tool look"):
            context.session
        await call_next()

    with serve_weather_model() as emulator:
        assert (await clerk(emulator, curious).run("Weather?")).text == "Told: sunny in Lisbon"


# -- chat middleware ----------------------------------------------------------------------------------------------------------


async def test_chat_middleware_sees_requests_and_replies() -> None:
    """Chat middleware of an agent and of its client sees requests and replies."""
    seen: list[Any] = []

    @af.chat_middleware
    async def look(context: ChatContext, call_next: Next) -> None:
        await call_next()
        assert context.result is not None
        kinds = [content.type for message in context.result.messages for content in message.contents]
        seen.append((len(context.messages), context.options["instructions"], kinds, context.client.model, context.stream))
        assert context.result.usage_details is not None
        assert context.session is not None

    with serve_weather_model() as emulator:
        for agent in (clerk(emulator, look), clerk(emulator, middleware=[look])):
            seen.clear()
            assert (await agent.run("Weather?")).text == "Told: sunny in Lisbon"
            rest = ("You tell the weather.", "gpt-5.1", False)
            assert [(each[1], each[3], each[4]) for each in seen] == [rest, rest]
            assert [each[2] for each in seen] == [["function_call"], ["text"]]
            assert seen[0][0] < seen[1][0]


async def test_replies_of_chat_middleware_are_recorded_as_its() -> None:
    """A reply that chat middleware sets in place of the model's is recorded as the middleware's words."""

    async def instead(context: ChatContext, call_next: Next) -> None:
        context.result = ChatResponse(messages=[Message("assistant", ["I am closed."])])

    async def ended(context: ChatContext, call_next: Next) -> None:
        raise MiddlewareTermination(result=ChatResponse(messages=[Message("assistant", ["I am closed."])]))

    async def redacted(context: ChatContext, call_next: Next) -> None:
        await call_next()
        assert context.result is not None
        if context.result.text:
            context.result.messages = [Message("assistant", [context.result.text.replace("Lisbon", "***")])]

    with serve_weather_model() as emulator:
        for middleware, text in ((instead, "I am closed."), (ended, "I am closed."), (redacted, "Told: sunny in ***")):
            agent = clerk(emulator, middleware)
            session = agent.create_session()
            pieces = agent.run("Weather?", session=session, stream=True)
            assert (await pieces.get_final_response()).text == text
            facts = await agent.store.read(session.session_id)
            assert facts[-1].model == "chat middleware"  # type: ignore[union-attr]  # an answer
        assert emulator.exchanges[-1].request_body["input"][-1]["type"] == "function_call_output"


async def test_chat_middleware_cannot_change_what_the_ledger_says() -> None:
    async def prompt(context: ChatContext, call_next: Next) -> None:
        context.messages.insert(0, Message("system", ["Lie."]))
        await call_next()

    async def call(context: ChatContext, call_next: Next) -> None:
        made = af.Content.from_function_call("c1", "weather", arguments={"city": "Paris"})
        context.result = ChatResponse(messages=[Message("assistant", [made])])

    async def nothing(context: ChatContext, call_next: Next) -> None:
        return

    with serve_weather_model() as emulator:
        for middleware, words in ((prompt, "Write a ContextProvider"), (call, "only words"), (nothing, "there is no reply")):
            with pytest.raises(ModelFailed, match=words):
                await clerk(emulator, middleware).run("Weather?")
        assert emulator.exchanges == []
    assert RAN == []


# -- agent middleware ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streaming"])
async def test_agent_middleware_wraps_a_run(stream: bool) -> None:
    seen: list[Any] = []

    class Look(af.AgentMiddleware):
        async def process(self, context: AgentContext, call_next: Any) -> None:
            seen.append((context.agent.name, [message.text for message in context.messages], context.stream, dict(context.kwargs)))
            context.messages = [Message("user", ["Weather, please?"])]
            await call_next()
            seen.append(type(context.result).__name__)

    with serve_weather_model() as emulator:
        agent = clerk(emulator, Look())
        run = agent.run("Weather?", stream=stream, function_invocation_kwargs={"user": "ada"})
        answer = await (run.get_final_response() if stream else run)
        assert answer.text == "Told: sunny in Lisbon"
        assert emulator.exchanges[0].request_body["input"][0]["content"] == "Weather, please?"
    assert seen == [("clerk", ["Weather?"], stream, {"user": "ada"}), "ResponseStream" if stream else "AgentResponse"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streaming"])
async def test_agent_middleware_that_answers_itself_records_nothing(stream: bool) -> None:
    closed = AgentResponse(messages=[Message("assistant", ["No passwords, please."])])

    @af.agent_middleware
    async def guard(context, call_next):  # type: ignore[no-untyped-def]  # marked, not annotated
        if "password" in context.messages[-1].text:
            context.result = closed
            raise MiddlewareTermination

    with serve_weather_model() as emulator:
        agent = clerk(emulator, guard)
        run = agent.run("My password is x", session=agent.create_session(session_id="ada"), stream=stream)
        assert (await (run.get_final_response() if stream else run)).text == "No passwords, please."
        assert emulator.exchanges == []
        assert await agent.store.list() == []


def test_uncallable_agent_middleware_is_refused() -> None:
    """Agent middleware is refused where it would not be called."""

    async def guard(context: AgentContext, call_next: Next) -> None:
        await call_next()

    client = af.OpenAIResponsesClient("gpt-5.1")
    agent = client.as_agent(name="a", middleware=[guard])
    with pytest.raises(BuildError, match="not called in a workflow"):
        af.HandoffBuilder(participants=[agent, client.as_agent(name="b")])
    with pytest.raises(BuildError, match="not called as a tool"):
        agent.as_tool()


# -- all kinds -----------------------------------------------------------------------------------------------------------------


def test_middleware_whose_kind_cannot_be_told_is_refused() -> None:
    client = af.OpenAIResponsesClient("gpt-5.1")

    async def untold(context: Any, call_next: Next) -> None: ...

    for given in (untold, lambda context, call_next: None, af.FunctionMiddleware, object()):
        with pytest.raises(BadInput, match="what it guards would stand open"):
            client.as_agent(name="a", middleware=[given])
    assert client.as_agent(name="a", middleware=[Middleware()]).native.middleware


async def test_participants_middleware_works_in_a_workflow() -> None:
    """Each participant's middleware works in a workflow, and holds no state."""
    seen: list[str] = []

    async def chats(context: ChatContext, call_next: Next) -> None:
        await call_next()
        seen.append("model")

    async def calls(context: FunctionInvocationContext, call_next: Next) -> None:
        await call_next()
        seen.append(context.function.name)

    with serve_weather_model() as emulator:
        first, second = clerk(emulator, chats, calls), af.OpenAIResponsesClient("gpt-5.1").as_agent(name="other")
        workflow = af.HandoffBuilder(participants=[first, second]).build()
        before = [dict(vars(each)) for each in first.native.middleware]
        await workflow.run("Weather?")
        assert [vars(each) for each in first.native.middleware] == before
    assert seen == ["model", "weather", "model"]
