"""Input over HTTP: messages, streamed replies, pending requests and their answers, and refusals."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from typing import Any
from urllib.parse import quote

import pytest

from legato import Agent, HandoffBuilder, Secret, tool
from legato.engines import RetryPolicy
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel, call
from tests.inspection.support_desk import PIN, build_desk, build_refund_desk
from tests.server.conftest import Serve


def make_workflow(*script: Any, **more: Any) -> Any:
    return HandoffBuilder("hello", [Agent("clerk", model=ScriptedModel(list(script)), **more)]).build()


def test_message_is_answered_with_resumable_events(serve_workflows: Serve) -> None:
    """Recorded events have cursors, from the beginning of the session."""
    api = serve_workflows(make_workflow("Hello!"))
    made = api.post("/api/sessions", {"id": "s", "message": "Hi"}, 201)
    assert (made["id"], made["workflow"], made["served"], made["can_drive"]) == ("s", "hello", True, True)
    with api.open_events("s") as events:
        told = [next(events)]
        while told[-1]["event"] != "status":
            told.append(next(events))
    recorded = [event["event"] for event in told if "id" in event and event["event"] != "output"]  # words may have come in pieces, too
    assert recorded == ["said", "message", "request_info", "status"]
    session = api.get_session("s")
    assert (session["status"], session["last"], session["messages"]) == ("waiting", {"author": "clerk", "text": "Hello!"}, 2)


def test_deltas_are_streamed_without_cursors(serve_workflows: Serve) -> None:
    api = serve_workflows(make_workflow("One two three four five six"))
    api.post("/api/sessions", {"id": "s"}, 201)
    pieces: list[str] = []
    with api.open_events("s") as events:
        api.post("/api/sessions/s/messages", {"message": "Count"}, 202)
        for event in events:
            data = json.loads(event["data"])["data"]
            if event["event"] == "output" and data["delta"]:
                assert "id" not in event
                pieces.append(data["text"])
            if event["event"] == "status":
                break
    assert "".join(pieces) == "One two three four five six"
    assert len(pieces) > 1


def test_stream_resumes_after_cursor_in_header_or_query(serve_workflows: Serve) -> None:
    api = serve_workflows(make_workflow("Hello!"))
    api.create_session("Hi", "s")
    with api.open_events("s") as events:
        told = [next(events)]
        while told[-1]["event"] != "status":
            told.append(next(events))
    ids = [event["id"] for event in told if "id" in event]
    for how in ({"last": ids[0]}, {"after": ids[0]}):
        with api.open_events("s", **how) as events:
            again = [next(events)]
            assert again[0]["event"] == "output_reset"  # what was shown of a reply in the making is withdrawn
            while again[-1]["event"] != "status":
                again.append(next(events))
        assert [event["id"] for event in again[1:]] == ids[1:]
    assert api.request("GET", "/api/sessions/s/events?after=nonsense").error == "bad_input"
    assert api.request("GET", "/api/sessions/nobody/events").error == "unknown_ledger"


def test_edited_call_keeps_unchanged_secret_arguments(serve_workflows: Serve) -> None:
    ran: list[tuple[str, str]] = []

    @tool(needs_approval=True)
    def pay(to: str, pin: Secret[str]) -> str:
        """Pay."""
        ran.append((to, pin))
        return "paid"

    api = serve_workflows(make_workflow(call("pay", to="Ann", pin=PIN), "It is paid.", tools=[pay]))
    [request] = api.create_session("Pay", "s", "pending")["pending"]
    assert (request["kind"], request["verdicts"], request["secrets"]) == ("approval", ["approve", "reject", "edit"], ["pin"])
    assert request["arguments"]["pin"].startswith("secret:")
    assert request["schema"]["properties"].keys() == {"to", "pin"}
    answer = {"request": request["id"], "digest": request["digest"], "verdict": "edit", "key": "k"}
    assert api.request("POST", "/api/sessions/s/answers", answer).error == "bad_input"  # without arguments
    answer["arguments"] = {**request["arguments"], "to": "Bob"}
    for _ in range(2):  # delivered twice: it is the same answer
        assert api.request("POST", "/api/sessions/s/answers", answer).status == 200
    assert api.wait_for_status("s", "waiting")["last"]["text"] == "It is paid."
    assert ran == [("Bob", PIN)]


def test_stale_answer_is_refused_and_changes_nothing(serve_workflows: Serve) -> None:
    """An answer for other arguments, for an unknown request, or with a verdict that the request does not have."""
    api = serve_workflows(build_refund_desk())
    [request] = api.create_session("Money back!", "s", "pending")["pending"]
    facts = api.get_session("s")["facts"]
    given = {"request": request["id"], "verdict": "approve"}
    assert api.request("POST", "/api/sessions/s/answers", given).error == "bad_input"
    assert api.request("POST", "/api/sessions/s/answers", {**given, "digest": "0" * 32}).error == "not_pending"
    stale = {"request": "nothing", "verdict": "approve", "digest": request["digest"]}
    refused = api.request("POST", "/api/sessions/s/answers", stale)
    assert (refused.status, refused.error) == (409, "not_pending")
    wrong = {**given, "digest": request["digest"], "verdict": "answer", "value": 1}
    assert api.request("POST", "/api/sessions/s/answers", wrong).error == "not_pending"
    assert api.get_session("s")["facts"] == facts
    assert api.get("/api/sessions/s/pending")["pending"] == [request]
    assert api.get("/api/inbox")["requests"] == [{**request, "in": "s", "workflow": "desk", "updated": api.get_session("s")["updated"]}]
    assert api.request("POST", "/api/sessions/s/answers", {**given, "digest": request["digest"]}).status == 200
    assert api.wait_for_status("s", "waiting")["pending"] == []
    assert api.get("/api/inbox")["requests"] == []
    assert api.request("POST", "/api/sessions/s/answers", {**given, "digest": request["digest"]}).error == "not_pending"


def test_deferred_result_is_supplied_or_rejected(serve_workflows: Serve) -> None:
    api = serve_workflows(build_desk(call("ask_stock", item="cup"), "There are 3.", call("ask_stock", item="pot"), "I see."))
    [request] = api.create_session("How many?", "s", "pending")["pending"]
    assert (request["kind"], request["verdicts"]) == ("result", ["answer", "reject"])
    api.post("/api/sessions/s/answers", {"request": request["id"], "digest": request["digest"], "verdict": "answer", "value": {"cups": 3}})
    assert api.wait_for_status("s", "waiting")["last"]["text"] == "There are 3."
    api.post("/api/sessions/s/messages", {"message": "And pots?"}, 202)
    [request] = api.wait_for_status("s", "pending")["pending"]
    no = {"request": request["id"], "digest": request["digest"], "verdict": "reject", "words": "nobody counts pots"}
    api.post("/api/sessions/s/answers", no)
    api.wait_for_status("s", "waiting")
    decided = [fact for fact in api.get("/api/sessions/s/facts")["facts"] if fact["fact"] == "decided"]
    assert (decided[0]["output"], decided[1]["words"]) == ('{"cups":3}', "nobody counts pots")


def test_message_with_key_is_recorded_once(serve_workflows: Serve) -> None:
    api = serve_workflows(make_workflow("Hello!", "Again!"))
    for _ in range(2):
        api.post("/api/sessions", {"id": "s", "message": "Hi", "key": "first"}, 201)
    api.wait_for_status("s", "waiting")
    for _ in range(3):
        api.post("/api/sessions/s/messages", {"message": "More", "key": "second"}, 202)
    assert api.wait_for_status("s", "waiting")["messages"] == 4
    other = api.request("POST", "/api/sessions/s/messages", {"message": "Other", "key": "second"})
    assert (other.status, other.error) == (400, "bad_input")
    taken = api.request("POST", "/api/sessions", {"id": "s", "message": "Hi"})
    assert (taken.status, taken.error) == (409, "ledger_exists")
    assert api.request("POST", "/api/sessions", {"message": "Hi", "key": "no id"}).error == "bad_input"


def test_concurrent_creation_succeeds_for_one_client(serve_workflows: Serve, tmp_path: Any) -> None:
    api = serve_workflows(make_workflow(*["Hello!"] * 10), store=SQLiteStore(tmp_path / "s.sqlite"))
    statuses: list[int] = []

    def begin() -> None:
        statuses.append(api.request("POST", "/api/sessions", {"id": "s", "message": "Hi"}).status)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201, 409, 409, 409, 409, 409]
    assert api.wait_for_status("s", "waiting")["messages"] == 2


def test_attachments_are_served_without_active_content(serve_workflows: Serve) -> None:
    """Only images of harmless types are shown inline; everything else is a download, in a sandbox."""
    api = serve_workflows(make_workflow("I see."))
    picture, drawing, page = b"\x89PNG\r\n\x1a\n...", b"<svg onload='alert(1)'/>", b"<script>alert(1)</script>"
    parts = [
        {"part": "text", "text": "Look"},
        {"part": "image", "base64": base64.b64encode(picture).decode(), "media_type": "image/png"},
        {"part": "image", "base64": base64.b64encode(drawing).decode(), "media_type": "image/svg+xml"},
        {"part": "file", "base64": base64.b64encode(page).decode(), "media_type": "text/html", "name": 'a "page"\r\n.html'},
    ]
    api.post("/api/sessions", {"id": "s", "message": parts}, 201)
    api.wait_for_status("s", "waiting")
    said = api.get("/api/sessions/s/facts")["facts"][1]["content"]
    shown = [api.request("GET", f"/api/sessions/s/contents/{part['digest']}") for part in said[1:]]
    assert [answer.body for answer in shown] == [picture, drawing, page]
    assert [answer.headers["content-type"] for answer in shown] == ["image/png", *["application/octet-stream"] * 2]
    assert all("sandbox" in answer.headers["content-security-policy"] for answer in shown)
    assert "content-disposition" not in shown[0].headers
    assert shown[2].headers["content-disposition"] == "attachment; filename*=UTF-8''a%20%22page%22%0D%0A.html"
    frame = next(fact["frame"] for fact in api.get("/api/sessions/s/facts")["facts"] if fact["fact"] == "model_replied")
    assert api.request("GET", f"/api/sessions/s/contents/{frame}").status == 404  # no picture, no file
    broken = [{"part": "image", "base64": "*"}]
    assert api.request("POST", "/api/sessions/s/messages", {"message": broken}).error == "bad_input"


def test_failed_session_is_resumed_on_request(serve_workflows: Serve) -> None:
    api = serve_workflows(make_workflow(RuntimeError("the model is away"), "Here I am."))
    failed = api.create_session("Hi", "s", "failed")
    assert "the model is away" in failed["error"]
    api.post("/api/sessions/s/resume", {}, 202)
    assert api.wait_for_status("s", "waiting")["last"]["text"] == "Here I am."


def test_session_with_raising_workflow_is_set_aside(serve_workflows: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """It says why, without text of the conversation, and continues when it is resumed."""
    broken = [True]

    def provide(turn: object) -> str:
        if broken[0]:
            raise ValueError("canary: words of the conversation")
        return ""

    api = serve_workflows(make_workflow("Here I am.", context_providers=[provide]), retry_policy=RetryPolicy(error_delays=()))
    api.post("/api/sessions", {"id": "s", "message": "Hi"}, 201)
    until = time.monotonic() + 60
    while not (error := api.get_session("s")["error"]):
        assert time.monotonic() < until
    assert error.startswith("set aside until it is resumed: ValueError at test_input_routes.py")
    assert "canary" not in error + caplog.text
    broken[0] = False
    api.post("/api/sessions/s/resume", {}, 202)
    assert api.wait_for_status("s", "waiting")["error"] == ""


def test_cancelled_session_continues_with_next_message(serve_workflows: Serve) -> None:
    started = threading.Event()

    @tool
    async def dig() -> str:
        """Dig for ever."""
        started.set()
        await asyncio.Event().wait()
        return ""

    api = serve_workflows(make_workflow(call("dig"), "As you like.", tools=[dig]))
    api.post("/api/sessions", {"id": "s", "message": "Dig"}, 201)
    assert started.wait(10)
    assert api.post("/api/sessions/s/cancel", {"words": "enough"})["status"] == "cancelled"
    api.post("/api/sessions/s/messages", {"message": "Thanks"}, 202)
    assert api.wait_for_status("s", "waiting")["last"]["text"] == "As you like."


def test_child_session_request_is_answered_in_parent(serve_workflows: Serve) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    helper = Agent("helper", model=ScriptedModel([call("pay"), "I paid."]), tools=[pay])
    boss = Agent("boss", model=ScriptedModel([call("helper", task="pay"), "It is paid."]), tools=[helper.as_tool("helper", "Helps.")])
    api = serve_workflows(HandoffBuilder("team", [boss]).build())
    [request] = api.create_session("Pay it", "s", "pending")["pending"]
    inner = request["session"]
    assert inner != "s"
    [asked] = api.get("/api/inbox")["requests"]
    assert (asked["id"], asked["in"]) == (request["id"], "s")
    seen = api.get_session(inner)
    assert (seen["within"], seen["can_drive"], seen["served"], seen["status"]) == ("s", False, True, "pending")
    given = {"request": request["id"], "digest": request["digest"], "verdict": "approve"}
    refused = api.request("POST", f"/api/sessions/{quote(inner, safe='')}/answers", given)
    assert (refused.status, refused.error) == (409, "definition_changed")
    api.post("/api/sessions/s/answers", given)
    assert api.wait_for_status("s", "waiting")["last"]["text"] == "It is paid."


def test_workflow_is_required_if_several_are_served(serve_workflows: Serve) -> None:
    api = serve_workflows(make_workflow("Hello!"), build_desk("Welcome."))
    assert api.request("POST", "/api/sessions", {"message": "Hi"}).error == "bad_input"
    assert api.request("POST", "/api/sessions", {"message": "Hi", "workflow": "nothing"}).error == "bad_input"
    made = api.post("/api/sessions", {"message": "Hi", "workflow": "desk"}, 201)
    assert made["id"].startswith("desk-")
    assert api.wait_for_status(made["id"], "waiting")["last"]["text"] == "Welcome."


@pytest.mark.parametrize("id", ["a/b", "ä ö", "100%", "a%2Fb", "..", "a?b#c", "<script>", "'; --", "x" * 400])
def test_unusual_session_ids_work_in_paths(serve_workflows: Serve, id: str) -> None:
    api = serve_workflows(make_workflow("Hello!"), store=MemoryStore())
    assert api.create_session("Hi", id)["id"] == id
    assert [row["id"] for row in api.get("/api/sessions")["sessions"]] == [id]


@pytest.mark.parametrize("id", ["a\nb", "\x00", "x" * 401])
def test_invalid_session_id_is_refused(serve_workflows: Serve, id: str) -> None:
    api = serve_workflows(make_workflow("Hello!"))
    assert api.request("POST", "/api/sessions", {"id": id, "message": "Hi"}).error == "bad_input"
