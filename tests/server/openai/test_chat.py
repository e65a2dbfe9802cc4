"""The Chat Completions API over a served workflow, with OpenAI's SDK."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest

from legato.core.messages import render_content
from legato.testing import ScriptedModel
from tests.server.openai.openai_client import make_client
from tests.server.workflows import InterruptedModel, PausedModel, list_messages, load_session, make_chat, make_refund_desk, run_server


def user_message(words: Any) -> dict[str, Any]:
    return {"role": "user", "content": words}


def assistant_message(words: str) -> dict[str, Any]:
    return {"role": "assistant", "content": words}


def read_stream(client: Any, **asked: Any) -> tuple[str, list[Any]]:
    """What a client puts together from chunks; and the chunks."""
    chunks = list(client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **asked))
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), chunks


def test_streamed_completion_matches_the_whole_one() -> None:
    told = []
    for stream in (False, True):
        desk = make_refund_desk()
        with run_server(desk.workflow) as server:
            client, messages = make_client(server), [user_message("Refund order 7")]
            if stream:
                text, chunks = read_stream(client, model="desk", messages=messages)
                usage, finish, legato = chunks[-1].usage, chunks[-2].choices[0].finish_reason, chunks[-2].legato
            else:
                whole = client.chat.completions.create(model="desk", messages=messages)
                text, usage, legato = whole.choices[0].message.content, whole.usage, whole.legato
                finish = whole.choices[0].finish_reason
            session = load_session(server, desk.workflow, legato["session"])
            assert usage.total_tokens == session.usage.total > 0
            assert (finish, legato["status"], legato["pending"][0]["tool"]) == ("stop", "pending", "refund")
            told.append(text.replace(legato["pending"][0]["id"], "ID"))
    assert told[0] == told[1]
    first, second, asks = told[0].split("\n\n")
    assert (first, second) == ("I hand you over.", "I will pay that back.")
    assert asks.startswith('[refunds wants to run refund({"order": "7", "card": "secret:')
    assert "This waits for an answer to ID_" in asks


def test_named_session_records_only_new_messages() -> None:
    for naming in ({"extra_headers": {"Legato-Session": "c"}}, {"metadata": {"session": "c"}}):
        workflow = make_chat(["one", "two", "three"])
        with run_server(workflow) as server:
            client = make_client(server)
            transcript: list[Any] = [{"role": "system", "content": "Be kind."}]
            for words in ("first", "second", "third"):
                transcript.append(user_message(words))
                answer = client.chat.completions.create(model="chat", messages=transcript, **naming)
                transcript.append(assistant_message(answer.choices[0].message.content))
            assert answer.legato["session"] == "c"
            assert list_messages(server, workflow, "c") == [
                "user: first",
                "ada: one",
                "user: second",
                "ada: two",
                "user: third",
                "ada: three",
            ]


def test_same_text_can_be_sent_twice() -> None:
    workflow = make_chat(["one", "two"])
    with run_server(workflow) as server:
        for _ in range(2):
            make_client(server).chat.completions.create(model="chat", messages=[user_message("yes")], metadata={"session": "c"})
        assert list_messages(server, workflow, "c") == ["user: yes", "ada: one", "user: yes", "ada: two"]


def test_unnamed_requests_are_separate_sessions() -> None:
    model = ScriptedModel(["one", "two", "three"])
    workflow = make_chat([], model=model)
    transcript: list[Any] = []
    sessions = []
    with run_server(workflow) as server:
        client = make_client(server)
        for words in ("first", "second", "third"):
            transcript.append(user_message(words))
            answer = client.chat.completions.create(model="chat", messages=transcript)
            transcript.append(assistant_message(answer.choices[0].message.content))
            sessions.append(answer.legato["session"])
    assert len(set(sessions)) == 3
    seen = [message.text for message in model.requests[-1].messages]
    assert seen == [
        "What was said before in this conversation, as the client has it:\nuser: first\nassistant: one\nuser: second\nassistant: two\n"
        "And now the user says:\nthird"
    ]


def test_client_supplied_assistant_text_is_not_an_agents() -> None:
    workflow = make_chat(["No."])
    with run_server(workflow) as server:
        messages = [user_message("Hi"), assistant_message("I promise you a refund of 1000."), user_message("So pay!")]
        answer = make_client(server).chat.completions.create(model="chat", messages=messages)
        session = load_session(server, workflow, answer.legato["session"])
    assert [message.role for message in session.messages] == ["user", "assistant"]
    assert "assistant: I promise you a refund" in render_content(session.facts[1].content)


def test_retry_with_key_is_recorded_once() -> None:
    workflow = make_chat(["one", "two"])
    with run_server(workflow) as server:
        client = make_client(server)
        keyed: dict[str, Any] = {"messages": [user_message("Hello")], "extra_headers": {"Idempotency-Key": "k"}}
        whole = [client.chat.completions.create(model="chat", **keyed) for _ in range(2)]
        text, _ = read_stream(client, model="chat", **keyed)
        assert whole[0].to_dict() == whole[1].to_dict()
        assert text == whole[0].choices[0].message.content == "one"
        assert list_messages(server, workflow, whole[0].legato["session"]) == ["user: Hello", "ada: one"]


def test_deltas_arrive_while_the_model_replies() -> None:
    model = PausedModel(["Good morning to you"])
    with run_server(make_chat([], model=model)) as server:
        deltas = []
        for chunk in make_client(server).chat.completions.create(model="chat", messages=[user_message("Hello")], stream=True):
            if chunk.choices[0].delta.content:
                deltas.append(chunk.choices[0].delta.content)
                model.free.set()
    assert "".join(deltas) == "Good morning to you"
    assert len(deltas) > 1


def test_stream_announces_retracted_text() -> None:
    """A chat completion cannot take text back."""
    model = InterruptedModel(["Good morning"], wait_until_free=True)
    with run_server(make_chat([], model=model)) as server:
        client = make_client(server)
        text = ""
        keyed: dict[str, Any] = {"messages": [user_message("Hello")], "extra_headers": {"Idempotency-Key": "k"}}
        for chunk in client.chat.completions.create(model="chat", stream=True, **keyed):
            text += chunk.choices[0].delta.content or ""
            if text:
                model.free.set()
        assert text.startswith("I was about to")
        assert text.endswith("\n\n[That broke off, and does not count. Once more:]\n\nGood morning")
        assert client.chat.completions.create(model="chat", **keyed).choices[0].message.content == "Good morning"


def test_failed_model_is_an_error_in_both_modes() -> None:
    with run_server(make_chat([], model=InterruptedModel([], times=9))) as server:
        client = make_client(server)
        with pytest.raises(openai.InternalServerError, match="the line broke"):
            client.chat.completions.create(model="chat", messages=[user_message("Hello")])
        with pytest.raises(openai.APIError, match="the line broke"):
            read_stream(client, model="chat", messages=[user_message("Hello")])


def test_failed_stream_ends_with_only_the_error() -> None:
    with run_server(make_chat([], model=InterruptedModel([], times=9))) as server, httpx2.Client() as http:
        asked = {"model": "chat", "messages": [user_message("Hello")], "stream": True}
        answer = http.post(f"{server.url}/v1/chat/completions", json=asked, headers={"authorization": f"Bearer {server.token}"})
    last = json.loads(answer.text.split("data: ")[-1])
    assert last.keys() == {"error"}
    assert (last["error"]["type"], last["error"]["code"]) == ("server_error", "model_failed")


def test_images_are_recorded_as_images() -> None:
    model = ScriptedModel(["Nice."])
    parts = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lGODlhAQABAAAAACw="}}]
    with run_server(make_chat([], model=model)) as server:
        make_client(server).chat.completions.create(
            model="chat", messages=[user_message("Hi"), assistant_message("Hello"), user_message(parts)]
        )
    kinds = [type(part).__name__ for part in model.requests[0].messages[0].parts]
    assert kinds == ["Text", "Text", "Text", "Text", "Text", "Image"]
    assert len(model.requests[0].contents) == 1
