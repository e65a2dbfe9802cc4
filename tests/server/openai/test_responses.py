"""The Responses API over a served workflow, asked by OpenAI's own SDK."""

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
from tests.server.openai.asking import approved, client_of, plain
from tests.server.rooms import Broken, Held, Office, Refunds, chatting, refunding, said, served, session_of


def test_text_goes_in_and_text_comes_out_with_what_all_models_used() -> None:
    desk = Refunds([handoff("refunds")], ["Hello, what broke?"])
    with served(desk.workflow) as server:
        response = client_of(server).responses.create(model="desk", input="My order broke")
        session = session_of(server, desk.workflow, response.conversation.id)
    assert (response.status, response.output_text, response.model) == ("completed", "Hello, what broke?", "desk")
    assert response.usage.total_tokens == session.usage.total > 0
    assert response.created_at == session.facts[1].at // 1000


def test_workflows_are_models() -> None:
    with served(chatting([], "one"), chatting([], "two")) as server:
        client = client_of(server)
        assert [each.id for each in client.models.list()] == ["one", "two"]
        assert client.models.retrieve("two").id == "two"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("three")


def test_calls_of_tools_and_handoffs_are_items_of_the_output_in_order_and_secrets_are_digests() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        client = client_of(server)
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


def test_an_approval_through_the_protocol_runs_the_call_once_and_no_other_call() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        request = asked.output[-1]
        digest = request.id.split("_")[-2]
        other = {**approved(request), "approval_request_id": request.id.replace(digest, digest[::-1])}
        with pytest.raises(openai.ConflictError, match="other arguments"):
            client.responses.create(model="desk", previous_response_id=asked.id, input=[other])
        assert desk.paid == []
        paid = client.responses.create(model="desk", previous_response_id=asked.id, input=[approved(request)])
        assert (paid.output_text, desk.paid) == ("It is paid.", ["7"])
        assert [item.name for item in paid.output if item.type == "mcp_call"] == ["refund"]
        with pytest.raises(openai.ConflictError, match="not pending"):
            client.responses.create(model="desk", previous_response_id=asked.id, input=[approved(request)])
        assert desk.paid == ["7"]
        assert paid.conversation.id == asked.conversation.id


def test_what_is_rejected_does_not_run_and_the_model_is_told_why() -> None:
    desk = Refunds([handoff("refunds")], [call("refund", order="7", card="x"), "Then not."])
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        answer = approved(asked.output[-1], False, "too much")
        refused = client.responses.create(model="desk", previous_response_id=asked.id, input=[answer])
    assert (refused.output_text, desk.paid) == ("Then not.", [])
    assert refused.output[0].status == "failed"
    assert "too much" in desk.refunds.requests[-1].messages[-1].text


def test_a_result_that_comes_from_elsewhere_is_a_function_call_and_its_output() -> None:
    desk = Refunds([handoff("refunds")], [call("ask_bank", order="7"), "The bank agrees."])
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        waits = asked.output[-1]
        assert (waits.type, waits.name, waits.arguments) == ("function_call", "ask_bank", '{"order": "7"}')
        told = [{"type": "function_call_output", "call_id": waits.call_id, "output": "it agrees"}]
        done = client.responses.create(model="desk", previous_response_id=asked.id, input=told)
    assert done.output_text == "The bank agrees."
    assert desk.refunds.requests[-1].messages[-1].text == "it agrees"


def test_answers_may_come_one_by_one_and_each_is_recorded_at_once() -> None:
    desk = Refunds([handoff("refunds")], [[call("refund", order="1", card="x"), call("refund", order="2", card="x")], "Both."])
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund 1 and 2")
        one, two = (item for item in asked.output if item.type == "mcp_approval_request")
        half = client.responses.create(model="desk", previous_response_id=asked.id, input=[approved(one)])
        assert [item.id for item in half.output if item.type == "mcp_approval_request"] == [two.id]
        assert desk.paid == ["1"]
        done = client.responses.create(model="desk", conversation=asked.conversation.id, input=[approved(two)])
    assert (done.output_text, desk.paid) == ("Both.", ["1", "2"])


def test_a_limit_is_asked_about_in_the_same_way() -> None:
    workflow = chatting([], model=ScriptedModel(["one", "two"]), limits=Limits(turns=1))
    desk = Refunds([call("look_up", order="7"), "There it is."], limits=Limits(turns=1))
    with served(workflow, desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Where is 7?")
        assert asked.output[-1].name == "limit_of_turns"
        done = client.responses.create(model="desk", previous_response_id=asked.id, input=[approved(asked.output[-1])])
    assert done.output_text == "There it is."


def test_going_on_after_the_last_response_is_the_same_conversation() -> None:
    model = ScriptedModel(["one", "two", "three"])
    workflow = chatting([], model=model)
    with served(workflow) as server:
        client = client_of(server)
        last = client.responses.create(model="chat", input="first")
        for words in ("second", "third"):
            last = client.responses.create(model="chat", input=words, previous_response_id=last.id)
        assert said(server, workflow, last.conversation.id) == [
            "user: first",
            "ada: one",
            "user: second",
            "ada: two",
            "user: third",
            "ada: three",
        ]
    assert [message.text for message in model.requests[-1].messages] == ["first", "one", "second", "two", "third"]


def test_going_on_after_an_earlier_response_is_another_branch_and_the_first_stays_as_it_is() -> None:
    model = ScriptedModel(["one", "two", "other"])
    workflow = chatting([], model=model)
    with served(workflow) as server:
        client = client_of(server)
        first = client.responses.create(model="chat", input="first")
        second = client.responses.create(model="chat", input="second", previous_response_id=first.id)
        other = client.responses.create(model="chat", input="otherwise", previous_response_id=first.id)
        assert other.conversation.id != first.conversation.id == second.conversation.id
        assert said(server, workflow, first.conversation.id)[2:] == ["user: second", "ada: two"]
        assert said(server, workflow, other.conversation.id) == ["user: first", "ada: one", "user: otherwise", "ada: other"]
    assert [message.text for message in model.requests[-1].messages] == ["first", "one", "otherwise"]


def test_of_many_that_go_on_after_the_same_response_at_once_one_does_and_the_others_branch(tmp_path: Path) -> None:
    workflow = chatting(lambda seen: f"answer to {seen.messages[-1].text}")
    with served(workflow, store=SQLiteStore(tmp_path / "chat.sqlite")) as server:
        client = client_of(server)
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
            told = said(server, workflow, answer.conversation.id)
            assert told[:2] == ["user: first", "ada: answer to first"]
            assert len(told) == 4
            assert told[3] == f"ada: {answer.output_text}" == f"ada: answer to {told[2].removeprefix('user: ')}"


def test_a_conversation_is_a_session_by_its_name() -> None:
    workflow = chatting(["one", "two"])
    with served(workflow) as server:
        client = client_of(server)
        client.responses.create(model="chat", input="first", conversation="customer-42")
        second = client.responses.create(model="chat", input="second", conversation={"id": "customer-42"})
        assert second.conversation.id == "customer-42"
        assert said(server, workflow, "customer-42") == ["user: first", "ada: one", "user: second", "ada: two"]


def test_a_response_is_told_from_the_ledger_as_it_was_answered_and_as_it_was_streamed() -> None:
    for streamed in (False, True):
        desk = refunding()
        with served(desk.workflow) as server:
            client = client_of(server)
            answers = []
            given: list[dict[str, Any]] = [{"input": "Refund order 7"}, {}, {"input": "Thanks"}]
            for asked in given:
                if answers:
                    asked = {"input": [approved(answers[-1].output[-1])], **asked, "previous_response_id": answers[-1].id}
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
                looked = plain(client.responses.retrieve(answer.id))
                assert _without_parsed(plain(answer)) == looked


def _without_parsed(told: dict[str, Any]) -> dict[str, Any]:
    """What the SDK adds to a response that was streamed."""
    for item in told["output"]:
        for part in item.get("content", ()):
            part.pop("parsed", None)
    return told


def test_words_come_while_they_are_said() -> None:
    model = Held(["Good morning to you"])
    with served(chatting([], model=model)) as server:
        stream = client_of(server).responses.create(model="chat", input="Hello", stream=True)
        deltas = []
        for event in stream:
            if event.type == "response.output_text.delta":
                deltas.append(event.delta)
                model.free.set()
        assert event.response.output_text == "".join(deltas) == "Good morning to you"
        assert len(deltas) > 1


def test_whoever_leaves_a_stream_stops_nothing_and_may_read_it_again() -> None:
    model = Held(["Good morning to you"])
    with served(chatting([], model=model)) as server:
        client = client_of(server)
        with client.responses.create(model="chat", input="Hello", stream=True) as stream:
            id = next(event.response.id for event in stream if event.type == "response.created")
        assert client.responses.retrieve(id).status == "in_progress"
        again = client.responses.retrieve(id, stream=True)
        model.free.set()
        events = list(again)
    assert events[-1].response.output_text == "Good morning to you"
    assert len(model.requests) == 1


def test_in_the_background_it_is_asked_for_and_looked_at_later() -> None:
    model = Held(["Good morning to you"])
    with served(chatting([], model=model)) as server:
        client = client_of(server)
        begun = client.responses.create(model="chat", input="Hello", background=True)
        assert (begun.status, begun.output) == ("in_progress", [])
        model.free.set()
        for _ in client.responses.retrieve(begun.id, stream=True):
            pass
        assert client.responses.retrieve(begun.id).output_text == "Good morning to you"


def test_a_response_can_be_cancelled() -> None:
    model = Held(["Good morning to you"])
    workflow = chatting([], model=model)
    with served(workflow) as server:
        client = client_of(server)
        begun = client.responses.create(model="chat", input="Hello", background=True)
        assert client.responses.cancel(begun.id).status == "cancelled"
        model.free.set()
        assert said(server, workflow, begun.conversation.id) == ["user: Hello"]


def test_words_of_an_attempt_that_broke_are_marked_as_incomplete_and_are_not_in_the_response() -> None:
    model = Broken(["Good morning"], heard=True)
    with served(chatting([], model=model)) as server:
        events = []
        for event in client_of(server).responses.create(model="chat", input="Hello", stream=True):
            events.append(event)
            if event.type == "response.output_text.delta":
                model.free.set()
    broken, whole = (event.item for event in events if event.type == "response.output_item.done")
    assert (broken.status, broken.content[0].text[:14]) == ("incomplete", "I was about to")
    assert (whole.status, whole.content[0].text) == ("completed", "Good morning")
    assert [item.content[0].text for item in events[-1].response.output] == ["Good morning"]


def test_a_model_that_fails_is_an_error_and_what_was_said_is_kept() -> None:
    model = Broken(["Good morning"], times=2)
    workflow = chatting([], model=model)
    with served(workflow) as server:
        client = client_of(server, max_retries=3)
        with pytest.raises(openai.InternalServerError, match="the line broke") as failed:
            client.responses.create(model="chat", input="Hello", conversation="c")
        assert failed.value.code == "model_failed"
        assert said(server, workflow, "c") == ["user: Hello"]


def test_streamed_a_failure_is_the_response_that_failed() -> None:
    with served(chatting([], model=Broken([], times=9))) as server:
        events = list(client_of(server).responses.create(model="chat", input="Hello", stream=True))
    assert (events[-1].type, events[-1].response.error.message) == ("response.failed", "the line broke")


def test_sent_again_with_its_key_a_request_is_said_once_and_what_failed_is_tried_again() -> None:
    model = Broken(["Good morning", "Good evening"], times=2)
    workflow = chatting([], model=model)
    with served(workflow) as server:
        client = client_of(server)
        keyed: dict[str, Any] = {"model": "chat", "input": "Hello", "extra_headers": {"Idempotency-Key": "k1"}}
        with pytest.raises(openai.InternalServerError):
            client.responses.create(**keyed)
        first = client.responses.create(**keyed)
        again = client.responses.create(**keyed)
        assert plain(first) == plain(again)
        assert said(server, workflow, first.conversation.id) == ["user: Hello", "ada: Good morning"]
        with pytest.raises(openai.BadRequestError, match="used before for something else"):
            client.responses.create(**{**keyed, "input": "Other words"})
        later = client.responses.create(**{**keyed, "input": "Later", "extra_headers": {"Idempotency-Key": "k2"}})
        assert later.conversation.id != first.conversation.id


def test_a_branch_that_is_asked_for_twice_with_one_key_is_made_once() -> None:
    workflow = chatting(["one", "two", "other"])
    with served(workflow) as server:
        client = client_of(server)
        first = client.responses.create(model="chat", input="first")
        client.responses.create(model="chat", input="second", previous_response_id=first.id)
        keyed: dict[str, Any] = {"input": "otherwise", "previous_response_id": first.id, "extra_headers": {"Idempotency-Key": "k"}}
        answers = [client.responses.create(model="chat", **keyed) for _ in range(3)]
        assert len({answer.id for answer in answers}) == 1
        assert said(server, workflow, answers[0].conversation.id)[2:] == ["user: otherwise", "ada: other"]


def test_an_approval_sent_again_with_its_key_is_the_same_approval() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        answer: dict[str, Any] = {"input": [approved(asked.output[-1])], "extra_headers": {"Idempotency-Key": "k"}}
        answers = [client.responses.create(model="desk", previous_response_id=asked.id, **answer) for _ in range(2)]
    assert (answers[0].id, answers[0].output_text) == (answers[1].id, "It is paid.")
    assert desk.paid == ["7"]


def test_a_retry_of_the_sdk_without_a_key_is_refused_where_it_might_be_said_twice() -> None:
    workflow = chatting(["one", "two", "three"])
    retried = {"x-stainless-retry-count": "1"}
    with served(workflow) as server:
        client = client_of(server, max_retries=2)
        first = client.responses.create(model="chat", input="first", conversation="c", extra_headers=retried)  # nothing was there
        second = client.responses.create(model="chat", input="second", previous_response_id=first.id, extra_headers=retried)
        assert second.conversation.id == "c"  # nothing was said after the first, so this was not heard before
        with pytest.raises(openai.ConflictError, match="Idempotency-Key"):
            client.responses.create(model="chat", input="second", previous_response_id=first.id, extra_headers=retried)
        with pytest.raises(openai.ConflictError, match="Idempotency-Key"):
            client.responses.create(model="chat", input="third", conversation="c", extra_headers=retried)
        assert said(server, workflow, "c") == ["user: first", "ada: one", "user: second", "ada: two"]


def test_responses_outlive_the_server_and_not_their_session(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "chat.sqlite")
    workflow = chatting(["one", "two", "three"])
    with served(workflow, store=store) as server:
        first = client_of(server).responses.create(model="chat", input="first", conversation="c")
    with served(workflow, store=store) as server:
        client = client_of(server)
        assert plain(client.responses.retrieve(first.id)) == plain(first)
        second = client.responses.create(model="chat", input="second", previous_response_id=first.id)
        assert said(server, workflow, "c") == ["user: first", "ada: one", "user: second", "ada: two"]
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


def test_a_response_that_was_being_made_when_the_server_ended_is_made_by_the_next_one(tmp_path: Path) -> None:
    store, model = SQLiteStore(tmp_path / "chat.sqlite"), Held(["Good morning to you", "Good morning to you"])
    workflow = chatting([], model=model)
    with served(workflow, store=store, grace=0.1) as server:
        stream = client_of(server).responses.create(model="chat", input="Hello", stream=True)
        told = [next(stream) for _ in range(5)]
        assert told[-1].type == "response.output_text.delta"
    assert "response.completed" not in [event.type for event in stream]
    model.free.set()
    with served(workflow, store=store) as server:
        again = list(client_of(server).responses.retrieve(told[0].response.id, stream=True))
        assert again[-1].response.output_text == "Good morning to you"
        assert said(server, workflow, again[-1].response.conversation.id) == ["user: Hello", "ada: Good morning to you"]


def test_what_else_a_client_sends_of_the_past_is_named_as_ignored() -> None:
    workflow = chatting(["one"])
    past = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "mcp_call", "id": "mcp_1", "name": "f", "arguments": "{}", "server_label": "x"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hello", "annotations": []}]},
        {"role": "user", "content": "Bye"},
    ]
    with served(workflow) as server:
        response = client_of(server).responses.create(model="chat", input=past)
        told = session_of(server, workflow, response.conversation.id).messages[0].text
    assert response.legato["ignored"] == ["input of type mcp_call", "input of type reasoning"]
    assert told.splitlines()[1:] == ["user: Hi", "assistant: Hello", "And now the user says:", "Bye"]


def test_going_on_after_a_chat_completion() -> None:
    workflow = chatting(["one", "two"])
    with served(workflow) as server:
        client = client_of(server)
        chat = client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "first"}])
        second = client.responses.create(model="chat", input="second", previous_response_id=chat.id)
        assert said(server, workflow, second.conversation.id) == ["user: first", "ada: one", "user: second", "ada: two"]


def test_pictures_and_files_are_said_as_such() -> None:
    model = ScriptedModel(["Nice."])
    workflow = chatting([], model=model)
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
    content = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{pixel}", "detail": "auto"},
        {"type": "input_image", "image_url": "https://example.com/cat.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="},
    ]
    with served(workflow) as server:
        client_of(server).responses.create(model="chat", input=[{"role": "user", "content": content}], conversation="c")
        message = session_of(server, workflow, "c").messages[0]
    assert [type(part).__name__ for part in message.parts] == ["Text", "Image", "Image", "File"]
    assert (message.parts[1].digest != "", message.parts[2].url, message.parts[3].name) == (True, "https://example.com/cat.png", "a.txt")
    assert len(model.requests[0].contents) == 2


def test_a_message_that_comes_while_a_call_is_pending_waits_for_it() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        hurry = client.responses.create(model="desk", input="Hurry!", previous_response_id=asked.id)
        assert [item.type for item in hurry.output] == ["mcp_approval_request"]
        done = client.responses.create(model="desk", previous_response_id=asked.id, input=[approved(asked.output[-1])])
        assert done.conversation.id == asked.conversation.id
        assert [message.text for message in desk.refunds.requests[-1].messages][-1] == "Hurry!"
    assert desk.paid == ["7"]


def test_what_an_agent_asks_that_works_as_a_tool_is_asked_and_answered_in_the_same_way() -> None:
    office = Office()
    with served(office.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="office", input="Pay ann")
        assert [item.type for item in asked.output] == ["mcp_approval_request"]
        done = client.responses.create(model="office", previous_response_id=asked.id, input=[approved(asked.output[-1])])
        assert (done.output_text, office.paid) == ("All done.", ["ann"])
        assert (done.output[0].type, done.output[0].output) == ("mcp_call", "Ann is paid.")
        assert plain(client.responses.retrieve(done.id)) == plain(done)
        after = client.responses.create(model="office", previous_response_id=done.id, input="Are you there?")
        assert (after.output_text, after.conversation.id) == ("Yes?", asked.conversation.id)


def test_keys_that_look_like_one_another_are_two_requests_and_each_is_told_its_own_words() -> None:
    with served(chatting(["one", "two"])) as server:
        client = client_of(server)
        for key, words in (("visit 0", "one"), ("visit", "two")):
            told = client.responses.create(model="chat", conversation="c", input=key, extra_headers={"Idempotency-Key": key})
            assert told.output_text == words


@pytest.mark.parametrize("id", [" before", "behind "])
def test_a_conversation_whose_name_no_header_can_have_is_answered_all_the_same(id: str) -> None:
    with served(chatting(["one", "two", "three"])) as server:
        client = client_of(server)
        assert client.responses.create(model="chat", conversation=id, input="Hi").output_text == "one"
        *_, last = client.responses.create(model="chat", conversation=id, input="And?", stream=True)
        assert (last.response.output_text, last.response.conversation.id) == ("two", id)
        assert (
            client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "Well?"}], metadata={"session": id})
            .choices[0]
            .message.content
            == "three"
        )
