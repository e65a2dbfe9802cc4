"""Structured output in both APIs: the answer fits the client's schema, or is an error or a refusal."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from pydantic import BaseModel

from legato import Agent, HandoffBuilder, guardrail
from legato.core.facts import Refusal
from legato.testing import ScriptedModel, handoff
from tests.server.openai.openai_client import make_client
from tests.server.workflows import PausedModel, load_session, make_chat, run_server


class City(BaseModel):
    city: str


VALID_ANSWER = '{"city": "Bonn"}'
ASKED: list[Any] = [{"role": "user", "content": "Where?"}]


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_is_parsed_by_the_sdk(stream: bool) -> None:
    with run_server(make_chat(["In Bonn.", '{"town": "Bonn"}', VALID_ANSWER, "Plain."])) as server:
        client = make_client(server)
        if stream:
            with client.responses.stream(model="chat", input="Where?", text_format=City) as events:
                shown = [event.delta for event in events if event.type == "response.output_text.delta"]
                answer = events.get_final_response()
            assert shown == [VALID_ANSWER]
        else:
            answer = client.responses.parse(model="chat", input="Where?", text_format=City)
        assert answer.output_parsed == City(city="Bonn")
        assert answer.text.format.schema_["required"] == ["city"]
        after = client.responses.create(model="chat", previous_response_id=answer.id, input="And plainly?")
        assert (after.output_text, after.text.format.type) == ("Plain.", "text")


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_is_parsed_by_the_sdk(stream: bool) -> None:
    with run_server(make_chat(["In Bonn.", VALID_ANSWER])) as server:
        client = make_client(server)
        if stream:
            with client.chat.completions.stream(model="chat", messages=ASKED, response_format=City) as events:
                answer = events.get_final_completion()
        else:
            answer = client.chat.completions.parse(model="chat", messages=ASKED, response_format=City)
    assert answer.choices[0].message.parsed == City(city="Bonn")


@pytest.mark.parametrize("stream", [False, True])
def test_text_beside_handoff_is_not_the_answer(stream: bool) -> None:
    model = ScriptedModel(
        by_agent={"triage": [["One moment.", handoff("desk")], ["One moment.", handoff("desk")]], "desk": [VALID_ANSWER, VALID_ANSWER]}
    )
    workflow = HandoffBuilder("desks", [Agent("triage", model=model), Agent("desk", model=model)]).with_next_turn("start").build()
    with run_server(workflow) as server:
        client = make_client(server)
        if stream:
            with client.responses.stream(model="desks", conversation="c", input="Where?", text_format=City) as events:
                response = events.get_final_response()
            with client.chat.completions.stream(model="desks", messages=ASKED, response_format=City) as chunks:
                message = chunks.get_final_completion().choices[0].message
        else:
            response = client.responses.parse(model="desks", conversation="c", input="Where?", text_format=City)
            message = client.chat.completions.parse(model="desks", messages=ASKED, response_format=City).choices[0].message
        said = [str(each) for each in load_session(server, workflow, "c").messages]
    assert [item.type for item in response.output] == ["mcp_call", "message"]
    assert response.output_parsed == message.parsed == City(city="Bonn")
    assert said == ["user: Where?", "triage: One moment.", f"desk: {VALID_ANSWER}"]


def test_autonomous_agent_gives_its_last_answer() -> None:
    agent = Agent("ada", model=ScriptedModel(['{"city": "Ulm"}', VALID_ANSWER] * 2))
    builder = HandoffBuilder("chat", [agent]).with_autonomous_mode(["ada"], turn_limits={"ada": 1})
    with run_server(builder.build()) as server:
        client = make_client(server)
        assert client.chat.completions.parse(model="chat", messages=ASKED, response_format=City).choices[0].message.content == VALID_ANSWER
        with client.chat.completions.stream(model="chat", messages=ASKED, response_format=City) as chunks:
            assert chunks.get_final_completion().choices[0].message.content == VALID_ANSWER


def test_any_object_is_a_format() -> None:
    with run_server(make_chat(["In Bonn.", "[1]", '{"a": 1}'] * 2)) as server:
        client = make_client(server)
        assert client.responses.create(model="chat", input="x", text={"format": {"type": "json_object"}}).output_text == '{"a": 1}'
        answer = client.chat.completions.create(model="chat", messages=ASKED, response_format={"type": "json_object"})
        assert answer.choices[0].message.content == '{"a": 1}'


def test_answer_that_never_fits_is_an_error() -> None:
    with run_server(make_chat(["In Bonn."] * 9)) as server:
        client = make_client(server)
        for ask in (
            lambda: client.responses.parse(model="chat", input="Where?", text_format=City),
            lambda: client.chat.completions.parse(model="chat", messages=ASKED, response_format=City),
        ):
            with pytest.raises(openai.InternalServerError, match="3 replies were not accepted") as failed:
                ask()
            assert failed.value.code == "output_not_accepted"


def test_stream_fails_if_answer_never_fits() -> None:
    with run_server(make_chat(["In Bonn."] * 9)) as server:
        client = make_client(server)
        events = list(client.responses.create(model="chat", input="x", text={"format": {"type": "json_object"}}, stream=True))
        assert events[-1].type == "response.failed"
        assert "not accepted" in events[-1].response.error.message
        assert not any("Bonn" in str(event.to_dict().get("delta")) for event in events)
        with pytest.raises(openai.APIError, match="not accepted"):
            list(client.chat.completions.create(model="chat", messages=ASKED, response_format={"type": "json_object"}, stream=True))


@pytest.mark.parametrize("stream", [False, True])
def test_refusal_is_reported_as_refusal(stream: bool) -> None:
    with run_server(make_chat([[Refusal("I will not say.")], [Refusal("I will not say.")]])) as server:
        client = make_client(server)
        if stream:
            with client.responses.stream(model="chat", input="Where?", text_format=City) as events:
                response = events.get_final_response()
            with client.chat.completions.stream(model="chat", messages=ASKED, response_format=City) as chunks:
                message = chunks.get_final_completion().choices[0].message
        else:
            response = client.responses.parse(model="chat", input="Where?", text_format=City)
            message = client.chat.completions.parse(model="chat", messages=ASKED, response_format=City).choices[0].message
    (part,) = response.output[0].content
    assert (part.type, part.refusal, response.output_parsed) == ("refusal", "I will not say.", None)
    assert (message.refusal, message.content or "", message.parsed) == ("I will not say.", "", None)


@pytest.mark.parametrize("stream", [False, True])
def test_guardrail_message_is_a_refusal(stream: bool) -> None:
    @guardrail("input")
    def nothing(context: object, text: str) -> str:
        return "Not today."

    agent = Agent("ada", model=ScriptedModel([]), guardrails=[nothing])
    with run_server(HandoffBuilder("chat", [agent]).build()) as server:
        client = make_client(server)
        if stream:
            with client.responses.stream(model="chat", input="Where?", text_format=City) as events:
                response = events.get_final_response()
            with client.chat.completions.stream(model="chat", messages=ASKED, response_format=City) as chunks:
                message = chunks.get_final_completion().choices[0].message
        else:
            response = client.responses.parse(model="chat", input="Where?", text_format=City)
            message = client.chat.completions.parse(model="chat", messages=ASKED, response_format=City).choices[0].message
    assert (response.output[0].content[0].type, response.output_parsed) == ("refusal", None)
    assert (message.refusal, message.parsed) == ("Not today.", None)


def test_output_type_of_agent_is_not_replaced() -> None:
    agent = Agent("ada", model=ScriptedModel(['{"city": "Bonn"}']), output_type=City)
    with run_server(HandoffBuilder("chat", [agent]).build()) as server:
        client = make_client(server)
        with pytest.raises(openai.BadRequestError, match="agent 'ada' has an output type of its own") as refused:
            client.responses.create(model="chat", input="x", text={"format": {"type": "json_object"}})
        assert refused.value.param == "text.format"
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="chat", messages=ASKED, response_format={"type": "json_object"})
        assert refused.value.param == "response_format"
        assert client.responses.create(model="chat", input="x").output_text == VALID_ANSWER


# -- beside other clients ----------------------------------------------------------------------------------------------

CITY_FORMAT: Any = {"format": {"type": "json_schema", "name": "city", "schema": City.model_json_schema()}}
CITY_IN_CHAT: Any = {"type": "json_schema", "json_schema": {"name": "city", "schema": City.model_json_schema()}}


def start_response(client: Any, **more: Any) -> Any:
    """A streamed response in which the model has begun to speak."""
    events = client.responses.create(model="chat", conversation="s", input="Hello?", stream=True, **more)
    assert any(event.type == "response.output_text.delta" for event in events)
    return events


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_reply_to_another_client_is_excluded(api: str) -> None:
    """The model still says something to another client of the session when a format is asked for."""
    model = PausedModel(["Hello there.", VALID_ANSWER])
    with run_server(make_chat([], model=model)) as server:
        client = make_client(server)
        other = start_response(client)
        if api == "responses":
            stream: Any = client.responses.create(model="chat", conversation="s", input="Where?", text=CITY_FORMAT, stream=True)
        else:
            stream = client.chat.completions.create(
                model="chat", messages=ASKED, response_format=CITY_IN_CHAT, stream=True, extra_headers={"Legato-Session": "s"}
            )
        next(stream)  # it was recorded
        model.free.set()
        told = list(stream)
        other.close()
    if api == "chat":
        assert "".join(chunk.choices[0].delta.content or "" for chunk in told) == VALID_ANSWER
        return
    assert "".join(event.delta for event in told if event.type == "response.output_text.delta") == VALID_ANSWER
    assert told[-1].response.output_text == VALID_ANSWER


def test_answer_ends_before_the_next_input() -> None:
    model = ScriptedModel(lambda request: VALID_ANSWER if "Where?" in str(request.messages[-1]) else "Hello there.")
    with run_server(make_chat([], model=model)) as server:
        client = make_client(server)
        first = client.responses.create(model="chat", conversation="s", input="Where?", text=CITY_FORMAT)
        client.responses.create(model="chat", conversation="s", input="Hello?")
        assert client.responses.retrieve(first.id).output_text == VALID_ANSWER


@pytest.mark.parametrize("stream", [False, True])
def test_joint_answer_without_format_is_an_error(stream: bool) -> None:
    """Another message came before the one with the format was answered, and the reply is as the later one asked."""
    model = PausedModel(["Hello there.", "In Bonn."])
    with run_server(make_chat([], model=model)) as server:
        client = make_client(server)
        other = start_response(client)
        asked = client.responses.create(model="chat", conversation="s", input="Where?", text=CITY_FORMAT, background=True)
        later = client.responses.create(model="chat", conversation="s", input="And?", stream=True)
        next(later)
        model.free.set()
        assert list(later)[-1].response.output_text.endswith("In Bonn.")
        other.close()
        if stream:
            failed = list(client.responses.retrieve(asked.id, stream=True))[-1].response
        else:
            failed = client.responses.retrieve(asked.id)
    assert (failed.status, failed.output_text) == ("failed", "")
    assert "both were answered together" in failed.error.message


# -- how a run ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_the_last_of_several_answers_counts(stream: bool) -> None:
    """An agent that works on by itself answers several times, and each time in the format."""
    model = ScriptedModel(by_agent={"ada": ['{"city": "Ulm"}', '{"city": "Kiel"}', VALID_ANSWER]})
    workflow = HandoffBuilder("chat", [Agent("ada", model=model)]).with_autonomous_mode(turn_limits={"ada": 2}).build()
    with run_server(workflow) as server:
        client = make_client(server)
        if stream:
            with client.responses.stream(model="chat", input="Where?", text_format=City) as events:
                shown = [event.delta for event in events if event.type == "response.output_text.delta"]
                answer = events.get_final_response()
            assert shown == [VALID_ANSWER]
        else:
            answer = client.responses.parse(model="chat", input="Where?", text_format=City)
    assert answer.output_parsed == City(city="Bonn")


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_an_end_without_an_answer_is_an_error(api: str) -> None:
    model = ScriptedModel(by_agent={"ada": [["Goodbye.", handoff("ben")]], "ben": [VALID_ANSWER]})
    builder = HandoffBuilder("chat", [Agent("ada", model=model), Agent("ben", model=model)])
    workflow = builder.with_termination_condition(lambda messages: any("Goodbye" in message.text for message in messages)).build()
    with run_server(workflow) as server:
        client: Any = make_client(server)
        create = client.responses.create if api == "responses" else client.chat.completions.create
        asked = {"input": "Where?", "text": CITY_FORMAT} if api == "responses" else {"messages": ASKED, "response_format": CITY_IN_CHAT}
        with pytest.raises(openai.InternalServerError, match="ended before it had") as failure:
            create(model="chat", **asked)
    assert (failure.value.status_code, failure.value.code) == (502, "output_not_accepted")
