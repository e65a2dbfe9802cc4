"""Conversations and their items, with OpenAI's SDK."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import httpx2
import openai
import pytest

from legato import Limits
from legato.server.request_limits import RequestLimits as ServerLimits
from legato.testing import call, handoff
from tests.server.openai.openai_client import make_approval, make_client
from tests.server.workflows import PayerOffice, RefundDesk, list_messages, make_chat, make_refund_desk, run_server


def list_items(client: Any, id: str, **asked: Any) -> list[Any]:
    return list(client.conversations.items.list(id, order="asc", **asked))


def summarize_items(items: list[Any]) -> list[tuple[str, str]]:
    """The kind of each item, and its words."""
    words = []
    for item in items:
        content = getattr(item, "content", None)
        words.append((item.type, content[0].text if content else getattr(item, "name", "") or str(getattr(item, "approve", ""))))
    return words


# -- conversations


def test_empty_conversation_can_be_created() -> None:
    workflow = make_chat(["one"])
    with run_server(workflow) as server:
        client = make_client(server)
        made = client.conversations.create()
        assert (made.object, made.metadata, made.legato["workflow"], made.legato["status"]) == ("conversation", {}, "chat", "new")
        assert client.conversations.retrieve(made.id).created_at == made.created_at
        assert list_items(client, made.id) == []
        answer = client.responses.create(model="chat", input="first", conversation=made.id)
        assert (answer.output_text, answer.conversation.id) == ("one", made.id)
        assert list_messages(server, workflow, made.id) == ["user: first", "ada: one"]


def test_metadata_names_the_session_and_the_workflow() -> None:
    with run_server(make_chat([], "one"), make_chat([], "two")) as server:
        client = make_client(server)
        made = client.conversations.create(metadata={"workflow": "two", "session": "customer-7", "colour": "red"})
        assert (made.id, made.legato["workflow"], made.legato["ignored"]) == ("customer-7", "two", ["metadata.colour"])
        with pytest.raises(openai.ConflictError, match="already"):
            client.conversations.create(metadata={"workflow": "two", "session": "customer-7"})
        with pytest.raises(openai.BadRequestError, match="several are served") as refused:
            client.conversations.create()
        assert refused.value.param == "metadata.workflow"
        with pytest.raises(openai.NotFoundError):
            client.conversations.create(metadata={"workflow": "three"})


def test_conversation_with_key_is_created_once() -> None:
    with run_server(make_chat([])) as server:
        client = make_client(server)
        made = [client.conversations.create(extra_headers={"Idempotency-Key": "k"}) for _ in range(3)]
        assert len({each.id for each in made}) == 1
        assert len(asyncio.run(server.registry.store.list())) == 1


def test_deleting_conversation_deletes_its_responses() -> None:
    with run_server(make_chat(["one"])) as server:
        client = make_client(server)
        answer = client.responses.create(model="chat", input="first", conversation="c")
        gone = client.conversations.delete("c")
        assert (gone.id, gone.deleted, gone.object) == ("c", True, "conversation.deleted")
        for look in (client.conversations.retrieve, client.conversations.delete, lambda id: client.conversations.items.list(id)):
            with pytest.raises(openai.NotFoundError) as unknown:
                look("c")
            assert (unknown.value.code, unknown.value.param) == ("conversation_not_found", "conversation_id")
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(answer.id)


REFUSED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "items at its beginning": ("POST", "/conversations", {"items": [{"role": "user", "content": "Hi"}]}, "items"),
    "a field that nobody knows": ("POST", "/conversations", {"colour": "red"}, "colour"),
    "metadata that is kept": ("POST", "/conversations/c", {"metadata": {"colour": "red"}}, "metadata"),
    "items between responses": ("POST", "/conversations/c/items", {"items": [{"role": "user", "content": "Hi"}]}, "items"),
    "an item to be deleted": ("DELETE", "/conversations/c/items/msg_1", {}, "item_id"),
    "tokens to be counted": ("POST", "/responses/input_tokens", {"model": "chat", "input": "Hi"}, "input"),
    "no number of items": ("GET", "/conversations/c/items?limit=0", {}, "limit"),
    "too many items": ("GET", "/conversations/c/items?limit=101", {}, "limit"),
    "an order that nobody knows": ("GET", "/conversations/c/items?order=up", {}, "order"),
    "a parameter that nobody knows": ("GET", "/conversations/c/items?before=x", {}, "before"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_operations_are_refused_with_reason(case: str) -> None:
    method, path, body, param = REFUSED[case]
    with run_server(make_chat(["one"])) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as http:
        make_client(server).responses.create(model="chat", input="first", conversation="c")
        facts = len(asyncio.run(server.registry.store.read("c")))
        refused = http.request(method, f"{server.url}/v1{path}", **({"json": body} if method == "POST" else {}))
        error = refused.json()["error"]
        assert (refused.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
        assert error["code"] in ("unsupported_value", "unknown_parameter", "invalid_value")
        assert len(asyncio.run(server.registry.store.read("c"))) == facts
        assert len(asyncio.run(server.registry.store.list())) == 1


def test_conversation_of_unserved_workflow_is_refused() -> None:
    with run_server(make_chat(["one"])) as server:
        store = server.registry.store
        make_client(server).responses.create(model="chat", input="first", conversation="c")
        with run_server(make_chat([], "other"), store=store) as other, pytest.raises(openai.ConflictError, match="not served here"):
            make_client(other).conversations.delete("c")
        assert len(asyncio.run(store.list())) == 1


# -- items


def test_items_are_messages_calls_requests_and_answers() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund order 7", conversation="c")
        before = list_items(client, "c")
        paid = client.responses.create(model="desk", input=[make_approval(asked.output[-1])], conversation="c")
        after = list_items(client, "c")
    assert summarize_items(before) == [
        ("message", "Refund order 7"),
        ("mcp_call", "look_up"),
        ("message", "I hand you over."),
        ("mcp_call", "handoff_to_refunds"),
        ("message", "I will pay that back."),
        ("mcp_approval_request", "refund"),
    ]
    assert summarize_items(after)[:6] == summarize_items(before)
    assert summarize_items(after)[6:] == [("mcp_approval_response", "True"), ("mcp_call", "refund"), ("message", "It is paid.")]
    assert after[6].approval_request_id == after[5].id == before[5].id == asked.output[-1].id
    assert [item.id for item in after[1:6]] == [item.id for item in asked.output]
    assert [item.id for item in after[7:]] == [item.id for item in paid.output]
    assert len({item.id for item in after}) == len(after)
    assert "4111-canary" not in str(after)


def test_answers_of_every_kind_are_listed() -> None:
    desk = RefundDesk([handoff("refunds")], [call("ask_bank", order="7"), "Done."], limits=Limits(turns=1))
    with run_server(desk.workflow) as server:
        client = make_client(server)
        answer = client.responses.create(model="desk", input="Refund order 7", conversation="c")
        for _ in range(9):
            if answer.output[-1].type == "mcp_approval_request":
                given = make_approval(answer.output[-1])
            elif answer.output[-1].type == "function_call":
                given = {"type": "function_call_output", "call_id": answer.output[-1].call_id, "output": "it agrees"}
            else:
                break
            answer = client.responses.create(model="desk", input=[given], conversation="c")
        items = list_items(client, "c")
    kinds = [item.type for item in items]
    assert answer.output_text == "Done."
    assert kinds.count("mcp_approval_request") == kinds.count("mcp_approval_response") >= 1
    asked, told = (next(item for item in items if item.type == kind) for kind in ("function_call", "function_call_output"))
    assert (told.call_id, told.output) == (asked.call_id, "it agrees")
    for request, response in pairwise(items):
        if request.type == "mcp_approval_request":
            assert (response.type, response.approval_request_id) == ("mcp_approval_response", request.id)


def test_child_session_request_is_listed_while_pending() -> None:
    office = PayerOffice()
    with run_server(office.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="office", input="Pay ann", conversation="c")
        assert summarize_items(list_items(client, "c")) == [("message", "Pay ann"), ("mcp_approval_request", "pay")]
        client.responses.create(model="office", input=[make_approval(asked.output[-1])], conversation="c")
        assert summarize_items(list_items(client, "c")) == [("message", "Pay ann"), ("mcp_call", "ask_payer"), ("message", "All done.")]


def test_item_pages_work_in_both_orders() -> None:
    with run_server(make_chat(["one", "two", "three"])) as server:
        client = make_client(server)
        for words in ("first", "second", "third"):
            client.responses.create(model="chat", input=words, conversation="c")
        forward = [words for _, words in summarize_items(list_items(client, "c", limit=4))]
        assert forward == ["first", "one", "second", "two", "third", "three"]
        assert [words for _, words in summarize_items(list(client.conversations.items.list("c", limit=2)))] == forward[::-1]
        page = client.conversations.items.list("c", limit=2)
        assert (page.has_more, page.first_id, page.last_id) == (True, page.data[0].id, page.data[1].id)
        with pytest.raises(openai.NotFoundError) as unknown:
            client.conversations.items.list("c", after="msg_x")
        assert (unknown.value.param, unknown.value.code) == ("after", "item_not_found")


def test_one_item_is_found_by_its_id() -> None:
    with run_server(make_chat(["one"])) as server:
        client = make_client(server)
        client.responses.create(model="chat", input="first", conversation="c")
        for item in list_items(client, "c"):
            assert client.conversations.items.retrieve(item.id, conversation_id="c") == item
        with pytest.raises(openai.NotFoundError) as unknown:
            client.conversations.items.retrieve("msg_x", conversation_id="c")
        assert (unknown.value.param, unknown.value.code) == ("item_id", "item_not_found")


@pytest.mark.parametrize("by_reference", [False, True])
def test_listed_items_may_be_sent_back(by_reference: bool) -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund order 7", conversation="c")
        client.responses.create(model="desk", input=[make_approval(asked.output[-1])], conversation="c")
        items = list_items(client, "c")
        history: list[Any] = [{"type": "item_reference", "id": item.id} if by_reference else item.to_dict() for item in items]
        thanked = client.responses.create(model="desk", input=[*history, {"role": "user", "content": "Thanks"}])
        assert (thanked.output_text, thanked.conversation.id) == ("You are welcome.", "c")
        told = list_messages(server, desk.workflow, "c")
    assert [line for line in told if line.startswith("user")] == ["user: Refund order 7", "user: Thanks"]
    assert desk.paid == ["7"]


def test_images_are_listed_by_url_or_digest() -> None:
    content = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": "https://example.com/cat.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="},
    ]
    with run_server(make_chat(["Nice."])) as server:
        client = make_client(server)
        client.responses.create(model="chat", input=[{"role": "user", "content": content}], conversation="c")
        words, picture, document = list_items(client, "c")[0].content
    assert (words.text, picture.image_url, document.filename, document.file_url) == ("Look", "https://example.com/cat.png", "a.txt", None)
    assert document.legato["digest"]


# -- responses


def test_input_items_are_those_of_the_request() -> None:
    asks = [[call("refund", order="1", card="x"), call("refund", order="2", card="x")], "It is done."]
    desk = RefundDesk([handoff("refunds")], asks)
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund 1 and 2")
        one, two = (item for item in asked.output if item.type == "mcp_approval_request")
        answers = [make_approval(one), make_approval(two, False, "too much"), {"role": "user", "content": "Quick!"}]
        done = client.responses.create(model="desk", input=answers, previous_response_id=asked.id)
        assert summarize_items(list(client.responses.input_items.list(asked.id))) == [("message", "Refund 1 and 2")]
        given = list(client.responses.input_items.list(done.id, order="asc"))
        assert summarize_items(given) == [("mcp_approval_response", "True"), ("mcp_approval_response", "False"), ("message", "Quick!")]
        assert (given[1].approval_request_id, given[1].reason) == (two.id, "too much")
        with pytest.raises(openai.NotFoundError):
            client.responses.input_items.list("resp_x")


def test_response_with_own_conversation_can_be_deleted() -> None:
    with run_server(make_chat(["one"])) as server:
        client = make_client(server)
        answer = client.responses.create(model="chat", input="first")
        client.responses.delete(answer.id)
        for act in (client.responses.retrieve, client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                act(answer.id)
        assert asyncio.run(server.registry.store.list()) == []


def test_child_sessions_are_deleted_with_the_response() -> None:
    office = PayerOffice()
    with run_server(office.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="office", input="Pay ann")
        client.responses.delete(asked.id)
        assert asyncio.run(server.registry.store.list()) == []


def test_response_in_longer_conversation_stays() -> None:
    workflow = make_chat(["one", "two"])
    with run_server(workflow) as server:
        client = make_client(server)
        first = client.responses.create(model="chat", input="first")
        second = client.responses.create(model="chat", input="second", previous_response_id=first.id)
        for response in (first, second):
            with pytest.raises(openai.BadRequestError, match="depend on the recorded facts") as refused:
                client.responses.delete(response.id)
            assert (refused.value.code, refused.value.param) == ("unsupported_value", "response_id")
        assert len(list_messages(server, workflow, first.conversation.id)) == 4


# -- paths


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/embeddings", 404, "not_found"),
        ("POST", "/v1/", 404, "not_found"),
        ("DELETE", "/v1/responses/a/b/c", 404, "not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models/chat", 405, "method_not_allowed"),
        ("PUT", "/v1/conversations/c", 405, "method_not_allowed"),
    ],
)
def test_unknown_path_error_has_openai_format(method: str, path: str, status: int, code: str) -> None:
    with run_server(make_chat([])) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as http:
        answer = http.request(method, f"{server.url}{path}")
        error = answer.json()["error"]
        assert (answer.status_code, sorted(error)) == (status, ["code", "message", "param", "type"])
        assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, code)
        assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/v1/embeddings", "/v1/chat/completions, /v1/conversations, /v1/models, /v1/responses"),
        ("/responses", "OpenAI's API is below /v1/: append that to the client's base_url"),
        ("/chat/completions", "OpenAI's API is below /v1/: append that to the client's base_url"),
        ("/api/nothing", "see /api/openapi.json"),
    ],
)
def test_unknown_path_says_where_to_look(path: str, advice: str) -> None:
    with run_server(make_chat([])) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as http:
        error = http.post(f"{server.url}{path}", json={}).json()["error"]
        assert advice in (error["do"] if path.startswith("/api") else error["message"])


def test_access_errors_have_openai_format() -> None:
    with run_server(make_chat([]), limits=ServerLimits(max_body_bytes=100, max_upload_bytes=100)) as server, httpx2.Client() as http:
        token = {"authorization": f"Bearer {server.token}"}
        long = {"model": "chat", "input": "x" * 200}
        for path, headers, body, status, kind in (
            ("/v1/models", {}, None, 401, "authentication_error"),
            ("/v1/models", {**token, "origin": "https://evil.example"}, None, 403, "permission_error"),
            ("/v1/responses", token, long, 413, "invalid_request_error"),
        ):
            answer = http.request("POST" if body else "GET", f"{server.url}{path}", headers=headers, json=body)
            error = answer.json()["error"]
            assert (answer.status_code, error["type"], sorted(error)) == (status, kind, ["code", "message", "param", "type"])
        assert "type" not in http.get(f"{server.url}/api/sessions").json()["error"]
