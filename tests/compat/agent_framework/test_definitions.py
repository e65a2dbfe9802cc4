"""Clients, agents, tools and messages: what a program of theirs defines is what Legato runs."""

from __future__ import annotations

import json
import warnings
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from legato.compat import MeansNothingHere
from legato.compat import agent_framework as af
from legato.compat.agent_framework import azure, openai, orchestrations
from legato.compat.agent_framework.clients import PROJECT_SCOPE
from legato.compat.gaps import explain
from legato.emulator import serve
from legato.emulator.server import Emulator
from legato.errors import BadInput, BuildError


class Weather(BaseModel):
    city: str
    sunny: bool


def test_the_names_are_where_programs_import_them_from() -> None:
    for module in (azure, openai, orchestrations):
        for name in module.__all__:
            assert getattr(module, name) is getattr(af, name)
    assert (af.ChatAgent, af.ChatMessage, af.ai_function) == (af.Agent, af.Message, af.tool)
    assert all(hasattr(af, name) for name in af.__all__)


async def test_clients_pass_their_options_to_their_api(emulator: Emulator) -> None:
    options = {"max_tokens": 50, "temperature": 0.5, "allow_multiple_tool_calls": False, "user": "ada"}
    where: dict[str, Any] = {"api_key": "any", "base_url": emulator.openai_url}
    clients = [
        af.OpenAIChatClient("gpt-4.1", **where),
        af.OpenAIChatCompletionClient(model_id="gpt-4.1", **where),
        af.OpenAIResponsesClient(model="gpt-4.1", **where),
        af.AzureOpenAIResponsesClient(deployment_name="gpt-4.1", endpoint=emulator.url, api_key="any"),
    ]
    for client in clients:
        agent = client.as_agent(name="clerk", instructions="You route.", default_options=options, tools=[abs_])
        await agent.run("Bye")
    paths = [(exchange.api, exchange.request_body["model"]) for exchange in emulator.exchanges]
    assert paths == [("chat", "gpt-4.1")] * 2 + [("responses", "gpt-4.1")] * 2
    for exchange in emulator.exchanges:
        body = exchange.request_body
        assert (body["temperature"], body["parallel_tool_calls"], body["user"]) == (0.5, False, "ada")
        assert 50 in (body.get("max_output_tokens"), body.get("max_completion_tokens"))


def abs_(number: int) -> int:
    """The absolute value."""
    return abs(number)


async def test_credential_is_asked_for_a_project_token() -> None:
    scopes = []

    class Credential:
        def get_token(self, *asked: str) -> Any:
            scopes.extend(asked)
            return type("Token", (), {"token": "secret-token"})()

    with serve(fake_model=["Hello!"], keys=["secret-token"]) as emulator:
        client = af.AzureOpenAIResponsesClient(project_endpoint=emulator.url, deployment_name="mine", credential=Credential())
        assert (await client.as_agent(name="clerk").run("Hi")).text == "Hello!"
    assert scopes == [PROJECT_SCOPE]


def test_clients_refuse_missing_model_and_unknown_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="needs the name of a model"):
        af.OpenAIChatClient()
    monkeypatch.setenv("OPENAI_CHAT_MODEL_ID", "gpt-4.1")
    assert af.OpenAIChatClient().model_id == "gpt-4.1"
    with pytest.raises(BadInput, match="takes no 'colour'"):
        af.OpenAIResponsesClient("gpt-5.1", colour="red")


async def test_response_format_sets_the_output_type() -> None:
    with serve(fake_model=['{"city": "Lisbon", "sunny": true}']) as emulator:
        client = af.OpenAIResponsesClient("gpt-5.1", base_url=emulator.openai_url, api_key="any")
        agent = client.as_agent(name="clerk", default_options={"response_format": Weather})
        assert (await agent.run("Lisbon?")).value == Weather(city="Lisbon", sunny=True)


async def test_several_runs_in_a_session_are_one_conversation(emulator: Emulator) -> None:
    agent = af.OpenAIResponsesClient("gpt-5.1").as_agent(name="clerk", instructions="You greet.")
    session = agent.create_session(session_id="ada")
    await agent.run("Bye", session=session)
    await agent.run("Bye", session=af.AgentSession.from_dict(session.to_dict()))
    assert [item["role"] for item in emulator.exchanges[-1].request_body["input"] if "role" in item] == ["user", "assistant", "user"]
    await agent.run("Bye")
    assert len(emulator.exchanges[-1].request_body["input"]) == 1


def test_annotation_types_work_at_run_time() -> None:
    for made in (af.WorkflowEvent[af.Content], af.AgentResponse[Weather], af.Agent[af.OpenAIChatOptions], af.ChatOptions[Weather]):
        assert made.__args__
    options: af.OpenAIChatOptions[Weather] = {"temperature": 0.2, "tool_choice": af.ToolMode(mode="auto")}
    client = af.OpenAIChatClient[af.ChatOptions]("gpt-4.1")
    agent = af.Agent[af.ChatOptions](client, default_options=options)
    assert isinstance(agent, af.SupportsAgentRun)
    assert af.Message(af.Role.USER, ["Hi"]).role == "user" == af.Role.USER


# -- tools ---------------------------------------------------------------------------------------------------------------


def test_words_in_annotations_describe_arguments() -> None:
    class Size(BaseModel):  # local: annotations are found where the tool is made
        width: int

    @af.tool(name="measure_it", description="Measure.", approval_mode="always_require")
    def measure(what: Annotated[str, "What to measure"], size: Size, times: Annotated[int, Field(description="How often")] = 1) -> str:
        return f"{what} {size.width} {times}"

    properties = json.loads(measure.parameters)["properties"]
    assert properties["what"]["description"] == "What to measure"
    assert properties["times"]["description"] == "How often"
    assert (measure.name, measure.description, measure.needs_approval) == ("measure_it", "Measure.", True)
    assert measure("a lamp", Size(width=3)) == "a lamp 3 1"
    with pytest.raises(BadInput, match="approval_mode"):
        af.tool(approval_mode="sometimes")
    with pytest.raises(BadInput, match=r"tool\(schema=...\) is not here"):
        af.tool(schema={"type": "object"})


# -- what has no effect, and what would be missed ----------------------------------------------------------------------------


def test_names_without_effect_warn_once_each() -> None:
    with pytest.warns(MeansNothingHere, match=r"a flag means nothing here: why not"):
        explain("a flag", "why not")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explain("a flag", "why not")
    explain.cache_clear()
    client = af.OpenAIResponsesClient("gpt-5.1")
    with pytest.warns(MeansNothingHere, match="require_per_service_call_history_persistence") as told:
        client.as_agent(name="a", require_per_service_call_history_persistence=True)
    assert told[0].filename == __file__  # the program's own line, however deep the facade
    with pytest.warns(MeansNothingHere, match="'store'"):
        client.as_agent(name="a", default_options={"store": True})
    with pytest.warns(MeansNothingHere, match="max_invocations"):
        af.tool(max_invocations=3)
    with pytest.warns(MeansNothingHere, match="output_from"):
        af.HandoffBuilder(output_from="all")
    with pytest.warns(MeansNothingHere, match="a context provider's state"):
        af.AgentSession().state["count"] = 1


def test_impossible_workflow_is_refused_by_build() -> None:
    client = af.OpenAIResponsesClient("gpt-5.1")
    a, b = client.as_agent(name="a"), client.as_agent(name="b")
    with pytest.raises(BuildError, match="nobody"):
        af.HandoffBuilder(participants=[a, b]).with_start_agent("nobody").build()
    with pytest.raises(BuildError, match="a participant is an Agent"):
        af.HandoffBuilder(participants=["a"])  # type: ignore[list-item]  # the mistake
    with pytest.raises(BuildError, match="checkpoint storage"):
        af.HandoffBuilder().with_checkpointing(object())  # type: ignore[arg-type]  # the mistake
    again = af.HandoffBuilder(participants=[a, b]).add_handoff(a, [b], description="old").add_handoff(a, b, description="new").build()
    assert [edge.description for edge in again.native.definition.graph.agents["a"].edges.values()] == ["new"]


# -- messages ------------------------------------------------------------------------------------------------------------


async def test_pictures_and_files_are_said_as_they_are() -> None:
    with serve(fake_model=["I see."]) as emulator:
        client = af.OpenAIResponsesClient("gpt-5.1", base_url=emulator.openai_url, api_key="any")
        png = b"\x89PNG\r\n\x1a\n" + bytes(24)
        contents = [
            af.Content.from_text("Look"),
            af.Content.from_data(png, "image/png"),
            af.Content.from_uri("https://example.com/a.png", media_type="image/png"),
        ]
        await client.as_agent(name="eye").run(af.Message("user", contents))
        (item,) = emulator.exchanges[-1].request_body["input"]
    assert [part["type"] for part in item["content"]] == ["input_text", "input_image", "input_image"]
    assert item["content"][1]["image_url"] == contents[1].uri
    assert item["content"][2]["image_url"] == "https://example.com/a.png"


async def test_picture_with_unreadable_bytes_is_refused() -> None:
    agent = af.Agent("openai:gpt-5.1", name="eye")
    with pytest.raises(BadInput, match="not base64"):
        await agent.run(af.Message("user", [af.Content.from_uri("data:image/png;base64,not base64!", media_type="image/png")]))


def test_messages_and_contents_read_as_theirs_do() -> None:
    message = af.Message("user", ["Hello", af.Content.from_text("world")], author_name="ada")
    assert (message.text, message.author_name, str(message)) == ("Hello world", "ada", "Hello world")
    assert af.ChatMessage(role="user", text="Hi") == af.Message("user", ["Hi"])
    call = af.Content.from_function_call("c1", "pay", arguments='{"a": 1}')
    request = af.Content.from_function_approval_request("r1", call)
    assert request.to_dict()["function_call"]["name"] == "pay"
    assert request.to_function_approval_response(False).to_dict()["approved"] is False
    assert af.Content.from_function_call("c", "t", arguments="not json").parse_arguments() == {"raw": "not json"}
    with pytest.raises(BadInput, match="function_approval_request"):
        call.to_function_approval_response(True)
