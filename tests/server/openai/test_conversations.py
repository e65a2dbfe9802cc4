"""Conversations and their items, as OpenAI's own SDK asks for them."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import httpx2
import openai
import pytest

from legato import Limits
from legato.server.limits import Limits as ServerLimits
from legato.testing import call, handoff
from tests.server.openai.asking import approved, client_of
from tests.server.rooms import Office, Refunds, chatting, refunding, said, served


def listed(client: Any, id: str, **asked: Any) -> list[Any]:
    return list(client.conversations.items.list(id, order="asc", **asked))


def summary(items: list[Any]) -> list[tuple[str, str]]:
    """The kind of each item, and its words."""
    words = []
    for item in items:
        content = getattr(item, "content", None)
        words.append((item.type, content[0].text if content else getattr(item, "name", "") or str(getattr(item, "approve", ""))))
    return words


# -- conversations


def test_a_conversation_is_made_before_anything_is_said() -> None:
    workflow = chatting(["one"])
    with served(workflow) as server:
        client = client_of(server)
        made = client.conversations.create()
        assert (made.object, made.metadata, made.legato["workflow"], made.legato["status"]) == ("conversation", {}, "chat", "new")
        assert client.conversations.retrieve(made.id).created_at == made.created_at
        assert listed(client, made.id) == []
        answer = client.responses.create(model="chat", input="first", conversation=made.id)
        assert (answer.output_text, answer.conversation.id) == ("one", made.id)
        assert said(server, workflow, made.id) == ["user: first", "ada: one"]


def test_metadata_names_the_session_and_the_workflow() -> None:
    with served(chatting([], "one"), chatting([], "two")) as server:
        client = client_of(server)
        made = client.conversations.create(metadata={"workflow": "two", "session": "customer-7", "colour": "red"})
        assert (made.id, made.legato["workflow"], made.legato["ignored"]) == ("customer-7", "two", ["metadata.colour"])
        with pytest.raises(openai.ConflictError, match="already"):
            client.conversations.create(metadata={"workflow": "two", "session": "customer-7"})
        with pytest.raises(openai.BadRequestError, match="several workflows") as refused:
            client.conversations.create()
        assert refused.value.param == "metadata.workflow"
        with pytest.raises(openai.NotFoundError):
            client.conversations.create(metadata={"workflow": "three"})


def test_a_conversation_with_a_key_is_made_once() -> None:
    with served(chatting([])) as server:
        client = client_of(server)
        made = [client.conversations.create(extra_headers={"Idempotency-Key": "k"}) for _ in range(3)]
        assert len({each.id for each in made}) == 1
        assert len(asyncio.run(server.serving.store.list())) == 1


def test_a_deleted_conversation_is_gone_with_its_responses() -> None:
    with served(chatting(["one"])) as server:
        client = client_of(server)
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
def test_what_a_ledger_cannot_do_is_refused_with_its_reason(case: str) -> None:
    method, path, body, param = REFUSED[case]
    with served(chatting(["one"])) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as http:
        client_of(server).responses.create(model="chat", input="first", conversation="c")
        facts = len(asyncio.run(server.serving.store.read("c")))
        refused = http.request(method, f"{server.url}/v1{path}", **({"json": body} if method == "POST" else {}))
        error = refused.json()["error"]
        assert (refused.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
        assert error["code"] in ("unsupported_value", "unknown_parameter", "invalid_value")
        assert len(asyncio.run(server.serving.store.read("c"))) == facts
        assert len(asyncio.run(server.serving.store.list())) == 1


def test_a_conversation_of_a_workflow_that_is_not_served_is_refused() -> None:
    with served(chatting(["one"])) as server:
        store = server.serving.store
        client_of(server).responses.create(model="chat", input="first", conversation="c")
        with served(chatting([], "other"), store=store) as other, pytest.raises(openai.ConflictError, match="not served here"):
            client_of(other).conversations.delete("c")
        assert len(asyncio.run(store.list())) == 1


# -- items


def test_items_are_what_was_said_called_asked_and_answered() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund order 7", conversation="c")
        before = listed(client, "c")
        paid = client.responses.create(model="desk", input=[approved(asked.output[-1])], conversation="c")
        after = listed(client, "c")
    assert summary(before) == [
        ("message", "Refund order 7"),
        ("mcp_call", "look_up"),
        ("message", "I hand you over."),
        ("mcp_call", "handoff_to_refunds"),
        ("message", "I will pay that back."),
        ("mcp_approval_request", "refund"),
    ]
    assert summary(after)[:6] == summary(before)
    assert summary(after)[6:] == [("mcp_approval_response", "True"), ("mcp_call", "refund"), ("message", "It is paid.")]
    assert after[6].approval_request_id == after[5].id == before[5].id == asked.output[-1].id
    assert [item.id for item in after[1:6]] == [item.id for item in asked.output]
    assert [item.id for item in after[7:]] == [item.id for item in paid.output]
    assert len({item.id for item in after}) == len(after)
    assert "4111-canary" not in str(after)


def test_answers_of_every_kind_are_listed() -> None:
    desk = Refunds([handoff("refunds")], [call("ask_bank", order="7"), "Done."], limits=Limits(turns=1))
    with served(desk.workflow) as server:
        client = client_of(server)
        answer = client.responses.create(model="desk", input="Refund order 7", conversation="c")
        for _ in range(9):
            if answer.output[-1].type == "mcp_approval_request":
                given = approved(answer.output[-1])
            elif answer.output[-1].type == "function_call":
                given = {"type": "function_call_output", "call_id": answer.output[-1].call_id, "output": "it agrees"}
            else:
                break
            answer = client.responses.create(model="desk", input=[given], conversation="c")
        items = listed(client, "c")
    kinds = [item.type for item in items]
    assert answer.output_text == "Done."
    assert kinds.count("mcp_approval_request") == kinds.count("mcp_approval_response") >= 1
    asked, told = (next(item for item in items if item.type == kind) for kind in ("function_call", "function_call_output"))
    assert (told.call_id, told.output) == (asked.call_id, "it agrees")
    for request, response in pairwise(items):
        if request.type == "mcp_approval_request":
            assert (response.type, response.approval_request_id) == ("mcp_approval_response", request.id)


def test_what_an_agent_as_a_tool_asks_is_listed_while_it_waits() -> None:
    office = Office()
    with served(office.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="office", input="Pay ann", conversation="c")
        assert summary(listed(client, "c")) == [("message", "Pay ann"), ("mcp_approval_request", "pay")]
        client.responses.create(model="office", input=[approved(asked.output[-1])], conversation="c")
        assert summary(listed(client, "c")) == [("message", "Pay ann"), ("mcp_call", "ask_payer"), ("message", "All done.")]


def test_pages_of_items_follow_one_another_in_either_order() -> None:
    with served(chatting(["one", "two", "three"])) as server:
        client = client_of(server)
        for words in ("first", "second", "third"):
            client.responses.create(model="chat", input=words, conversation="c")
        forward = [words for _, words in summary(listed(client, "c", limit=4))]
        assert forward == ["first", "one", "second", "two", "third", "three"]
        assert [words for _, words in summary(list(client.conversations.items.list("c", limit=2)))] == forward[::-1]
        page = client.conversations.items.list("c", limit=2)
        assert (page.has_more, page.first_id, page.last_id) == (True, page.data[0].id, page.data[1].id)
        with pytest.raises(openai.NotFoundError) as unknown:
            client.conversations.items.list("c", after="msg_x")
        assert (unknown.value.param, unknown.value.code) == ("after", "item_not_found")


def test_one_item_is_found_by_its_id() -> None:
    with served(chatting(["one"])) as server:
        client = client_of(server)
        client.responses.create(model="chat", input="first", conversation="c")
        for item in listed(client, "c"):
            assert client.conversations.items.retrieve(item.id, conversation_id="c") == item
        with pytest.raises(openai.NotFoundError) as unknown:
            client.conversations.items.retrieve("msg_x", conversation_id="c")
        assert (unknown.value.param, unknown.value.code) == ("item_id", "item_not_found")


@pytest.mark.parametrize("by_reference", [False, True])
def test_listed_items_may_be_sent_back(by_reference: bool) -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund order 7", conversation="c")
        client.responses.create(model="desk", input=[approved(asked.output[-1])], conversation="c")
        items = listed(client, "c")
        history: list[Any] = [{"type": "item_reference", "id": item.id} if by_reference else item.to_dict() for item in items]
        thanked = client.responses.create(model="desk", input=[*history, {"role": "user", "content": "Thanks"}])
        assert (thanked.output_text, thanked.conversation.id) == ("You are welcome.", "c")
        told = said(server, desk.workflow, "c")
    assert [line for line in told if line.startswith("user")] == ["user: Refund order 7", "user: Thanks"]
    assert desk.paid == ["7"]


def test_pictures_are_listed_by_address_or_digest() -> None:
    content = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": "https://example.com/cat.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="},
    ]
    with served(chatting(["Nice."])) as server:
        client = client_of(server)
        client.responses.create(model="chat", input=[{"role": "user", "content": content}], conversation="c")
        words, picture, document = listed(client, "c")[0].content
    assert (words.text, picture.image_url, document.filename, document.file_url) == ("Look", "https://example.com/cat.png", "a.txt", None)
    assert document.legato["digest"]


# -- responses


def test_the_input_of_a_response_is_what_its_request_gave() -> None:
    asks = [[call("refund", order="1", card="x"), call("refund", order="2", card="x")], "It is done."]
    desk = Refunds([handoff("refunds")], asks)
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund 1 and 2")
        one, two = (item for item in asked.output if item.type == "mcp_approval_request")
        answers = [approved(one), approved(two, False, "too much"), {"role": "user", "content": "Quick!"}]
        done = client.responses.create(model="desk", input=answers, previous_response_id=asked.id)
        assert summary(list(client.responses.input_items.list(asked.id))) == [("message", "Refund 1 and 2")]
        given = list(client.responses.input_items.list(done.id, order="asc"))
        assert summary(given) == [("mcp_approval_response", "True"), ("mcp_approval_response", "False"), ("message", "Quick!")]
        assert (given[1].approval_request_id, given[1].reason) == (two.id, "too much")
        with pytest.raises(openai.NotFoundError):
            client.responses.input_items.list("resp_x")


def test_a_response_that_is_its_whole_conversation_is_deleted() -> None:
    with served(chatting(["one"])) as server:
        client = client_of(server)
        answer = client.responses.create(model="chat", input="first")
        client.responses.delete(answer.id)
        for act in (client.responses.retrieve, client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                act(answer.id)
        assert asyncio.run(server.serving.store.list()) == []


def test_an_asked_and_answered_child_session_is_deleted_with_its_response() -> None:
    office = Office()
    with served(office.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="office", input="Pay ann")
        client.responses.delete(asked.id)
        assert asyncio.run(server.serving.store.list()) == []


def test_a_response_within_a_conversation_is_not_deleted() -> None:
    workflow = chatting(["one", "two"])
    with served(workflow) as server:
        client = client_of(server)
        first = client.responses.create(model="chat", input="first")
        second = client.responses.create(model="chat", input="second", previous_response_id=first.id)
        for response in (first, second):
            with pytest.raises(openai.BadRequestError, match="other answers rest on it") as refused:
                client.responses.delete(response.id)
            assert (refused.value.code, refused.value.param) == ("unsupported_value", "response_id")
        assert len(said(server, workflow, first.conversation.id)) == 4


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
def test_an_unknown_path_is_an_error_in_the_shape_of_the_api(method: str, path: str, status: int, code: str) -> None:
    with served(chatting([])) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as http:
        answer = http.request(method, f"{server.url}{path}")
        error = answer.json()["error"]
        assert (answer.status_code, sorted(error)) == (status, ["code", "message", "param", "type"])
        assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, code)
        assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/v1/embeddings", "/v1/chat/completions, /v1/conversations, /v1/models, /v1/responses"),
        ("/responses", "OpenAI's API is below /v1/: end the client's base_url with it"),
        ("/chat/completions", "OpenAI's API is below /v1/: end the client's base_url with it"),
        ("/api/nothing", "see /api/openapi.json"),
    ],
)
def test_a_path_without_anything_says_where_to_look(path: str, advice: str) -> None:
    with served(chatting([])) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as http:
        error = http.post(f"{server.url}{path}", json={}).json()["error"]
        assert advice in (error["do"] if path.startswith("/api") else error["message"])


def test_what_is_refused_at_the_door_has_the_shape_of_the_api() -> None:
    with served(chatting([]), limits=ServerLimits(body=100, files=100)) as server, httpx2.Client() as http:
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
