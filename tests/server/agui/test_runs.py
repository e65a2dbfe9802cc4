"""AG-UI over a served workflow, decoded with the protocol's own types."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import httpx2
import pytest

from legato.stores import SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.server.agui.agui_client import AguiClient
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


def list_ledger_messages(server: Any, workflow: Any, thread: str = "t") -> list[str]:
    """What was said in a session, as a front end would show it."""
    messages = load_session(server, workflow, thread).messages
    return [f"{message.role}: {message.text}" for message in messages]


def test_run_with_handoff_and_approval_follows_protocol() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        front = AguiClient(server)
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
        assert front.texts == list_ledger_messages(server, desk.workflow)


def test_handoff_starts_subagent_until_control_returns() -> None:
    desk = RefundDesk([handoff("refunds"), "Back again."], [["Not mine.", handoff("triage")]])
    with run_server(desk.workflow) as server:
        front = AguiClient(server)
        front.say("Hello")
    started = [event for event in front.events if event.type.value == "SUBAGENT_STARTED"]
    assert [event.name for event in started] == ["refunds"]
    handed = [event.tool_call_id for event in front.events if event.type.value == "TOOL_CALL_START"]
    assert started[0].parent_tool_call_id == handed[0]
    spoken = {event.name: event.subagent_run_id for event in front.events if event.type.value == "TEXT_MESSAGE_START"}
    assert spoken == {"refunds": started[0].subagent_run_id, "triage": None}
    assert front.list_custom_values("legato.handoff") == [
        {"source": "triage", "target": "refunds"},
        {"source": "refunds", "target": "triage"},
    ]


def test_repeated_message_is_recorded_once() -> None:
    model = ScriptedModel(["one", "two"])
    workflow = make_chat([], model=model)
    with run_server(workflow) as server:
        front = AguiClient(server)
        front.say("first")
        front.run()
        assert front.events[-1].outcome.type == "success"
        front.say("second")
        AguiClient(server).run(messages=front.messages)
        assert list_messages(server, workflow, "t") == ["user: first", "ada: one", "user: second", "ada: two"]
        assert front.texts == list_ledger_messages(server, workflow)
    assert len(model.requests) == 2


def test_client_cannot_change_recorded_message() -> None:
    workflow = make_chat(["one", "two"])
    with run_server(workflow) as server:
        front = AguiClient(server)
        front.say("first", "id-1")
        front.messages[0]["content"] = "something else"
        front.say("second", "id-2")
        assert list_messages(server, workflow, "t") == ["user: first", "ada: one", "user: second", "ada: two"]


def test_client_without_history_gets_a_snapshot() -> None:
    """Also a client whose messages differ from the ledger's."""
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        first = AguiClient(server)
        first.say("Refund order 7")
        second = AguiClient(server)
        second.messages = [{"id": "s", "role": "system", "content": "Be kind."}, {"id": "x", "role": "assistant", "content": "I never did"}]
        second.run()
        assert second.texts == ["system: Be kind.", *list_ledger_messages(server, desk.workflow)]
        assert [each.id for each in second.pending] == [each.id for each in first.pending]
        second.answer({"approved": True})
        assert second.texts[1:] == list_ledger_messages(server, desk.workflow)


def test_messages_from_other_clients_are_shown_once() -> None:
    workflow = make_chat(["one", "two", "three"])
    with run_server(workflow) as server:
        front = AguiClient(server)
        front.say("first")
        with httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as client:
            client.post(f"{server.url}/api/sessions/t/messages", json={"message": "from the console"}).raise_for_status()
            while client.get(f"{server.url}/api/sessions/t").json()["status"] != "waiting":
                pass
        front.say("third")
        front.run()
        assert front.texts == list_ledger_messages(server, workflow)
        assert [each for each in front.texts if each.startswith("user")] == ["user: first", "user: from the console", "user: third"]


def test_edited_approval_keeps_unchanged_secret_arguments() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        front = AguiClient(server)
        front.say("Refund order 7")
        shown = front.pending[0].metadata["legato"]["arguments"]
        assert "editedArgs" in front.pending[0].response_schema["properties"]
        front.answer({"approved": True, "editedArgs": {**shown, "order": "8"}})
        assert desk.paid == ["8"]
        decided = next(fact for fact in load_session(server, desk.workflow, "t").facts if getattr(fact, "verdict", "") == "edit")
    assert '"4111-canary"' in decided.arguments
    assert "4111-canary" not in str(front.events)


def test_unchanged_arguments_count_as_approval() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        front = AguiClient(server)
        front.say("Refund order 7")
        front.answer({"approved": True, "editedArgs": front.pending[0].metadata["legato"]["arguments"]})
        verdicts = [fact.verdict for fact in load_session(server, desk.workflow, "t").facts if hasattr(fact, "verdict")]
    assert (verdicts, desk.paid) == (["approve"], ["7"])


@pytest.mark.parametrize("edited", [{}, {"order": "8"}], ids=["as it was shown", "edited"])
def test_repeated_answer_is_recorded_once(edited: dict[str, str]) -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        front = AguiClient(server)
        front.say("Refund order 7")
        payload = {"approved": True, "editedArgs": {**front.pending[0].metadata["legato"]["arguments"], **edited}}
        resume = [{"interruptId": front.pending[0].id, "status": "resolved", "payload": payload}]
        for _ in range(2):
            front.run(resume=resume)
            assert (front.kinds[-1], front.list_custom_values("legato.not_pending")) == ("RUN_FINISHED", [])
    assert desk.paid == [edited.get("order", "7")]


def test_rejected_or_abandoned_call_does_not_run() -> None:
    answers = [({"payload": {"approved": False, "reason": "too much"}}, "too much"), ({"status": "cancelled"}, "without an answer")]
    for answer, told in answers:
        desk = RefundDesk([handoff("refunds")], [call("refund", order="7", card="x"), "Then not."])
        with run_server(desk.workflow) as server:
            front = AguiClient(server)
            front.say("Refund order 7")
            front.run(resume=[{"interruptId": front.pending[0].id, "status": "resolved", **answer}])
        assert (desk.paid, front.texts[-1]) == ([], "assistant: Then not.")
        assert told in desk.refunds.requests[-1].messages[-1].text


def test_deferred_result_becomes_an_interrupt() -> None:
    desk = RefundDesk([handoff("refunds")], [call("ask_bank", order="7"), "The bank agrees."])
    with run_server(desk.workflow) as server:
        front = AguiClient(server)
        front.say("Refund order 7")
        assert front.pending[0].reason == "input_required"
        front.answer({"result": {"agrees": True}})
    assert front.texts[-1] == "assistant: The bank agrees."
    assert desk.refunds.requests[-1].messages[-1].text == '{"agrees":true}'


def test_partial_answers_are_recorded_at_once() -> None:
    desk = RefundDesk([handoff("refunds")], [[call("refund", order="1", card="x"), call("refund", order="2", card="x")], "Both."])
    with run_server(desk.workflow) as server:
        front = AguiClient(server)
        front.say("Refund 1 and 2")
        one, two = front.pending
        front.run(resume=[{"interruptId": two.id, "status": "resolved", "payload": {"approved": True}}])
        assert [each.id for each in front.pending] == [one.id]
        assert desk.paid == ["2"]
        again = [{"interruptId": each.id, "status": "resolved", "payload": {"approved": True}} for each in (one, two)]
        front.run(resume=again)  # the second is the same answer again
        assert (desk.paid, front.pending, front.texts[-1]) == (["2", "1"], [], "assistant: Both.")
        front.run(resume=again)
        assert desk.paid == ["2", "1"]


def test_late_answer_is_reported_as_not_pending() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        front, other = AguiClient(server), AguiClient(server)
        front.say("Refund order 7")
        asked = front.pending[0].id
        other.run()
        other.answer({"approved": False})
        front.answer({"approved": True})
        assert front.list_custom_values("legato.not_pending") == [asked]
        assert (front.pending, front.texts) == ([], list_ledger_messages(server, desk.workflow))
    assert desk.paid == []


def test_answer_with_other_digest_changes_nothing() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        front = AguiClient(server)
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


def test_message_during_pending_request_keeps_the_request() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        front = AguiClient(server)
        front.say("Refund order 7")
        asked = front.pending[0].id
        front.say("Hurry!")
        assert [each.id for each in front.pending] == [asked]
        front.answer({"approved": True})
        assert front.texts == list_ledger_messages(server, desk.workflow)
    assert desk.refunds.requests[-1].messages[-1].text == "Hurry!"


def test_disconnected_client_does_not_stop_the_run() -> None:
    model = PausedModel(["Good morning to you"])
    workflow = make_chat([], model=model)
    with run_server(workflow) as server:
        front = AguiClient(server)
        front.say("Hello", on_event=lambda event: model.free.set() if event.type.value == "TEXT_MESSAGE_CONTENT" else None)
        assert front.kinds.count("TEXT_MESSAGE_CONTENT") > 1
        assert front.texts == list_ledger_messages(server, workflow)

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
        assert front.texts == list_ledger_messages(server, workflow)
        assert front.texts[-2:] == ["user: Bye", "assistant: And good night"]


def test_retracted_text_is_removed_by_snapshot() -> None:
    model = InterruptedModel(["Good morning"], wait_until_free=True)
    workflow = make_chat([], model=model)
    with run_server(workflow) as server:
        front = AguiClient(server)
        front.say("Hello", on_event=lambda event: model.free.set() if event.type.value == "TEXT_MESSAGE_CONTENT" else None)
        assert front.texts == list_ledger_messages(server, workflow) == ["user: Hello", "assistant: Good morning"]
        assert "MESSAGES_SNAPSHOT" in front.kinds
        assert front.list_custom_values("legato.model_failed") != []


def test_failed_run_can_be_retried() -> None:
    model = InterruptedModel(["Good morning"], times=2)
    workflow = make_chat([], model=model)
    with run_server(workflow) as server:
        front = AguiClient(server)
        front.say("Hello")
        assert (front.kinds[-1], front.events[-1].message, front.events[-1].code) == ("RUN_ERROR", "the line broke", "model_failed")
        front.run()
        assert front.texts == list_ledger_messages(server, workflow) == ["user: Hello", "assistant: Good morning"]


def test_cancelled_session_ends_run_as_cancelled() -> None:
    model = PausedModel(["Good morning to you"])
    workflow = make_chat([], model=model)

    with run_server(workflow) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as client:

        def stop(event: Any) -> None:
            if event.type.value == "TEXT_MESSAGE_CONTENT" and not model.free.is_set():
                client.post(f"{server.url}/api/sessions/t/cancel", json={}).raise_for_status()
                model.free.set()

        front = AguiClient(server)
        front.say("Hello", on_event=stop)
        assert front.events[-1].outcome.type == "cancelled"
        assert front.texts == ["user: Hello"]


def test_a_thread_outlives_the_server(tmp_path: Path) -> None:
    store, desk = SQLiteStore(tmp_path / "desk.sqlite"), make_refund_desk()
    with run_server(desk.workflow, store=store) as server:
        front = AguiClient(server)
        front.say("Refund order 7")
    with run_server(desk.workflow, store=store) as server:
        again = AguiClient(server)
        again.messages, again.pending = front.messages, front.pending
        again.answer({"approved": True})
        assert "MESSAGES_SNAPSHOT" not in again.kinds  # it has all that there is, under the same names
        assert again.texts == list_ledger_messages(server, desk.workflow)
    assert desk.paid == ["7"]


def test_image_is_recorded_and_kept_in_snapshot() -> None:
    model = ScriptedModel(["Nice."])
    workflow = make_chat([], model=model)
    pixel = base64.b64encode(b"GIF89a-not-really").decode()
    content = [
        {"type": "text", "text": "Look"},
        {"type": "image", "source": {"type": "data", "value": pixel, "mimeType": "image/gif"}},
        {"type": "document", "source": {"type": "url", "value": "https://example.com/a.pdf"}},
    ]
    with run_server(workflow) as server:
        front = AguiClient(server)
        front.say(content)
        other = AguiClient(server)
        other.run()
        assert other.texts[0].startswith("user: Look\n[image ")
        front.messages.insert(0, {"id": "x", "role": "assistant", "content": "to be corrected"})
        front.run()
        assert [part["type"] for part in front.messages[0]["content"]] == ["text", "image", "document"]
    assert [type(part).__name__ for part in model.requests[0].messages[0].parts] == ["Text", "Image", "File"]


@pytest.mark.parametrize("value", ["not base64", "\u00e9\u00e9\u00e9\u00e9"])
def test_invalid_base64_image_is_refused(value: str) -> None:
    with run_server(make_chat([])) as server:
        front = AguiClient(server)
        front.say([{"type": "image", "source": {"type": "data", "value": value, "mimeType": "image/gif"}}])
        assert (front.kinds[-1], front.events[-1].code) == ("RUN_ERROR", "bad_input")
        assert "base64" in front.events[-1].message


def test_client_tools_are_refused_and_context_is_ignored() -> None:
    """Ignored fields are named in a custom event."""
    workflow = make_chat(["one"])
    with run_server(workflow) as server:
        front = AguiClient(server)
        front.say("Hello", tools=[{"name": "blink", "description": "Blink.", "parameters": {}}])
        assert (front.kinds[-1], front.events[-1].code) == ("RUN_ERROR", "bad_input")
        assert asyncio.run(server.registry.store.read("t")) == []
        front.run(context=[{"description": "time", "value": "noon"}], forwardedProps={"a": 1}, state={"mine": True})
        assert front.list_custom_values("legato.ignored") == ["context", "forwarded_props"]
        assert front.state["mine"] is True


def test_each_workflow_has_its_own_path() -> None:
    one, two = make_chat(["I am one"], "one"), make_chat(["I am two"], "two")
    with run_server(one, two) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as client:
        front = AguiClient(server, "a", "/agui/two")
        front.say("Who are you?")
        assert front.texts[-1] == "assistant: I am two"
        stray = AguiClient(server, "a", "/agui/one")
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
def test_invalid_run_input_is_refused(body: Any) -> None:
    with run_server(make_chat(["one"])) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as client:
        answer = client.post(f"{server.url}/agui", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_input")


def test_empty_run_creates_no_session() -> None:
    workflow = make_chat(["one"])
    with run_server(workflow) as server:
        front = AguiClient(server)
        front.run()
        assert front.events[-1].outcome.type == "success"
        assert asyncio.run(server.registry.store.read("t")) == []


def test_child_session_request_is_answered_in_thread() -> None:
    office = PayerOffice()
    with run_server(office.workflow) as server:
        front = AguiClient(server)
        front.say("Pay ann")
        (asked,) = front.pending
        assert (asked.metadata["legato"]["tool"], asked.tool_call_id) == ("pay", None)  # the call is another conversation's
        front.answer({"approved": True})
        assert (office.paid, front.texts) == (["ann"], list_ledger_messages(server, office.workflow))
        front.run(resume=[{"interruptId": asked.id, "status": "resolved", "payload": {"approved": True}}])
        assert (office.paid, front.list_custom_values("legato.not_pending")) == (["ann"], [asked.id])


def test_invalid_thread_id_is_a_run_error() -> None:
    with run_server(make_chat(["one"])) as server:
        front = AguiClient(server, "x" * 401)
        front.say("Hello")
        assert (front.kinds, front.events[-1].code) == (["RUN_STARTED", "RUN_ERROR"], "bad_input")
