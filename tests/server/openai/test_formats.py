"""Structured output over HTTP, in both APIs: the answer fits the schema that a client sends, or is an error, or a refusal."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from pydantic import BaseModel

from legato import Agent, HandoffBuilder, guardrail
from legato.core.facts import Refusal
from legato.testing import ScriptedModel, handoff
from tests.server.openai.asking import client_of
from tests.server.rooms import Held, chatting, served, session_of


class City(BaseModel):
    city: str


FITS = '{"city": "Bonn"}'
ASKED: list[Any] = [{"role": "user", "content": "Where?"}]


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_is_parsed_by_the_sdk(stream: bool) -> None:
    with served(chatting(["In Bonn.", '{"town": "Bonn"}', FITS, "Plain."])) as server:
        client = client_of(server)
        if stream:
            with client.responses.stream(model="chat", input="Where?", text_format=City) as events:
                shown = [event.delta for event in events if event.type == "response.output_text.delta"]
                answer = events.get_final_response()
            assert shown == [FITS]
        else:
            answer = client.responses.parse(model="chat", input="Where?", text_format=City)
        assert answer.output_parsed == City(city="Bonn")
        assert answer.text.format.schema_["required"] == ["city"]
        after = client.responses.create(model="chat", previous_response_id=answer.id, input="And plainly?")
        assert (after.output_text, after.text.format.type) == ("Plain.", "text")


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_is_parsed_by_the_sdk(stream: bool) -> None:
    with served(chatting(["In Bonn.", FITS])) as server:
        client = client_of(server)
        if stream:
            with client.chat.completions.stream(model="chat", messages=ASKED, response_format=City) as events:
                answer = events.get_final_completion()
        else:
            answer = client.chat.completions.parse(model="chat", messages=ASKED, response_format=City)
    assert answer.choices[0].message.parsed == City(city="Bonn")


@pytest.mark.parametrize("stream", [False, True])
def test_words_beside_a_handoff_are_no_part_of_the_answer(stream: bool) -> None:
    model = ScriptedModel(by_agent={"triage": [["One moment.", handoff("desk")], ["One moment.", handoff("desk")]], "desk": [FITS, FITS]})
    workflow = HandoffBuilder("desks", [Agent("triage", model=model), Agent("desk", model=model)]).with_next_turn("start").build()
    with served(workflow) as server:
        client = client_of(server)
        if stream:
            with client.responses.stream(model="desks", conversation="c", input="Where?", text_format=City) as events:
                response = events.get_final_response()
            with client.chat.completions.stream(model="desks", messages=ASKED, response_format=City) as chunks:
                message = chunks.get_final_completion().choices[0].message
        else:
            response = client.responses.parse(model="desks", conversation="c", input="Where?", text_format=City)
            message = client.chat.completions.parse(model="desks", messages=ASKED, response_format=City).choices[0].message
        said = [str(each) for each in session_of(server, workflow, "c").messages]
    assert [item.type for item in response.output] == ["mcp_call", "message"]
    assert response.output_parsed == message.parsed == City(city="Bonn")
    assert said == ["user: Where?", "triage: One moment.", f"desk: {FITS}"]


def test_an_agent_that_goes_on_by_itself_gives_its_last_answer() -> None:
    agent = Agent("ada", model=ScriptedModel(['{"city": "Ulm"}', FITS] * 2))
    builder = HandoffBuilder("chat", [agent]).with_autonomous_mode(["ada"], turn_limits={"ada": 1})
    with served(builder.build()) as server:
        client = client_of(server)
        assert client.chat.completions.parse(model="chat", messages=ASKED, response_format=City).choices[0].message.content == FITS
        with client.chat.completions.stream(model="chat", messages=ASKED, response_format=City) as chunks:
            assert chunks.get_final_completion().choices[0].message.content == FITS


def test_any_object_is_a_format() -> None:
    with served(chatting(["In Bonn.", "[1]", '{"a": 1}'] * 2)) as server:
        client = client_of(server)
        assert client.responses.create(model="chat", input="x", text={"format": {"type": "json_object"}}).output_text == '{"a": 1}'
        answer = client.chat.completions.create(model="chat", messages=ASKED, response_format={"type": "json_object"})
        assert answer.choices[0].message.content == '{"a": 1}'


def test_an_answer_that_never_fits_is_an_error() -> None:
    with served(chatting(["In Bonn."] * 9)) as server:
        client = client_of(server)
        for ask in (
            lambda: client.responses.parse(model="chat", input="Where?", text_format=City),
            lambda: client.chat.completions.parse(model="chat", messages=ASKED, response_format=City),
        ):
            with pytest.raises(openai.InternalServerError, match="3 replies were not accepted") as failed:
                ask()
            assert failed.value.code == "output_not_accepted"


def test_an_answer_that_never_fits_ends_a_stream_as_failed() -> None:
    with served(chatting(["In Bonn."] * 9)) as server:
        client = client_of(server)
        events = list(client.responses.create(model="chat", input="x", text={"format": {"type": "json_object"}}, stream=True))
        assert events[-1].type == "response.failed"
        assert "not accepted" in events[-1].response.error.message
        assert not any("Bonn" in str(event.to_dict().get("delta")) for event in events)
        with pytest.raises(openai.APIError, match="not accepted"):
            list(client.chat.completions.create(model="chat", messages=ASKED, response_format={"type": "json_object"}, stream=True))


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_told_as_one(stream: bool) -> None:
    with served(chatting([[Refusal("I will not say.")], [Refusal("I will not say.")]])) as server:
        client = client_of(server)
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
def test_words_of_a_guardrail_are_a_refusal(stream: bool) -> None:
    @guardrail("input")
    def nothing(context: object, text: str) -> str:
        return "Not today."

    agent = Agent("ada", model=ScriptedModel([]), guardrails=[nothing])
    with served(HandoffBuilder("chat", [agent]).build()) as server:
        client = client_of(server)
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


def test_an_output_type_of_an_agent_is_not_replaced() -> None:
    agent = Agent("ada", model=ScriptedModel(['{"city": "Bonn"}']), output_type=City)
    with served(HandoffBuilder("chat", [agent]).build()) as server:
        client = client_of(server)
        with pytest.raises(openai.BadRequestError, match="agent 'ada' has an output type of its own") as refused:
            client.responses.create(model="chat", input="x", text={"format": {"type": "json_object"}})
        assert refused.value.param == "text.format"
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="chat", messages=ASKED, response_format={"type": "json_object"})
        assert refused.value.param == "response_format"
        assert client.responses.create(model="chat", input="x").output_text == FITS


# -- beside other clients ----------------------------------------------------------------------------------------------

CITY_FORMAT: Any = {"format": {"type": "json_schema", "name": "city", "schema": City.model_json_schema()}}
CITY_IN_CHAT: Any = {"type": "json_schema", "json_schema": {"name": "city", "schema": City.model_json_schema()}}


def begun(client: Any, **more: Any) -> Any:
    """A streamed response in which the model has begun to speak."""
    events = client.responses.create(model="chat", conversation="s", input="Hello?", stream=True, **more)
    assert any(event.type == "response.output_text.delta" for event in events)
    return events


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_words_to_another_client_are_no_part_of_the_answer(api: str) -> None:
    """The model still says something to another client of the session when a format is asked for."""
    model = Held(["Hello there.", FITS])
    with served(chatting([], model=model)) as server:
        client = client_of(server)
        other = begun(client)
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
        assert "".join(chunk.choices[0].delta.content or "" for chunk in told) == FITS
        return
    assert "".join(event.delta for event in told if event.type == "response.output_text.delta") == FITS
    assert told[-1].response.output_text == FITS


def test_an_answer_ends_before_what_others_say_next() -> None:
    model = ScriptedModel(lambda request: FITS if "Where?" in str(request.messages[-1]) else "Hello there.")
    with served(chatting([], model=model)) as server:
        client = client_of(server)
        first = client.responses.create(model="chat", conversation="s", input="Where?", text=CITY_FORMAT)
        client.responses.create(model="chat", conversation="s", input="Hello?")
        assert client.responses.retrieve(first.id).output_text == FITS


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_to_two_at_once_is_an_error(stream: bool) -> None:
    """Another message came before the one with the format was answered, and the reply is as the later one asked."""
    model = Held(["Hello there.", "In Bonn."])
    with served(chatting([], model=model)) as server:
        client = client_of(server)
        other = begun(client)
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
    assert "both were answered at once" in failed.error.message


# -- how a run ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_the_last_of_several_answers_counts(stream: bool) -> None:
    """An agent that works on by itself answers several times, and each time in the format."""
    model = ScriptedModel(by_agent={"ada": ['{"city": "Ulm"}', '{"city": "Kiel"}', FITS]})
    workflow = HandoffBuilder("chat", [Agent("ada", model=model)]).with_autonomous_mode(turn_limits={"ada": 2}).build()
    with served(workflow) as server:
        client = client_of(server)
        if stream:
            with client.responses.stream(model="chat", input="Where?", text_format=City) as events:
                shown = [event.delta for event in events if event.type == "response.output_text.delta"]
                answer = events.get_final_response()
            assert shown == [FITS]
        else:
            answer = client.responses.parse(model="chat", input="Where?", text_format=City)
    assert answer.output_parsed == City(city="Bonn")


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_an_end_without_an_answer_is_an_error(api: str) -> None:
    model = ScriptedModel(by_agent={"ada": [["Goodbye.", handoff("ben")]], "ben": [FITS]})
    builder = HandoffBuilder("chat", [Agent("ada", model=model), Agent("ben", model=model)])
    workflow = builder.with_termination_condition(lambda messages: any("Goodbye" in message.text for message in messages)).build()
    with served(workflow) as server:
        client: Any = client_of(server)
        create = client.responses.create if api == "responses" else client.chat.completions.create
        asked = {"input": "Where?", "text": CITY_FORMAT} if api == "responses" else {"messages": ASKED, "response_format": CITY_IN_CHAT}
        with pytest.raises(openai.InternalServerError, match="ended before it had") as failure:
            create(model="chat", **asked)
    assert (failure.value.status_code, failure.value.code) == (502, "output_not_accepted")
