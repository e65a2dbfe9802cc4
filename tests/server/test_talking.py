"""Conversations over HTTP: a message, words as they are said, questions and their answers, and what is refused."""

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
from legato.engines import Pace
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel, call
from tests.inspection.desk import PIN, desk, refunding
from tests.server.conftest import Serve


def hello(*script: Any, **more: Any) -> Any:
    return HandoffBuilder("hello", [Agent("clerk", model=ScriptedModel(list(script)), **more)]).build()


def test_a_message_is_answered_and_its_events_come_with_cursors_from_the_beginning(served: Serve) -> None:
    api = served(hello("Hello!"))
    made = api.post("/api/sessions", {"id": "s", "message": "Hi"}, 201)
    assert (made["id"], made["workflow"], made["served"], made["can_drive"]) == ("s", "hello", True, True)
    with api.events("s") as events:
        told = [next(events)]
        while told[-1]["event"] != "status":
            told.append(next(events))
    recorded = [event["event"] for event in told if "id" in event and event["event"] != "output"]  # words may have come in pieces, too
    assert recorded == ["said", "message", "request_info", "status"]
    session = api.session("s")
    assert (session["status"], session["last"], session["messages"]) == ("waiting", {"author": "clerk", "text": "Hello!"}, 2)


def test_words_are_told_while_they_are_said(served: Serve) -> None:
    api = served(hello("One two three four five six"))
    api.post("/api/sessions", {"id": "s"}, 201)
    pieces: list[str] = []
    with api.events("s") as events:
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


def test_whoever_lost_the_line_goes_on_after_the_last_event_by_header_or_query(served: Serve) -> None:
    api = served(hello("Hello!"))
    api.begin("Hi", "s")
    with api.events("s") as events:
        told = [next(events)]
        while told[-1]["event"] != "status":
            told.append(next(events))
    ids = [event["id"] for event in told if "id" in event]
    for how in ({"last": ids[0]}, {"after": ids[0]}):
        with api.events("s", **how) as events:
            again = [next(events)]
            assert again[0]["event"] == "output_reset"  # what was shown of a reply in the making is withdrawn
            while again[-1]["event"] != "status":
                again.append(next(events))
        assert [event["id"] for event in again[1:]] == ids[1:]
    assert api.ask("GET", "/api/sessions/s/events?after=nonsense").error == "bad_input"
    assert api.ask("GET", "/api/sessions/nobody/events").error == "unknown_ledger"


def test_an_edited_call_runs_with_the_edited_arguments_and_a_secret_that_was_left_alone_keeps_its_value(served: Serve) -> None:
    ran: list[tuple[str, str]] = []

    @tool(needs_approval=True)
    def pay(to: str, pin: Secret[str]) -> str:
        """Pay."""
        ran.append((to, pin))
        return "paid"

    api = served(hello(call("pay", to="Ann", pin=PIN), "It is paid.", tools=[pay]))
    [request] = api.begin("Pay", "s", "pending")["pending"]
    assert (request["kind"], request["verdicts"], request["secrets"]) == ("approval", ["approve", "reject", "edit"], ["pin"])
    assert request["arguments"]["pin"].startswith("secret:")
    assert request["schema"]["properties"].keys() == {"to", "pin"}
    answer = {"request": request["id"], "digest": request["digest"], "verdict": "edit", "key": "k"}
    assert api.ask("POST", "/api/sessions/s/answers", answer).error == "bad_input"  # without arguments
    answer["arguments"] = {**request["arguments"], "to": "Bob"}
    for _ in range(2):  # delivered twice: it is the same answer
        assert api.ask("POST", "/api/sessions/s/answers", answer).status == 200
    assert api.until("s", "waiting")["last"]["text"] == "It is paid."
    assert ran == [("Bob", PIN)]


def test_an_answer_for_other_arguments_or_to_what_is_not_pending_changes_nothing(served: Serve) -> None:
    api = served(refunding())
    [request] = api.begin("Money back!", "s", "pending")["pending"]
    facts = api.session("s")["facts"]
    given = {"request": request["id"], "verdict": "approve"}
    assert api.ask("POST", "/api/sessions/s/answers", given).error == "bad_input"
    assert api.ask("POST", "/api/sessions/s/answers", {**given, "digest": "0" * 32}).error == "not_pending"
    stale = {"request": "nothing", "verdict": "approve", "digest": request["digest"]}
    refused = api.ask("POST", "/api/sessions/s/answers", stale)
    assert (refused.status, refused.error) == (409, "not_pending")
    wrong = {**given, "digest": request["digest"], "verdict": "answer", "value": 1}
    assert api.ask("POST", "/api/sessions/s/answers", wrong).error == "not_pending"
    assert api.session("s")["facts"] == facts
    assert api.get("/api/sessions/s/pending")["pending"] == [request]
    assert api.get("/api/inbox")["requests"] == [{**request, "in": "s", "workflow": "desk", "updated": api.session("s")["updated"]}]
    assert api.ask("POST", "/api/sessions/s/answers", {**given, "digest": request["digest"]}).status == 200
    assert api.until("s", "waiting")["pending"] == []
    assert api.get("/api/inbox")["requests"] == []
    assert api.ask("POST", "/api/sessions/s/answers", {**given, "digest": request["digest"]}).error == "not_pending"


def test_a_rejection_is_given_to_the_model_in_its_words_and_a_deferred_result_is_supplied(served: Serve) -> None:
    api = served(desk(call("ask_stock", item="cup"), "There are 3.", call("ask_stock", item="pot"), "I see."))
    [request] = api.begin("How many?", "s", "pending")["pending"]
    assert (request["kind"], request["verdicts"]) == ("result", ["answer", "reject"])
    api.post("/api/sessions/s/answers", {"request": request["id"], "digest": request["digest"], "verdict": "answer", "value": {"cups": 3}})
    assert api.until("s", "waiting")["last"]["text"] == "There are 3."
    api.post("/api/sessions/s/messages", {"message": "And pots?"}, 202)
    [request] = api.until("s", "pending")["pending"]
    no = {"request": request["id"], "digest": request["digest"], "verdict": "reject", "words": "nobody counts pots"}
    api.post("/api/sessions/s/answers", no)
    api.until("s", "waiting")
    decided = [fact for fact in api.get("/api/sessions/s/facts")["facts"] if fact["fact"] == "decided"]
    assert (decided[0]["output"], decided[1]["words"]) == ('{"cups":3}', "nobody counts pots")


def test_a_message_delivered_twice_with_a_key_is_recorded_once(served: Serve) -> None:
    api = served(hello("Hello!", "Again!"))
    for _ in range(2):
        api.post("/api/sessions", {"id": "s", "message": "Hi", "key": "first"}, 201)
    api.until("s", "waiting")
    for _ in range(3):
        api.post("/api/sessions/s/messages", {"message": "More", "key": "second"}, 202)
    assert api.until("s", "waiting")["messages"] == 4
    other = api.ask("POST", "/api/sessions/s/messages", {"message": "Other", "key": "second"})
    assert (other.status, other.error) == (400, "bad_input")
    taken = api.ask("POST", "/api/sessions", {"id": "s", "message": "Hi"})
    assert (taken.status, taken.error) == (409, "ledger_exists")
    assert api.ask("POST", "/api/sessions", {"message": "Hi", "key": "no id"}).error == "bad_input"


def test_two_who_begin_a_session_of_one_name_at_once_are_told_apart(served: Serve, tmp_path: Any) -> None:
    api = served(hello(*["Hello!"] * 10), store=SQLiteStore(tmp_path / "s.sqlite"))
    statuses: list[int] = []

    def begin() -> None:
        statuses.append(api.ask("POST", "/api/sessions", {"id": "s", "message": "Hi"}).status)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201, 409, 409, 409, 409, 409]
    assert api.until("s", "waiting")["messages"] == 2


def test_pictures_and_files_are_kept_by_the_session_and_come_back_harmless(served: Serve) -> None:
    api = served(hello("I see."))
    picture, drawing, page = b"\x89PNG\r\n\x1a\n...", b"<svg onload='alert(1)'/>", b"<script>alert(1)</script>"
    parts = [
        {"part": "text", "text": "Look"},
        {"part": "image", "base64": base64.b64encode(picture).decode(), "media_type": "image/png"},
        {"part": "image", "base64": base64.b64encode(drawing).decode(), "media_type": "image/svg+xml"},
        {"part": "file", "base64": base64.b64encode(page).decode(), "media_type": "text/html", "name": 'a "page"\r\n.html'},
    ]
    api.post("/api/sessions", {"id": "s", "message": parts}, 201)
    api.until("s", "waiting")
    said = api.get("/api/sessions/s/facts")["facts"][1]["content"]
    shown = [api.ask("GET", f"/api/sessions/s/contents/{part['digest']}") for part in said[1:]]
    assert [answer.body for answer in shown] == [picture, drawing, page]
    assert [answer.headers["content-type"] for answer in shown] == ["image/png", *["application/octet-stream"] * 2]
    assert all("sandbox" in answer.headers["content-security-policy"] for answer in shown)
    assert "content-disposition" not in shown[0].headers
    assert shown[2].headers["content-disposition"] == "attachment; filename*=UTF-8''a%20%22page%22%0D%0A.html"
    frame = next(fact["frame"] for fact in api.get("/api/sessions/s/facts")["facts"] if fact["fact"] == "model_replied")
    assert api.ask("GET", f"/api/sessions/s/contents/{frame}").status == 404  # no picture, no file
    broken = [{"part": "image", "base64": "*"}]
    assert api.ask("POST", "/api/sessions/s/messages", {"message": broken}).error == "bad_input"


def test_a_failed_session_is_gone_on_with_when_it_is_asked_for(served: Serve) -> None:
    api = served(hello(RuntimeError("the model is away"), "Here I am."))
    failed = api.begin("Hi", "s", "failed")
    assert "the model is away" in failed["error"]
    api.post("/api/sessions/s/resume", {}, 202)
    assert api.until("s", "waiting")["last"]["text"] == "Here I am."


def test_a_session_whose_workflow_raises_is_set_aside_says_why_and_goes_on_when_it_is_resumed(
    served: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    broken = [True]

    def provide(turn: object) -> str:
        if broken[0]:
            raise ValueError("canary: words of the conversation")
        return ""

    api = served(hello("Here I am.", context_providers=[provide]), pace=Pace(raised=()))
    api.post("/api/sessions", {"id": "s", "message": "Hi"}, 201)
    until = time.monotonic() + 60
    while not (error := api.session("s")["error"]):
        assert time.monotonic() < until
    assert error.startswith("set aside until it is resumed: ValueError at test_talking.py")
    assert "canary" not in error + caplog.text
    broken[0] = False
    api.post("/api/sessions/s/resume", {}, 202)
    assert api.until("s", "waiting")["error"] == ""


def test_a_conversation_is_stopped_and_goes_on_with_the_next_message(served: Serve) -> None:
    started = threading.Event()

    @tool
    async def dig() -> str:
        """Dig for ever."""
        started.set()
        await asyncio.Event().wait()
        return ""

    api = served(hello(call("dig"), "As you like.", tools=[dig]))
    api.post("/api/sessions", {"id": "s", "message": "Dig"}, 201)
    assert started.wait(10)
    assert api.post("/api/sessions/s/cancel", {"words": "enough"})["status"] == "cancelled"
    api.post("/api/sessions/s/messages", {"message": "Thanks"}, 202)
    assert api.until("s", "waiting")["last"]["text"] == "As you like."


def test_what_an_agent_asks_that_works_as_a_tool_is_answered_in_the_session_it_works_for(served: Serve) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    helper = Agent("helper", model=ScriptedModel([call("pay"), "I paid."]), tools=[pay])
    boss = Agent("boss", model=ScriptedModel([call("helper", task="pay"), "It is paid."]), tools=[helper.as_tool("helper", "Helps.")])
    api = served(HandoffBuilder("team", [boss]).build())
    [request] = api.begin("Pay it", "s", "pending")["pending"]
    inner = request["session"]
    assert inner != "s"
    [asked] = api.get("/api/inbox")["requests"]
    assert (asked["id"], asked["in"]) == (request["id"], "s")
    seen = api.session(inner)
    assert (seen["within"], seen["can_drive"], seen["served"], seen["status"]) == ("s", False, True, "pending")
    given = {"request": request["id"], "digest": request["digest"], "verdict": "approve"}
    refused = api.ask("POST", f"/api/sessions/{quote(inner, safe='')}/answers", given)
    assert (refused.status, refused.error) == (409, "definition_changed")
    api.post("/api/sessions/s/answers", given)
    assert api.until("s", "waiting")["last"]["text"] == "It is paid."


def test_which_workflow_is_meant_may_be_left_out_only_if_one_is_served(served: Serve) -> None:
    api = served(hello("Hello!"), desk("Welcome."))
    assert api.ask("POST", "/api/sessions", {"message": "Hi"}).error == "bad_input"
    assert api.ask("POST", "/api/sessions", {"message": "Hi", "workflow": "nothing"}).error == "bad_input"
    made = api.post("/api/sessions", {"message": "Hi", "workflow": "desk"}, 201)
    assert made["id"].startswith("desk-")
    assert api.until(made["id"], "waiting")["last"]["text"] == "Welcome."


@pytest.mark.parametrize("id", ["a/b", "ä ö", "100%", "a%2Fb", "..", "a?b#c", "<script>", "'; --", "x" * 400])
def test_any_id_that_a_session_may_have_can_be_asked_for(served: Serve, id: str) -> None:
    api = served(hello("Hello!"), store=MemoryStore())
    assert api.begin("Hi", id)["id"] == id
    assert [row["id"] for row in api.get("/api/sessions")["sessions"]] == [id]


@pytest.mark.parametrize("id", ["a\nb", "\x00", "x" * 401])
def test_an_id_that_no_session_may_have_is_refused(served: Serve, id: str) -> None:
    api = served(hello("Hello!"))
    assert api.ask("POST", "/api/sessions", {"id": id, "message": "Hi"}).error == "bad_input"
