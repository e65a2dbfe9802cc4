"""Reading over HTTP: workflows, sessions, facts, usage, forks and exports, without secrets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from legato import Agent, HandoffBuilder
from legato.core.facts import AnyFact, MessageReceived, Opened
from legato.engines.local_engine import LocalEngine
from legato.errors import UnknownLedger
from legato.runtime.session_cache import SESSION_CACHE
from legato.server import session_registry
from legato.stores import MemoryStore, SQLiteStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel
from tests.inspection.support_desk import PIN, build_refund_desk
from tests.server.conftest import Serve


def test_server_describes_agents_tools_and_handoffs(serve_workflows: Serve) -> None:
    about = serve_workflows(build_refund_desk()).get("/api")
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


async def append_messages(store: Store, name: str, *messages: str, workflow: str = "hello") -> None:
    facts = [Opened(at=1, ledger_id=name, workflow=workflow), *(MessageReceived(at=2, content=message) for message in messages)]
    await store.append(name, 0, facts, ledger_id=name)


def make_workflow(*script: Any, name: str = "hello") -> Any:
    return HandoffBuilder(name, [Agent("clerk", model=ScriptedModel(list(script)))]).build()


def test_sessions_are_paged_searched_and_filtered(serve_workflows: Serve) -> None:
    """Newest first, by id, text, status and workflow."""
    store = MemoryStore()

    async def fill() -> None:
        for number in range(7):
            await append_messages(store, f"old-{number}", f"Tell me about teapot {number}", workflow="another")

    asyncio.run(fill())
    api = serve_workflows(make_workflow("Hello!", "Welcome!"), store=store)
    api.create_session("Where is my CUP?", "new-1")
    api.create_session("Hi", "new-2")
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
    bogus = api.request("GET", "/api/sessions?status=bogus")
    assert (bogus.status, bogus.error) == (400, "bad_input")
    assert "status" in bogus.json["error"]["message"]
    others = api.get("/api/sessions?workflow=another")["sessions"]
    assert (len(others), others[0]["served"]) == (7, False)
    assert api.get_session("old-1")["can_drive"] is False
    refused = api.request("POST", "/api/sessions/old-1/messages", {"message": "Hi"})
    assert (refused.status, refused.error) == (409, "definition_changed")
    assert api.request("GET", "/api/sessions?after=nonsense").error == "bad_input"


def test_facts_are_paged_with_masked_secrets(serve_workflows: Serve) -> None:
    api = serve_workflows(build_refund_desk())
    api.create_session("Money back!", "s", "pending")
    whole = api.get("/api/sessions/s/facts")
    assert whole["length"] == len(whole["facts"]) == api.get_session("s")["facts"]
    assert [fact["position"] for fact in whole["facts"]] == [*range(whole["length"])]
    assert api.get("/api/sessions/s/facts?from=2&limit=3")["facts"] == whole["facts"][2:5]
    assert api.get("/api/sessions/s/facts?from=1000")["facts"] == []
    assert PIN not in json.dumps(whole)
    assert "secret:" in json.dumps(whole)


def test_status_timeline_covers_every_position(serve_workflows: Serve) -> None:
    api = serve_workflows(build_refund_desk())
    api.create_session("Money back!", "s", "pending")
    course = api.get("/api/sessions/s/course")["course"]
    assert [(each["status"], each["agent"]) for each in course] == [
        ("new", "triage"),
        ("running", "triage"),
        ("running", "refunds"),
        ("pending", "refunds"),
    ]
    assert course[-1]["from"] == api.get_session("s")["facts"]
    assert api.request("GET", "/api/sessions/nobody/course").status == 404


def test_usage_is_summed_by_agent_and_handoff(serve_workflows: Serve) -> None:
    api = serve_workflows(build_refund_desk())
    api.create_session("Money back!", "s", "pending")
    usage = api.get("/api/sessions/s/usage")
    assert usage["agents"].keys() == {"triage", "refunds"}
    assert usage["total"]["input"] == sum(each["input"] for each in usage["agents"].values())
    assert [(each["source"], each["target"]) for each in usage["handoffs"]] == [("triage", "refunds")]


def test_model_input_is_explained_without_secrets(serve_workflows: Serve) -> None:
    """With its request, and the changes at the handoff."""
    api = serve_workflows(build_refund_desk())
    api.create_session("Money back!", "s", "pending")
    told = api.get("/api/sessions/s/calls")["calls"]
    assert [(each["n"], each["agent"]) for each in told] == [(0, "triage"), (1, "triage"), (2, "refunds")]
    assert told[2]["after_handoff"]["source"] == "triage"
    seen = api.get("/api/sessions/s/calls/2")
    assert seen["instructions"] == "Handle refunds."
    assert [each["text"] for each in seen["items"] if each["kind"] == "said"] == ["Money back!"]
    assert seen["changes"]["agent"]["with"] == 1
    assert "-Route the customer." in seen["changes"]["agent"]["instructions"]
    [request] = api.get_session("s")["pending"]
    api.post("/api/sessions/s/answers", {"verdict": "approve", "request": request["id"], "digest": request["digest"]})
    api.wait_for_status("s", "waiting")
    assert PIN not in json.dumps([api.get(f"/api/sessions/s/calls/{n}") for n in range(4)])
    for missing in ("4", "-1", "x", "1e1", "9" * 30):
        refused = api.request("GET", f"/api/sessions/s/calls/{missing}")
        assert (refused.status, refused.error) == (404, "unknown_call")


def test_fork_shares_facts_and_continues_separately(serve_workflows: Serve) -> None:
    """Unfinished work at the fork's position continues in the fork, and the origin does not change."""
    api = serve_workflows(make_workflow("Hello!", "One more.", "Another."))
    before = api.create_session("Hi", "s")
    branch = api.post("/api/sessions/s/fork", {"id": "branch"}, 201)
    assert (branch["origin"], branch["status"]) == ({"session": "s", "at": before["facts"], "kind": "fork"}, "waiting")
    api.post("/api/sessions/branch/messages", {"message": "And?"}, 202)
    assert api.wait_for_status("branch", "waiting")["messages"] == 4
    assert api.get_session("s") == before
    earlier = api.post("/api/sessions/s/fork", {"at": 2}, 201)  # behind the message: what it owes is gone on with
    assert earlier["id"].startswith("s-")
    assert api.wait_for_status(earlier["id"], "waiting")["messages"] == 2
    assert api.request("POST", "/api/sessions/s/fork", {"at": 1000}).error == "bad_input"
    assert api.request("POST", "/api/sessions/s/fork", {"id": "branch"}).error == "ledger_exists"


def test_export_has_secrets_only_after_confirmation(serve_workflows: Serve) -> None:
    api = serve_workflows(build_refund_desk())
    api.create_session("Money back!", "customer/7", "pending")
    for form, kind in (("json", "application/json"), ("markdown", "text/markdown; charset=utf-8")):
        exported = api.request("GET", f"/api/sessions/customer%2F7/export?as={form}")
        assert (exported.status, exported.headers["content-type"]) == (200, kind)
        assert exported.headers["content-disposition"].startswith("attachment; filename*=UTF-8''customer%2F7.")
        assert PIN.encode() not in exported.body
        assert b"Money back!" in exported.body
    assert api.request("GET", "/api/sessions/customer%2F7/export?as=session").error == "bad_input"
    exact = api.request("GET", "/api/sessions/customer%2F7/export?as=session&exact=yes")
    assert PIN.encode() in exact.body

    async def load() -> str:
        return (await build_refund_desk().load(exact.body.decode(), store=MemoryStore()).refresh()).status

    assert asyncio.run(load()) == "pending"


def test_id_of_deleted_session_can_be_reused(serve_workflows: Serve) -> None:
    api = serve_workflows(make_workflow("Hello!", "Hello again!"))
    api.create_session("Hi", "s")
    assert api.request("DELETE", "/api/sessions/s").json == {"deleted": True}
    assert api.request("GET", "/api/sessions/s").error == "unknown_ledger"
    assert api.request("DELETE", "/api/sessions/s").status == 404
    assert api.create_session("Hi", "s")["messages"] == 2


def test_session_replaced_by_other_process_is_reread(serve_workflows: Serve, tmp_path: Any) -> None:
    api = serve_workflows(make_workflow("Hello!"), store=SQLiteStore(tmp_path / "s.sqlite"))
    assert api.create_session("Hi", "s")["messages"] == 2

    async def replace() -> None:
        async with SQLiteStore(tmp_path / "s.sqlite") as other:
            await other.delete("s")
            await append_messages(other, "s", "Another conversation", workflow="another")

    asyncio.run(replace())
    assert api.get_session("s")["last"]["text"] == "Another conversation"


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
def test_invalid_path_or_query_is_refused(serve_workflows: Serve, path: str, code: str) -> None:
    assert serve_workflows(make_workflow("Hello!")).request("GET", path).error == code


def test_unsupported_method_lists_allowed_methods(serve_workflows: Serve) -> None:
    api = serve_workflows(make_workflow("Hello!"))
    answer = api.request("PUT", "/api/sessions/s")
    assert (answer.status, answer.error, answer.headers["allow"]) == (405, "method_not_allowed", "DELETE, GET")
    assert api.request("DELETE", "/api/sessions").headers["allow"] == "GET, POST"
    assert api.request("HEAD", "/api").status == 405
    assert api.request("HEAD", "/").status == 200


async def test_session_is_read_completely_only_once() -> None:
    class Counting(MemoryStore):
        starts: ClassVar[list[int]] = []

        async def read(self, ledger: str, start: int = 0, *, ledger_id: str = "") -> Sequence[AnyFact]:
            self.starts.append(start)
            return await super().read(ledger, start, ledger_id=ledger_id)

    store = Counting()
    await append_messages(store, "s", "Hello")
    SESSION_CACHE.remove_store(store)
    store.starts.clear()
    here = session_registry.SessionRegistry({"hello": make_workflow()}, store, LocalEngine(), "memory", True)
    length = (await here.find_session("s")).state.length
    await here.find_session("s")
    await here.find_session("s")
    assert store.starts == [0, *[length - 1] * 3]


async def test_id_can_move_to_another_workflow() -> None:
    store = MemoryStore()
    here = session_registry.SessionRegistry(
        {"hello": make_workflow(), "bye": make_workflow(name="bye")}, store, LocalEngine(), "memory", True
    )
    await append_messages(store, "s", "Hello")
    assert (await here.find_session("s")).workflow.name == "hello"
    await store.delete("s")
    with pytest.raises(UnknownLedger):
        await here.find_session("s")
    await make_workflow(name="bye").session("s", store=store).say("Bye")
    assert (await here.find_session("s")).workflow.name == "bye"
