"""AG-UI over a served workflow: its own types read what a real server sends."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import httpx2
import pytest

from legato.stores import SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.server.agui.front import Front
from tests.server.rooms import Broken, Held, Office, Refunds, chatting, refunding, said, served, session_of


def ledger(server: Any, workflow: Any, thread: str = "t") -> list[str]:
    """What was said in a session, as a front end would show it."""
    messages = session_of(server, workflow, thread).messages
    return [f"{message.role}: {message.text}" for message in messages]


def test_a_run_with_tools_a_handoff_and_an_approval_is_told_as_the_protocol_has_it() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        front = Front(server)
        front.say("Refund order 7")
        assert [kind for kind in front.kinds if kind not in ("STATE_SNAPSHOT", "CUSTOM", "TEXT_MESSAGE_CONTENT")] == [
            "RUN_STARTED",
            *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"),
            *("TEXT_MESSAGE_START", "TEXT_MESSAGE_END"),
            *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"),
            "SUBAGENT_STARTED",
            *("TEXT_MESSAGE_START", "TEXT_MESSAGE_END"),
            *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"),
            "SUBAGENT_FINISHED",
            "MESSAGES_SNAPSHOT",
            "RUN_FINISHED",
        ]
        (asked,) = front.pending
        assert (asked.reason, asked.metadata["legato"]["tool"]) == ("tool_call", "refund")
        assert asked.tool_call_id == front.messages[-1]["toolCalls"][0]["id"]
        assert front.state["legato"] == {"workflow": "desk", "agent": "refunds", "status": "pending"}
        assert "4111-canary" not in str(front.events)
        front.answer({"approved": True})
        assert desk.paid == ["7"]
        results = [event for event in front.events if event.type.value == "TOOL_CALL_RESULT"]
        assert [(each.tool_call_id, each.content) for each in results] == [(asked.tool_call_id, "24.50 for order 7")]
        assert (front.events[-1].outcome.type, front.events[-1].result) == ("success", "It is paid.")
        assert front.said == ledger(server, desk.workflow)


def test_what_an_agent_does_after_a_handoff_is_its_subagents_and_control_may_go_back() -> None:
    desk = Refunds([handoff("refunds"), "Back again."], [["Not mine.", handoff("triage")]])
    with served(desk.workflow) as server:
        front = Front(server)
        front.say("Hello")
    started = [event for event in front.events if event.type.value == "SUBAGENT_STARTED"]
    assert [event.name for event in started] == ["refunds"]
    handed = [event.tool_call_id for event in front.events if event.type.value == "TOOL_CALL_START"]
    assert started[0].parent_tool_call_id == handed[0]
    spoken = {event.name: event.subagent_run_id for event in front.events if event.type.value == "TEXT_MESSAGE_START"}
    assert spoken == {"refunds": started[0].subagent_run_id, "triage": None}
    assert front.customs("legato.handoff") == [{"source": "triage", "target": "refunds"}, {"source": "refunds", "target": "triage"}]


def test_a_message_is_said_once_however_often_the_client_sends_it() -> None:
    model = ScriptedModel(["one", "two"])
    workflow = chatting([], model=model)
    with served(workflow) as server:
        front = Front(server)
        front.say("first")
        front.run()
        assert front.events[-1].outcome.type == "success"
        front.say("second")
        Front(server).run(messages=front.messages)
        assert said(server, workflow, "t") == ["user: first", "ada: one", "user: second", "ada: two"]
        assert front.said == ledger(server, workflow)
    assert len(model.requests) == 2


def test_what_was_said_under_an_id_stays_what_it_is_whatever_the_client_makes_of_it() -> None:
    workflow = chatting(["one", "two"])
    with served(workflow) as server:
        front = Front(server)
        front.say("first", "id-1")
        front.messages[0]["content"] = "something else"
        front.say("second", "id-2")
        assert said(server, workflow, "t") == ["user: first", "ada: one", "user: second", "ada: two"]


def test_a_client_that_has_nothing_or_has_other_things_is_given_what_there_is() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        first = Front(server)
        first.say("Refund order 7")
        second = Front(server)
        second.messages = [{"id": "s", "role": "system", "content": "Be kind."}, {"id": "x", "role": "assistant", "content": "I never did"}]
        second.run()
        assert second.said == ["system: Be kind.", *ledger(server, desk.workflow)]
        assert [each.id for each in second.pending] == [each.id for each in first.pending]
        second.answer({"approved": True})
        assert second.said[1:] == ledger(server, desk.workflow)


def test_words_that_came_by_another_way_are_shown_and_not_said_again() -> None:
    workflow = chatting(["one", "two", "three"])
    with served(workflow) as server:
        front = Front(server)
        front.say("first")
        with httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as client:
            client.post(f"{server.url}/api/sessions/t/messages", json={"message": "from the console"}).raise_for_status()
            while client.get(f"{server.url}/api/sessions/t").json()["status"] != "waiting":
                pass
        front.say("third")
        front.run()
        assert front.said == ledger(server, workflow)
        assert [each for each in front.said if each.startswith("user")] == ["user: first", "user: from the console", "user: third"]


def test_an_approval_with_other_arguments_runs_those_and_a_secret_that_was_left_alone_stays() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        front = Front(server)
        front.say("Refund order 7")
        shown = front.pending[0].metadata["legato"]["arguments"]
        assert "editedArgs" in front.pending[0].response_schema["properties"]
        front.answer({"approved": True, "editedArgs": {**shown, "order": "8"}})
        assert desk.paid == ["8"]
        decided = next(fact for fact in session_of(server, desk.workflow, "t").facts if getattr(fact, "verdict", "") == "edit")
    assert '"4111-canary"' in decided.arguments
    assert "4111-canary" not in str(front.events)


def test_arguments_that_were_sent_back_unchanged_are_an_approval() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        front = Front(server)
        front.say("Refund order 7")
        front.answer({"approved": True, "editedArgs": front.pending[0].metadata["legato"]["arguments"]})
        verdicts = [fact.verdict for fact in session_of(server, desk.workflow, "t").facts if hasattr(fact, "verdict")]
    assert (verdicts, desk.paid) == (["approve"], ["7"])


@pytest.mark.parametrize("edited", [{}, {"order": "8"}], ids=["as it was shown", "edited"])
def test_arguments_that_arrive_twice_are_one_answer(edited: dict[str, str]) -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        front = Front(server)
        front.say("Refund order 7")
        payload = {"approved": True, "editedArgs": {**front.pending[0].metadata["legato"]["arguments"], **edited}}
        resume = [{"interruptId": front.pending[0].id, "status": "resolved", "payload": payload}]
        for _ in range(2):
            front.run(resume=resume)
            assert (front.kinds[-1], front.customs("legato.not_pending")) == ("RUN_FINISHED", [])
    assert desk.paid == [edited.get("order", "7")]


def test_what_is_rejected_or_left_does_not_run_and_the_model_is_told() -> None:
    answers = [({"payload": {"approved": False, "reason": "too much"}}, "too much"), ({"status": "cancelled"}, "without an answer")]
    for answer, told in answers:
        desk = Refunds([handoff("refunds")], [call("refund", order="7", card="x"), "Then not."])
        with served(desk.workflow) as server:
            front = Front(server)
            front.say("Refund order 7")
            front.run(resume=[{"interruptId": front.pending[0].id, "status": "resolved", **answer}])
        assert (desk.paid, front.said[-1]) == ([], "assistant: Then not.")
        assert told in desk.refunds.requests[-1].messages[-1].text


def test_a_result_that_comes_from_elsewhere_is_asked_for() -> None:
    desk = Refunds([handoff("refunds")], [call("ask_bank", order="7"), "The bank agrees."])
    with served(desk.workflow) as server:
        front = Front(server)
        front.say("Refund order 7")
        assert front.pending[0].reason == "input_required"
        front.answer({"result": {"agrees": True}})
    assert front.said[-1] == "assistant: The bank agrees."
    assert desk.refunds.requests[-1].messages[-1].text == '{"agrees":true}'


def test_answers_may_come_one_by_one_and_each_is_recorded_at_once() -> None:
    desk = Refunds([handoff("refunds")], [[call("refund", order="1", card="x"), call("refund", order="2", card="x")], "Both."])
    with served(desk.workflow) as server:
        front = Front(server)
        front.say("Refund 1 and 2")
        one, two = front.pending
        front.run(resume=[{"interruptId": two.id, "status": "resolved", "payload": {"approved": True}}])
        assert [each.id for each in front.pending] == [one.id]
        assert desk.paid == ["2"]
        again = [{"interruptId": each.id, "status": "resolved", "payload": {"approved": True}} for each in (one, two)]
        front.run(resume=again)  # the second is the same answer again
        assert (desk.paid, front.pending, front.said[-1]) == (["2", "1"], [], "assistant: Both.")
        front.run(resume=again)
        assert desk.paid == ["2", "1"]


def test_somebody_else_who_answers_first_wins_and_the_client_is_told() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        front, other = Front(server), Front(server)
        front.say("Refund order 7")
        asked = front.pending[0].id
        other.run()
        other.answer({"approved": False})
        front.answer({"approved": True})
        assert front.customs("legato.not_pending") == [asked]
        assert (front.pending, front.said) == ([], ledger(server, desk.workflow))
    assert desk.paid == []


def test_an_answer_for_other_arguments_is_an_error_and_changes_nothing() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        front = Front(server)
        front.say("Refund order 7")
        forged = front.pending[0].id[:-4] + "0000"
        for id in (forged, "nonsense", "x_y"):
            front.run(resume=[{"interruptId": id, "status": "resolved", "payload": {"approved": True}}])
            assert (front.kinds[-1], front.events[-1].code) == ("RUN_ERROR", "not_pending")
        front.run(resume=[{"interruptId": front.pending[0].id, "status": "resolved", "payload": {"maybe": 1}}])
        assert (front.kinds[-1], front.events[-1].code) == ("RUN_ERROR", "bad_input")
        assert desk.paid == []
        front.answer({"approved": True})
        assert desk.paid == ["7"]


def test_a_message_that_comes_while_something_is_pending_is_heard_and_the_question_stays() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        front = Front(server)
        front.say("Refund order 7")
        asked = front.pending[0].id
        front.say("Hurry!")
        assert [each.id for each in front.pending] == [asked]
        front.answer({"approved": True})
        assert front.said == ledger(server, desk.workflow)
    assert desk.refunds.requests[-1].messages[-1].text == "Hurry!"


def test_words_come_while_they_are_said_and_whoever_leaves_stops_nothing() -> None:
    model = Held(["Good morning to you"])
    workflow = chatting([], model=model)
    with served(workflow) as server:
        front = Front(server)
        front.say("Hello", seen=lambda event: model.free.set() if event.type.value == "TEXT_MESSAGE_CONTENT" else None)
        assert front.kinds.count("TEXT_MESSAGE_CONTENT") > 1
        assert front.said == ledger(server, workflow)

        model.free.clear()
        model._script = ["Good morning to you", "And good night"]
        body = {"threadId": "t", "runId": "gone", "messages": [*front.messages, {"id": "late", "role": "user", "content": "Bye"}]}
        with (
            httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as client,
            client.stream("POST", f"{server.url}/agui", json=body) as response,
        ):
            next(line for line in response.iter_lines() if "TEXT_MESSAGE_CONTENT" in line)
        model.free.set()
        front.run()
        assert front.said == ledger(server, workflow)
        assert front.said[-2:] == ["user: Bye", "assistant: And good night"]


def test_words_that_do_not_count_are_taken_back() -> None:
    model = Broken(["Good morning"], heard=True)
    workflow = chatting([], model=model)
    with served(workflow) as server:
        front = Front(server)
        front.say("Hello", seen=lambda event: model.free.set() if event.type.value == "TEXT_MESSAGE_CONTENT" else None)
        assert front.said == ledger(server, workflow) == ["user: Hello", "assistant: Good morning"]
        assert "MESSAGES_SNAPSHOT" in front.kinds
        assert front.customs("legato.model_failed") != []


def test_a_model_that_fails_is_an_error_and_running_again_tries_again() -> None:
    model = Broken(["Good morning"], times=2)
    workflow = chatting([], model=model)
    with served(workflow) as server:
        front = Front(server)
        front.say("Hello")
        assert (front.kinds[-1], front.events[-1].message, front.events[-1].code) == ("RUN_ERROR", "the line broke", "model_failed")
        front.run()
        assert front.said == ledger(server, workflow) == ["user: Hello", "assistant: Good morning"]


def test_a_stopped_conversation_is_a_run_that_was_cancelled() -> None:
    model = Held(["Good morning to you"])
    workflow = chatting([], model=model)

    with served(workflow) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as client:

        def stop(event: Any) -> None:
            if event.type.value == "TEXT_MESSAGE_CONTENT" and not model.free.is_set():
                client.post(f"{server.url}/api/sessions/t/cancel", json={}).raise_for_status()
                model.free.set()

        front = Front(server)
        front.say("Hello", seen=stop)
        assert front.events[-1].outcome.type == "cancelled"
        assert front.said == ["user: Hello"]


def test_a_thread_outlives_the_server(tmp_path: Path) -> None:
    store, desk = SQLiteStore(tmp_path / "desk.sqlite"), refunding()
    with served(desk.workflow, store=store) as server:
        front = Front(server)
        front.say("Refund order 7")
    with served(desk.workflow, store=store) as server:
        again = Front(server)
        again.messages, again.pending = front.messages, front.pending
        again.answer({"approved": True})
        assert "MESSAGES_SNAPSHOT" not in again.kinds  # it has all that there is, under the same names
        assert again.said == ledger(server, desk.workflow)
    assert desk.paid == ["7"]


def test_a_picture_is_said_and_stays_what_it_is_for_the_client() -> None:
    model = ScriptedModel(["Nice."])
    workflow = chatting([], model=model)
    pixel = base64.b64encode(b"GIF89a-not-really").decode()
    content = [
        {"type": "text", "text": "Look"},
        {"type": "image", "source": {"type": "data", "value": pixel, "mimeType": "image/gif"}},
        {"type": "document", "source": {"type": "url", "value": "https://example.com/a.pdf"}},
    ]
    with served(workflow) as server:
        front = Front(server)
        front.say(content)
        other = Front(server)
        other.run()
        assert other.said[0].startswith("user: Look\n[image ")
        front.messages.insert(0, {"id": "x", "role": "assistant", "content": "to be corrected"})
        front.run()
        assert [part["type"] for part in front.messages[0]["content"]] == ["text", "image", "document"]
    assert [type(part).__name__ for part in model.requests[0].messages[0].parts] == ["Text", "Image", "File"]


@pytest.mark.parametrize("value", ["not base64", "\u00e9\u00e9\u00e9\u00e9"])
def test_picture_that_is_no_base64_is_refused(value: str) -> None:
    with served(chatting([])) as server:
        front = Front(server)
        front.say([{"type": "image", "source": {"type": "data", "value": value, "mimeType": "image/gif"}}])
        assert (front.kinds[-1], front.events[-1].code) == ("RUN_ERROR", "bad_input")
        assert "base64" in front.events[-1].message


def test_tools_of_a_client_are_refused_and_what_else_it_wants_the_agents_to_know_is_named() -> None:
    workflow = chatting(["one"])
    with served(workflow) as server:
        front = Front(server)
        front.say("Hello", tools=[{"name": "blink", "description": "Blink.", "parameters": {}}])
        assert (front.kinds[-1], front.events[-1].code) == ("RUN_ERROR", "bad_input")
        assert asyncio.run(server.serving.store.read("t")) == []
        front.run(context=[{"description": "time", "value": "noon"}], forwardedProps={"a": 1}, state={"mine": True})
        assert front.customs("legato.ignored") == ["context", "forwarded_props"]
        assert front.state["mine"] is True


def test_several_workflows_have_a_path_each() -> None:
    one, two = chatting(["I am one"], "one"), chatting(["I am two"], "two")
    with served(one, two) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as client:
        front = Front(server, "a", "/agui/two")
        front.say("Who are you?")
        assert front.said[-1] == "assistant: I am two"
        stray = Front(server, "a", "/agui/one")
        stray.run()
        assert (stray.kinds[-1], stray.events[-1].code) == ("RUN_ERROR", "bad_input")
        body = {"threadId": "x", "runId": "r", "messages": []}
        for path in ("/agui", "/agui/three"):
            assert client.post(f"{server.url}{path}", json=body).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"threadId": "t", "runId": "r"},
        {"threadId": "t", "runId": "", "messages": []},
        {"threadId": "t", "runId": "r", "messages": [{"id": "", "role": "user", "content": "x"}]},
        {"threadId": "t", "runId": "r", "messages": [{"id": "m" * 301, "role": "user", "content": "x"}]},
        {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "oracle", "content": "x"}]},
        {"threadId": 7, "runId": "r", "messages": []},
    ],
)
def test_what_is_no_input_of_the_protocol_is_refused(body: Any) -> None:
    with served(chatting(["one"])) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as client:
        answer = client.post(f"{server.url}/agui", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_input")


def test_a_thread_without_anything_said_in_it_is_not_made() -> None:
    workflow = chatting(["one"])
    with served(workflow) as server:
        front = Front(server)
        front.run()
        assert front.events[-1].outcome.type == "success"
        assert asyncio.run(server.serving.store.read("t")) == []


def test_what_an_agent_asks_that_works_as_a_tool_is_asked_and_answered_in_the_same_way() -> None:
    office = Office()
    with served(office.workflow) as server:
        front = Front(server)
        front.say("Pay ann")
        (asked,) = front.pending
        assert (asked.metadata["legato"]["tool"], asked.tool_call_id) == ("pay", None)  # the call is another conversation's
        front.answer({"approved": True})
        assert (office.paid, front.said) == (["ann"], ledger(server, office.workflow))
        front.run(resume=[{"interruptId": asked.id, "status": "resolved", "payload": {"approved": True}}])
        assert (office.paid, front.customs("legato.not_pending")) == (["ann"], [asked.id])


def test_a_thread_whose_id_no_session_can_have_is_an_error_of_the_run() -> None:
    with served(chatting(["one"])) as server:
        front = Front(server, "x" * 401)
        front.say("Hello")
        assert (front.kinds, front.events[-1].code) == (["RUN_STARTED", "RUN_ERROR"], "bad_input")
