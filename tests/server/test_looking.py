"""What the API shows: workflows, sessions in pages, facts, usage, forks, files; and nothing that is secret."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from legato import Agent, HandoffBuilder
from legato.core.facts import AnyFact, MessageReceived, Opened
from legato.engines.local import LocalEngine
from legato.errors import UnknownLedger
from legato.runtime.session_cache import SESSIONS
from legato.server import serving
from legato.stores import MemoryStore, SQLiteStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel
from tests.inspection.desk import PIN, refunding
from tests.server.conftest import Serve


def test_what_is_served_is_told_with_agents_tools_and_handoffs(served: Serve) -> None:
    about = served(refunding()).get("/api")
    [workflow] = about["workflows"]
    assert (about["drives"], workflow["name"], workflow["start"]) == (True, "desk", "triage")
    triage, refunds = workflow["agents"]
    assert [(tool["name"], tool["asks"], tool["deferred"]) for tool in triage["tools"]] == [
        ("look_up", False, False),
        ("ask_stock", False, True),
    ]
    [refund] = refunds["tools"]
    assert (refund["asks"], refund["secrets"], refund["parameters"]["required"]) == (True, ["note", "pin"], ["order_id", "amount", "pin"])
    assert {(edge["source"], edge["target"], edge["tool"], edge["asks"]) for edge in workflow["handoffs"]} == {
        ("triage", "refunds", "handoff_to_refunds", False),
        ("refunds", "triage", "handoff_to_triage", False),
    }


async def said(store: Store, name: str, *messages: str, workflow: str = "hello") -> None:
    facts = [Opened(at=1, ledger=name, workflow=workflow), *(MessageReceived(at=2, content=message) for message in messages)]
    await store.append(name, 0, facts, born=name)


def hello(*script: Any, name: str = "hello") -> Any:
    return HandoffBuilder(name, [Agent("clerk", model=ScriptedModel(list(script)))]).build()


def test_sessions_come_in_pages_newest_first_and_are_found_by_id_words_status_and_workflow(served: Serve) -> None:
    store = MemoryStore()

    async def fill() -> None:
        for number in range(7):
            await said(store, f"old-{number}", f"Tell me about teapot {number}", workflow="another")

    asyncio.run(fill())
    api = served(hello("Hello!", "Welcome!"), store=store)
    api.begin("Where is my CUP?", "new-1")
    api.begin("Hi", "new-2")
    ids: list[str] = []
    after = ""
    while True:
        page = api.get(f"/api/sessions?limit=4&after={after}")
        ids += [row["id"] for row in page["sessions"]]
        after = page["next"]
        if not after:
            break
    assert ids == ["new-2", "new-1", *(f"old-{number}" for number in reversed(range(7)))]
    row = api.get("/api/sessions?search=cup")["sessions"]
    assert [each["id"] for each in row] == ["new-1"]
    assert [each["id"] for each in api.get("/api/sessions?search=TEAPOT%203")["sessions"]] == ["old-3"]
    assert [each["id"] for each in api.get("/api/sessions?search=new-")["sessions"]] == ["new-2", "new-1"]
    assert [each["id"] for each in api.get("/api/sessions?status=waiting")["sessions"]] == ["new-2", "new-1"]
    bogus = api.ask("GET", "/api/sessions?status=bogus")
    assert (bogus.status, bogus.error) == (400, "bad_input")
    assert "status" in bogus.json["error"]["message"]
    others = api.get("/api/sessions?workflow=another")["sessions"]
    assert (len(others), others[0]["served"]) == (7, False)
    assert api.session("old-1")["can_drive"] is False
    refused = api.ask("POST", "/api/sessions/old-1/messages", {"message": "Hi"})
    assert (refused.status, refused.error) == (409, "definition_changed")
    assert api.ask("GET", "/api/sessions?after=nonsense").error == "bad_input"


def test_the_ledger_is_shown_in_pages_with_digests_in_place_of_secrets(served: Serve) -> None:
    api = served(refunding())
    api.begin("Money back!", "s", "pending")
    whole = api.get("/api/sessions/s/facts")
    assert whole["length"] == len(whole["facts"]) == api.session("s")["facts"]
    assert [fact["position"] for fact in whole["facts"]] == [*range(whole["length"])]
    assert api.get("/api/sessions/s/facts?from=2&limit=3")["facts"] == whole["facts"][2:5]
    assert api.get("/api/sessions/s/facts?from=1000")["facts"] == []
    assert PIN not in json.dumps(whole)
    assert "secret:" in json.dumps(whole)


def test_how_a_session_stood_is_told_for_every_position(served: Serve) -> None:
    api = served(refunding())
    api.begin("Money back!", "s", "pending")
    course = api.get("/api/sessions/s/course")["course"]
    assert [(each["status"], each["agent"]) for each in course] == [
        ("new", "triage"),
        ("running", "triage"),
        ("running", "refunds"),
        ("pending", "refunds"),
    ]
    assert course[-1]["from"] == api.session("s")["facts"]
    assert api.ask("GET", "/api/sessions/nobody/course").status == 404


def test_usage_is_told_in_all_by_agent_and_by_handoff(served: Serve) -> None:
    api = served(refunding())
    api.begin("Money back!", "s", "pending")
    usage = api.get("/api/sessions/s/usage")
    assert usage["agents"].keys() == {"triage", "refunds"}
    assert usage["total"]["input"] == sum(each["input"] for each in usage["agents"].values())
    assert [(each["source"], each["target"]) for each in usage["handoffs"]] == [("triage", "refunds")]


def test_each_model_call_is_told_and_explained_with_its_request_and_what_had_changed_at_the_handoff(served: Serve) -> None:
    api = served(refunding())
    api.begin("Money back!", "s", "pending")
    told = api.get("/api/sessions/s/calls")["calls"]
    assert [(each["n"], each["agent"]) for each in told] == [(0, "triage"), (1, "triage"), (2, "refunds")]
    assert told[2]["after_handoff"]["source"] == "triage"
    seen = api.get("/api/sessions/s/calls/2")
    assert seen["instructions"] == "Handle refunds."
    assert [each["text"] for each in seen["items"] if each["kind"] == "said"] == ["Money back!"]
    assert seen["changes"]["agent"]["with"] == 1
    assert "-Route the customer." in seen["changes"]["agent"]["instructions"]
    [request] = api.session("s")["pending"]
    api.post("/api/sessions/s/answers", {"verdict": "approve", "request": request["id"], "digest": request["digest"]})
    api.until("s", "waiting")
    assert PIN not in json.dumps([api.get(f"/api/sessions/s/calls/{n}") for n in range(4)])
    for missing in ("4", "-1", "x", "1e1", "9" * 30):
        refused = api.ask("GET", f"/api/sessions/s/calls/{missing}")
        assert (refused.status, refused.error) == (404, "unknown_call")


def test_a_fork_shares_the_first_facts_goes_on_by_itself_and_leaves_the_other_alone(served: Serve) -> None:
    api = served(hello("Hello!", "One more.", "Another."))
    before = api.begin("Hi", "s")
    branch = api.post("/api/sessions/s/fork", {"id": "branch"}, 201)
    assert (branch["origin"], branch["status"]) == ({"session": "s", "at": before["facts"], "kind": "fork"}, "waiting")
    api.post("/api/sessions/branch/messages", {"message": "And?"}, 202)
    assert api.until("branch", "waiting")["messages"] == 4
    assert api.session("s") == before
    earlier = api.post("/api/sessions/s/fork", {"at": 2}, 201)  # behind the message: what it owes is gone on with
    assert earlier["id"].startswith("s-")
    assert api.until(earlier["id"], "waiting")["messages"] == 2
    assert api.ask("POST", "/api/sessions/s/fork", {"at": 1000}).error == "bad_input"
    assert api.ask("POST", "/api/sessions/s/fork", {"id": "branch"}).error == "ledger_exists"


def test_a_session_is_written_to_a_file_without_its_secrets_unless_they_are_asked_for_twice(served: Serve) -> None:
    api = served(refunding())
    api.begin("Money back!", "customer/7", "pending")
    for form, kind in (("json", "application/json"), ("markdown", "text/markdown; charset=utf-8")):
        exported = api.ask("GET", f"/api/sessions/customer%2F7/export?as={form}")
        assert (exported.status, exported.headers["content-type"]) == (200, kind)
        assert exported.headers["content-disposition"].startswith("attachment; filename*=UTF-8''customer%2F7.")
        assert PIN.encode() not in exported.body
        assert b"Money back!" in exported.body
    assert api.ask("GET", "/api/sessions/customer%2F7/export?as=session").error == "bad_input"
    exact = api.ask("GET", "/api/sessions/customer%2F7/export?as=session&exact=yes")
    assert PIN.encode() in exact.body

    async def load() -> str:
        return (await refunding().load(exact.body.decode(), store=MemoryStore()).refresh()).status

    assert asyncio.run(load()) == "pending"


def test_a_deleted_session_is_gone_and_its_name_may_be_used_again(served: Serve) -> None:
    api = served(hello("Hello!", "Hello again!"))
    api.begin("Hi", "s")
    assert api.ask("DELETE", "/api/sessions/s").json == {"deleted": True}
    assert api.ask("GET", "/api/sessions/s").error == "unknown_ledger"
    assert api.ask("DELETE", "/api/sessions/s").status == 404
    assert api.begin("Hi", "s")["messages"] == 2


def test_a_session_that_somebody_else_deleted_and_made_anew_is_shown_as_it_is_now(served: Serve, tmp_path: Any) -> None:
    api = served(hello("Hello!"), store=SQLiteStore(tmp_path / "s.sqlite"))
    assert api.begin("Hi", "s")["messages"] == 2

    async def replace() -> None:
        async with SQLiteStore(tmp_path / "s.sqlite") as other:
            await other.delete("s")
            await said(other, "s", "Another conversation", workflow="another")

    asyncio.run(replace())
    assert api.session("s")["last"]["text"] == "Another conversation"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/nothing", "not_found"),
        ("/api/", "not_found"),
        ("/api/sessions/", "not_found"),
        ("/api/sessions/s/nothing", "not_found"),
        ("/api/sessions/%ff", "bad_input"),
        ("/api/sessions?limit=0", "bad_input"),
        ("/api/sessions?limit=501", "bad_input"),
        ("/api/sessions?limit=ten", "bad_input"),
        ("/api/sessions?nothing=1", "bad_input"),
        ("/api/sessions?limit=1&limit=2", "bad_input"),
        ("/api/sessions?search=%ff", "bad_input"),
        ("/api/sessions/s/facts?from=-1", "bad_input"),
        ("/api/sessions/s/facts?limit=100000", "bad_input"),
        ("/api/sessions/s/export?as=pickle", "bad_input"),
        ("/api/sessions/s", "unknown_ledger"),
        ("/%61pi", "not_found"),
        ("/api/../api", "not_found"),
    ],
)
def test_what_cannot_be_asked_is_told(served: Serve, path: str, code: str) -> None:
    assert served(hello("Hello!")).ask("GET", path).error == code


def test_a_path_that_is_asked_in_another_way_says_in_which(served: Serve) -> None:
    api = served(hello("Hello!"))
    answer = api.ask("PUT", "/api/sessions/s")
    assert (answer.status, answer.error, answer.headers["allow"]) == (405, "method_not_allowed", "DELETE, GET")
    assert api.ask("DELETE", "/api/sessions").headers["allow"] == "GET, POST"
    assert api.ask("HEAD", "/api").status == 405
    assert api.ask("HEAD", "/").status == 200


async def test_a_session_is_read_from_its_beginning_once() -> None:
    class Counting(MemoryStore):
        starts: ClassVar[list[int]] = []

        async def read(self, ledger: str, start: int = 0, *, born: str = "") -> Sequence[AnyFact]:
            self.starts.append(start)
            return await super().read(ledger, start, born=born)

    store = Counting()
    await said(store, "s", "Hello")
    SESSIONS.clear(store)
    store.starts.clear()
    here = serving.Serving({"hello": hello()}, store, LocalEngine(), "memory", True)
    length = (await here.session("s")).state.length
    await here.session("s")
    await here.session("s")
    assert store.starts == [0, *[length - 1] * 3]


async def test_a_name_can_be_given_to_another_workflow() -> None:
    store = MemoryStore()
    here = serving.Serving({"hello": hello(), "bye": hello(name="bye")}, store, LocalEngine(), "memory", True)
    await said(store, "s", "Hello")
    assert (await here.session("s")).workflow.name == "hello"
    await store.delete("s")
    with pytest.raises(UnknownLedger):
        await here.session("s")
    await hello(name="bye").session("s", store=store).say("Bye")
    assert (await here.session("s")).workflow.name == "bye"
