"""Access checks also protect the routes of other protocols."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from legato.engines import LocalEngine
from legato.server import agui, openai
from legato.server.session_registry import SessionRegistry
from legato.stores import MemoryStore
from tests.server.workflows import make_chat, run_server

REGISTRY = SessionRegistry({}, MemoryStore(), LocalEngine(), "", True)
FOREIGN_ROUTES = [
    (method, route.path.format(id="resp_x", name="chat", item="msg_x"))
    for route in [*openai.make_routes(REGISTRY), *agui.make_routes(REGISTRY)]
    for method in route.methods or ()
]
BODY = {"model": "chat", "input": "Hi", "messages": [{"id": "m", "role": "user", "content": "Hi"}], "threadId": "t", "runId": "r"}
REFUSED_HEADERS: dict[str, tuple[dict[str, str], int]] = {
    "no token": ({}, 401),
    "another token": ({"authorization": "Bearer another-token-of-some-length"}, 401),
    "a token as a password": ({"authorization": "Basic TOKEN"}, 401),
    "another host": ({"authorization": "Bearer TOKEN", "host": "evil.example"}, 421),
    "another origin": ({"authorization": "Bearer TOKEN", "origin": "https://evil.example"}, 403),
    "no origin that can be named": ({"authorization": "Bearer TOKEN", "origin": "null"}, 403),
}


def test_foreign_routes_are_exactly_these() -> None:
    assert sorted(FOREIGN_ROUTES) == [
        ("DELETE", "/v1/conversations/resp_x"),
        ("DELETE", "/v1/conversations/resp_x/items/msg_x"),
        ("DELETE", "/v1/responses/resp_x"),
        ("GET", "/v1/conversations/resp_x"),
        ("GET", "/v1/conversations/resp_x/items"),
        ("GET", "/v1/conversations/resp_x/items/msg_x"),
        ("GET", "/v1/models"),
        ("GET", "/v1/models/chat"),
        ("GET", "/v1/responses/resp_x"),
        ("GET", "/v1/responses/resp_x/input_items"),
        ("POST", "/agui"),
        ("POST", "/agui/chat"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/conversations"),
        ("POST", "/v1/conversations/resp_x"),
        ("POST", "/v1/conversations/resp_x/items"),
        ("POST", "/v1/responses"),
        ("POST", "/v1/responses/input_tokens"),
        ("POST", "/v1/responses/resp_x/cancel"),
    ]


@pytest.mark.parametrize("case", REFUSED_HEADERS)
def test_unauthorized_requests_are_refused_and_record_nothing(case: str) -> None:
    headers, status = REFUSED_HEADERS[case]
    with run_server(make_chat([])) as server, httpx2.Client() as http:
        given = {name: value.replace("TOKEN", server.token) for name, value in headers.items()}
        for method, path in FOREIGN_ROUTES:
            body: dict[str, Any] = {"json": BODY} if method == "POST" else {}
            answer = http.request(method, f"{server.url}{path}", headers=given, **body)
            assert answer.status_code == status, (method, path, answer.text)
            query = http.request(method, f"{server.url}{path}?token={server.token}&api_key={server.token}", headers=given, **body)
            assert query.status_code == status, (method, path)
        assert asyncio.run(server.registry.store.list()) == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
def test_each_path_refuses_other_methods(method: str) -> None:
    known = {
        *FOREIGN_ROUTES,
        ("GET", "/v1/responses/input_tokens"),
        ("DELETE", "/v1/responses/input_tokens"),
    }  # a response may have that id
    with run_server(make_chat([])) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as http:
        for path in {path for _, path in FOREIGN_ROUTES}:
            if (method, path) not in known:
                assert http.request(method, f"{server.url}{path}").status_code == 405, (method, path)
