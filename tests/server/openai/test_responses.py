"""The Responses API over a served workflow, with OpenAI's SDK."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import openai
import pytest

from legato import Limits
from legato.stores import SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.server.openai.openai_client import make_approval, make_client, to_comparable
from tests.server.workflows import (
    InterruptedModel,
    PausedModel,
    PayerOffice,
    RefundDesk,
    list_messages,
    load_session,
    make_chat,
    make_refund_desk,
    run_server,
)


def test_response_has_text_and_summed_usage() -> None:
    desk = RefundDesk([handoff("refunds")], ["Hello, what broke?"])
    with run_server(desk.workflow) as server:
        response = make_client(server).responses.create(model="desk", input="My order broke")
        session = load_session(server, desk.workflow, response.conversation.id)
    assert (response.status, response.output_text, response.model) == ("completed", "Hello, what broke?", "desk")
    assert response.usage.total_tokens == session.usage.total > 0
    assert response.created_at == session.facts[1].at // 1000


def test_workflows_are_listed_as_models() -> None:
    with run_server(make_chat([], "one"), make_chat([], "two")) as server:
        client = make_client(server)
        assert [each.id for each in client.models.list()] == ["one", "two"]
        assert client.models.retrieve("two").id == "two"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("three")


def test_output_items_are_ordered_and_mask_secrets() -> None:
    """Calls of tools and handoffs."""
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client = make_client(server)
        first = client.responses.create(model="desk", input="Refund order 7")
        items = [(item.type, getattr(item, "name", ""), getattr(item, "output", "")) for item in first.output]
        assert items == [
            ("mcp_call", "look_up", "order 7 cost 24.50"),
            ("message", "", ""),
            ("mcp_call", "handoff_to_refunds", "Control passed to refunds."),
            ("message", "", ""),
            ("mcp_approval_request", "refund", ""),
        ]
        assert first.output_text == "I hand you over.I will pay that back."
        assert "4111-canary" not in first.to_json()
        assert '"card": "secret:' in first.output[-1].arguments


def test_approval_runs_exactly_the_approved_call() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        request = asked.output[-1]
        digest = request.id.split("_")[-2]
        other = {**make_approval(request), "approval_request_id": request.id.replace(digest, digest[::-1])}
        with pytest.raises(openai.ConflictError, match="other arguments"):
            client.responses.create(model="desk", previous_response_id=asked.id, input=[other])
        assert desk.paid == []
        paid = client.responses.create(model="desk", previous_response_id=asked.id, input=[make_approval(request)])
        assert (paid.output_text, desk.paid) == ("It is paid.", ["7"])
        assert [item.name for item in paid.output if item.type == "mcp_call"] == ["refund"]
        with pytest.raises(openai.ConflictError, match="not pending"):
            client.responses.create(model="desk", previous_response_id=asked.id, input=[make_approval(request)])
        assert desk.paid == ["7"]
        assert paid.conversation.id == asked.conversation.id


def test_rejected_call_does_not_run() -> None:
    desk = RefundDesk([handoff("refunds")], [call("refund", order="7", card="x"), "Then not."])
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        answer = make_approval(asked.output[-1], False, "too much")
        refused = client.responses.create(model="desk", previous_response_id=asked.id, input=[answer])
    assert (refused.output_text, desk.paid) == ("Then not.", [])
    assert refused.output[0].status == "failed"
    assert "too much" in desk.refunds.requests[-1].messages[-1].text


def test_deferred_result_is_a_function_call() -> None:
    desk = RefundDesk([handoff("refunds")], [call("ask_bank", order="7"), "The bank agrees."])
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        waits = asked.output[-1]
        assert (waits.type, waits.name, waits.arguments) == ("function_call", "ask_bank", '{"order": "7"}')
        told = [{"type": "function_call_output", "call_id": waits.call_id, "output": "it agrees"}]
        done = client.responses.create(model="desk", previous_response_id=asked.id, input=told)
    assert done.output_text == "The bank agrees."
    assert desk.refunds.requests[-1].messages[-1].text == "it agrees"


def test_partial_answers_are_recorded_at_once() -> None:
    desk = RefundDesk([handoff("refunds")], [[call("refund", order="1", card="x"), call("refund", order="2", card="x")], "Both."])
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund 1 and 2")
        one, two = (item for item in asked.output if item.type == "mcp_approval_request")
        half = client.responses.create(model="desk", previous_response_id=asked.id, input=[make_approval(one)])
        assert [item.id for item in half.output if item.type == "mcp_approval_request"] == [two.id]
        assert desk.paid == ["1"]
        done = client.responses.create(model="desk", conversation=asked.conversation.id, input=[make_approval(two)])
    assert (done.output_text, desk.paid) == ("Both.", ["1", "2"])


def test_limit_request_is_an_approval_item() -> None:
    workflow = make_chat([], model=ScriptedModel(["one", "two"]), limits=Limits(turns=1))
    desk = RefundDesk([call("look_up", order="7"), "There it is."], limits=Limits(turns=1))
    with run_server(workflow, desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Where is 7?")
        assert asked.output[-1].name == "limit_of_turns"
        done = client.responses.create(model="desk", previous_response_id=asked.id, input=[make_approval(asked.output[-1])])
    assert done.output_text == "There it is."


def test_continuing_last_response_keeps_the_session() -> None:
    model = ScriptedModel(["one", "two", "three"])
    workflow = make_chat([], model=model)
    with run_server(workflow) as server:
        client = make_client(server)
        last = client.responses.create(model="chat", input="first")
        for words in ("second", "third"):
            last = client.responses.create(model="chat", input=words, previous_response_id=last.id)
        assert list_messages(server, workflow, last.conversation.id) == [
            "user: first",
            "ada: one",
            "user: second",
            "ada: two",
            "user: third",
            "ada: three",
        ]
    assert [message.text for message in model.requests[-1].messages] == ["first", "one", "second", "two", "third"]


def test_continuing_earlier_response_forks_the_session() -> None:
    """The first branch stays as it is."""
    model = ScriptedModel(["one", "two", "other"])
    workflow = make_chat([], model=model)
    with run_server(workflow) as server:
        client = make_client(server)
        first = client.responses.create(model="chat", input="first")
        second = client.responses.create(model="chat", input="second", previous_response_id=first.id)
        other = client.responses.create(model="chat", input="otherwise", previous_response_id=first.id)
        assert other.conversation.id != first.conversation.id == second.conversation.id
        assert list_messages(server, workflow, first.conversation.id)[2:] == ["user: second", "ada: two"]
        assert list_messages(server, workflow, other.conversation.id) == ["user: first", "ada: one", "user: otherwise", "ada: other"]
    assert [message.text for message in model.requests[-1].messages] == ["first", "one", "otherwise"]


def test_concurrent_continuations_fork_except_one(tmp_path: Path) -> None:
    workflow = make_chat(lambda seen: f"answer to {seen.messages[-1].text}")
    with run_server(workflow, store=SQLiteStore(tmp_path / "chat.sqlite")) as server:
        client = make_client(server)
        first = client.responses.create(model="chat", input="first")
        answers: list[Any] = []

        def go_on(number: int) -> None:
            answers.append(client.responses.create(model="chat", input=f"number {number}", previous_response_id=first.id))

        threads = [threading.Thread(target=go_on, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sessions = [answer.conversation.id for answer in answers]
        assert len(set(sessions)) == 8
        assert sessions.count(first.conversation.id) == 1
        for answer in answers:
            told = list_messages(server, workflow, answer.conversation.id)
            assert told[:2] == ["user: first", "ada: answer to first"]
            assert len(told) == 4
            assert told[3] == f"ada: {answer.output_text}" == f"ada: answer to {told[2].removeprefix('user: ')}"


def test_conversation_id_is_the_session_id() -> None:
    workflow = make_chat(["one", "two"])
    with run_server(workflow) as server:
        client = make_client(server)
        client.responses.create(model="chat", input="first", conversation="customer-42")
        second = client.responses.create(model="chat", input="second", conversation={"id": "customer-42"})
        assert second.conversation.id == "customer-42"
        assert list_messages(server, workflow, "customer-42") == ["user: first", "ada: one", "user: second", "ada: two"]


def test_retrieved_response_equals_original_and_stream() -> None:
    for streamed in (False, True):
        desk = make_refund_desk()
        with run_server(desk.workflow) as server:
            client = make_client(server)
            answers = []
            given: list[dict[str, Any]] = [{"input": "Refund order 7"}, {}, {"input": "Thanks"}]
            for asked in given:
                if answers:
                    asked = {"input": [make_approval(answers[-1].output[-1])], **asked, "previous_response_id": answers[-1].id}
                if streamed:
                    with client.responses.stream(model="desk", **asked) as events:
                        told = list(events)
                        answers.append(events.get_final_response())
                    assert [event.sequence_number for event in told] == list(range(len(told)))
                    done = [event.item.id for event in told if event.type == "response.output_item.done"]
                    assert done == [item.id for item in answers[-1].output]
                else:
                    answers.append(client.responses.create(model="desk", **asked))
            assert [answer.output_text for answer in answers][1:] == ["It is paid.", "You are welcome."]
            for answer in answers:
                looked = to_comparable(client.responses.retrieve(answer.id))
                assert _without_parsed(to_comparable(answer)) == looked


def _without_parsed(told: dict[str, Any]) -> dict[str, Any]:
    """What the SDK adds to a response that was streamed."""
    for item in told["output"]:
        for part in item.get("content", ()):
            part.pop("parsed", None)
    return told


def test_deltas_arrive_while_the_model_replies() -> None:
    model = PausedModel(["Good morning to you"])
    with run_server(make_chat([], model=model)) as server:
        stream = make_client(server).responses.create(model="chat", input="Hello", stream=True)
        deltas = []
        for event in stream:
            if event.type == "response.output_text.delta":
                deltas.append(event.delta)
                model.free.set()
        assert event.response.output_text == "".join(deltas) == "Good morning to you"
        assert len(deltas) > 1


def test_abandoned_stream_can_be_read_again() -> None:
    model = PausedModel(["Good morning to you"])
    with run_server(make_chat([], model=model)) as server:
        client = make_client(server)
        with client.responses.create(model="chat", input="Hello", stream=True) as stream:
            id = next(event.response.id for event in stream if event.type == "response.created")
        assert client.responses.retrieve(id).status == "in_progress"
        again = client.responses.retrieve(id, stream=True)
        model.free.set()
        events = list(again)
    assert events[-1].response.output_text == "Good morning to you"
    assert len(model.requests) == 1


def test_background_response_can_be_polled() -> None:
    model = PausedModel(["Good morning to you"])
    with run_server(make_chat([], model=model)) as server:
        client = make_client(server)
        begun = client.responses.create(model="chat", input="Hello", background=True)
        assert (begun.status, begun.output) == ("in_progress", [])
        model.free.set()
        for _ in client.responses.retrieve(begun.id, stream=True):
            pass
        assert client.responses.retrieve(begun.id).output_text == "Good morning to you"


def test_a_response_can_be_cancelled() -> None:
    model = PausedModel(["Good morning to you"])
    workflow = make_chat([], model=model)
    with run_server(workflow) as server:
        client = make_client(server)
        begun = client.responses.create(model="chat", input="Hello", background=True)
        assert client.responses.cancel(begun.id).status == "cancelled"
        model.free.set()
        assert list_messages(server, workflow, begun.conversation.id) == ["user: Hello"]


def test_retracted_text_is_incomplete_and_left_out() -> None:
    model = InterruptedModel(["Good morning"], wait_until_free=True)
    with run_server(make_chat([], model=model)) as server:
        events = []
        for event in make_client(server).responses.create(model="chat", input="Hello", stream=True):
            events.append(event)
            if event.type == "response.output_text.delta":
                model.free.set()
    broken, whole = (event.item for event in events if event.type == "response.output_item.done")
    assert (broken.status, broken.content[0].text[:14]) == ("incomplete", "I was about to")
    assert (whole.status, whole.content[0].text) == ("completed", "Good morning")
    assert [item.content[0].text for item in events[-1].response.output] == ["Good morning"]


def test_failed_model_is_an_error_and_keeps_input() -> None:
    model = InterruptedModel(["Good morning"], times=2)
    workflow = make_chat([], model=model)
    with run_server(workflow) as server:
        client = make_client(server, max_retries=3)
        with pytest.raises(openai.InternalServerError, match="the line broke") as failed:
            client.responses.create(model="chat", input="Hello", conversation="c")
        assert failed.value.code == "model_failed"
        assert list_messages(server, workflow, "c") == ["user: Hello"]


def test_failed_stream_ends_with_failed_response() -> None:
    with run_server(make_chat([], model=InterruptedModel([], times=9))) as server:
        events = list(make_client(server).responses.create(model="chat", input="Hello", stream=True))
    assert (events[-1].type, events[-1].response.error.message) == ("response.failed", "the line broke")


def test_retry_with_key_records_once_and_retries_failures() -> None:
    model = InterruptedModel(["Good morning", "Good evening"], times=2)
    workflow = make_chat([], model=model)
    with run_server(workflow) as server:
        client = make_client(server)
        keyed: dict[str, Any] = {"model": "chat", "input": "Hello", "extra_headers": {"Idempotency-Key": "k1"}}
        with pytest.raises(openai.InternalServerError):
            client.responses.create(**keyed)
        first = client.responses.create(**keyed)
        again = client.responses.create(**keyed)
        assert to_comparable(first) == to_comparable(again)
        assert list_messages(server, workflow, first.conversation.id) == ["user: Hello", "ada: Good morning"]
        with pytest.raises(openai.BadRequestError, match="used before for something else"):
            client.responses.create(**{**keyed, "input": "Other words"})
        later = client.responses.create(**{**keyed, "input": "Later", "extra_headers": {"Idempotency-Key": "k2"}})
        assert later.conversation.id != first.conversation.id


def test_fork_with_same_key_is_created_once() -> None:
    workflow = make_chat(["one", "two", "other"])
    with run_server(workflow) as server:
        client = make_client(server)
        first = client.responses.create(model="chat", input="first")
        client.responses.create(model="chat", input="second", previous_response_id=first.id)
        keyed: dict[str, Any] = {"input": "otherwise", "previous_response_id": first.id, "extra_headers": {"Idempotency-Key": "k"}}
        answers = [client.responses.create(model="chat", **keyed) for _ in range(3)]
        assert len({answer.id for answer in answers}) == 1
        assert list_messages(server, workflow, answers[0].conversation.id)[2:] == ["user: otherwise", "ada: other"]


def test_repeated_approval_with_key_is_one_approval() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        answer: dict[str, Any] = {"input": [make_approval(asked.output[-1])], "extra_headers": {"Idempotency-Key": "k"}}
        answers = [client.responses.create(model="desk", previous_response_id=asked.id, **answer) for _ in range(2)]
    assert (answers[0].id, answers[0].output_text) == (answers[1].id, "It is paid.")
    assert desk.paid == ["7"]


def test_sdk_retry_without_key_is_refused() -> None:
    """Where the message could be recorded twice."""
    workflow = make_chat(["one", "two", "three"])
    retried = {"x-stainless-retry-count": "1"}
    with run_server(workflow) as server:
        client = make_client(server, max_retries=2)
        first = client.responses.create(model="chat", input="first", conversation="c", extra_headers=retried)  # nothing was there
        second = client.responses.create(model="chat", input="second", previous_response_id=first.id, extra_headers=retried)
        assert second.conversation.id == "c"  # nothing was said after the first, so this was not heard before
        with pytest.raises(openai.ConflictError, match="Idempotency-Key"):
            client.responses.create(model="chat", input="second", previous_response_id=first.id, extra_headers=retried)
        with pytest.raises(openai.ConflictError, match="Idempotency-Key"):
            client.responses.create(model="chat", input="third", conversation="c", extra_headers=retried)
        assert list_messages(server, workflow, "c") == ["user: first", "ada: one", "user: second", "ada: two"]


def test_responses_outlive_server_but_not_session(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "chat.sqlite")
    workflow = make_chat(["one", "two", "three"])
    with run_server(workflow, store=store) as server:
        first = make_client(server).responses.create(model="chat", input="first", conversation="c")
    with run_server(workflow, store=store) as server:
        client = make_client(server)
        assert to_comparable(client.responses.retrieve(first.id)) == to_comparable(first)
        second = client.responses.create(model="chat", input="second", previous_response_id=first.id)
        assert list_messages(server, workflow, "c") == ["user: first", "ada: one", "user: second", "ada: two"]
        asyncio.run(store.delete("c"))
        for id in (first.id, second.id):
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(id)
        client.responses.create(model="chat", input="anew", conversation="c")
        with pytest.raises(openai.NotFoundError):  # the same session id and the same position, and yet another conversation
            client.responses.retrieve(first.id)
        with pytest.raises(openai.BadRequestError, match="no response") as unknown:
            client.responses.create(model="chat", input="x", previous_response_id=first.id)
        assert unknown.value.code == "previous_response_not_found"


def test_next_server_finishes_interrupted_response(tmp_path: Path) -> None:
    store, model = SQLiteStore(tmp_path / "chat.sqlite"), PausedModel(["Good morning to you", "Good morning to you"])
    workflow = make_chat([], model=model)
    with run_server(workflow, store=store, grace=0.1) as server:
        stream = make_client(server).responses.create(model="chat", input="Hello", stream=True)
        told = [next(stream) for _ in range(5)]
        assert told[-1].type == "response.output_text.delta"
    assert "response.completed" not in [event.type for event in stream]
    model.free.set()
    with run_server(workflow, store=store) as server:
        again = list(make_client(server).responses.retrieve(told[0].response.id, stream=True))
        assert again[-1].response.output_text == "Good morning to you"
        assert list_messages(server, workflow, again[-1].response.conversation.id) == ["user: Hello", "ada: Good morning to you"]


def test_ignored_history_is_listed_in_response() -> None:
    workflow = make_chat(["one"])
    past = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "mcp_call", "id": "mcp_1", "name": "f", "arguments": "{}", "server_label": "x"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hello", "annotations": []}]},
        {"role": "user", "content": "Bye"},
    ]
    with run_server(workflow) as server:
        response = make_client(server).responses.create(model="chat", input=past)
        told = load_session(server, workflow, response.conversation.id).messages[0].text
    assert response.legato["ignored"] == ["input of type mcp_call", "input of type reasoning"]
    assert told.splitlines()[1:] == ["user: Hi", "assistant: Hello", "And now the user says:", "Bye"]


def test_response_continues_after_chat_completion() -> None:
    workflow = make_chat(["one", "two"])
    with run_server(workflow) as server:
        client = make_client(server)
        chat = client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "first"}])
        second = client.responses.create(model="chat", input="second", previous_response_id=chat.id)
        assert list_messages(server, workflow, second.conversation.id) == ["user: first", "ada: one", "user: second", "ada: two"]


def test_images_and_files_are_recorded() -> None:
    model = ScriptedModel(["Nice."])
    workflow = make_chat([], model=model)
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
    content = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{pixel}", "detail": "auto"},
        {"type": "input_image", "image_url": "https://example.com/cat.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="},
    ]
    with run_server(workflow) as server:
        make_client(server).responses.create(model="chat", input=[{"role": "user", "content": content}], conversation="c")
        message = load_session(server, workflow, "c").messages[0]
    assert [type(part).__name__ for part in message.parts] == ["Text", "Image", "Image", "File"]
    assert (message.parts[1].digest != "", message.parts[2].url, message.parts[3].name) == (True, "https://example.com/cat.png", "a.txt")
    assert len(model.requests[0].contents) == 2


def test_message_waits_for_pending_call() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        hurry = client.responses.create(model="desk", input="Hurry!", previous_response_id=asked.id)
        assert [item.type for item in hurry.output] == ["mcp_approval_request"]
        done = client.responses.create(model="desk", previous_response_id=asked.id, input=[make_approval(asked.output[-1])])
        assert done.conversation.id == asked.conversation.id
        assert [message.text for message in desk.refunds.requests[-1].messages][-1] == "Hurry!"
    assert desk.paid == ["7"]


def test_child_session_request_is_answered_in_thread() -> None:
    office = PayerOffice()
    with run_server(office.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="office", input="Pay ann")
        assert [item.type for item in asked.output] == ["mcp_approval_request"]
        done = client.responses.create(model="office", previous_response_id=asked.id, input=[make_approval(asked.output[-1])])
        assert (done.output_text, office.paid) == ("All done.", ["ann"])
        assert (done.output[0].type, done.output[0].output) == ("mcp_call", "Ann is paid.")
        assert to_comparable(client.responses.retrieve(done.id)) == to_comparable(done)
        after = client.responses.create(model="office", previous_response_id=done.id, input="Are you there?")
        assert (after.output_text, after.conversation.id) == ("Yes?", asked.conversation.id)


def test_similar_keys_are_separate_requests() -> None:
    with run_server(make_chat(["one", "two"])) as server:
        client = make_client(server)
        for key, words in (("visit 0", "one"), ("visit", "two")):
            told = client.responses.create(model="chat", conversation="c", input=key, extra_headers={"Idempotency-Key": key})
            assert told.output_text == words


@pytest.mark.parametrize("id", [" before", "behind "])
def test_session_id_unfit_for_headers_works(id: str) -> None:
    with run_server(make_chat(["one", "two", "three"])) as server:
        client = make_client(server)
        assert client.responses.create(model="chat", conversation=id, input="Hi").output_text == "one"
        *_, last = client.responses.create(model="chat", conversation=id, input="And?", stream=True)
        assert (last.response.output_text, last.response.conversation.id) == ("two", id)
        assert (
            client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "Well?"}], metadata={"session": id})
            .choices[0]
            .message.content
            == "three"
        )
