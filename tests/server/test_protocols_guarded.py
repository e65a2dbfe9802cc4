"""What speaks other protocols is behind the same door as everything else."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from legato.engines import LocalEngine
from legato.server.protocols import protocols
from legato.server.serving import Serving
from legato.stores import MemoryStore
from tests.server.rooms import chatting, served

WAYS = [
    (method, route.path.format(id="resp_x", name="chat", item="msg_x"))
    for route in protocols(Serving({}, MemoryStore(), LocalEngine(), "", True))
    for method in route.methods or ()
]
BODY = {"model": "chat", "input": "Hi", "messages": [{"id": "m", "role": "user", "content": "Hi"}], "threadId": "t", "runId": "r"}
KEYHOLES: dict[str, tuple[dict[str, str], int]] = {
    "no token": ({}, 401),
    "another token": ({"authorization": "Bearer another-token-of-some-length"}, 401),
    "a token as a password": ({"authorization": "Basic TOKEN"}, 401),
    "another host": ({"authorization": "Bearer TOKEN", "host": "evil.example"}, 421),
    "another origin": ({"authorization": "Bearer TOKEN", "origin": "https://evil.example"}, 403),
    "no origin that can be named": ({"authorization": "Bearer TOKEN", "origin": "null"}, 403),
}


def test_there_are_as_many_ways_in_as_the_pages_name() -> None:
    assert sorted(WAYS) == [
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


@pytest.mark.parametrize("keyhole", KEYHOLES)
def test_nobody_gets_in_who_may_not_and_nothing_is_said(keyhole: str) -> None:
    headers, status = KEYHOLES[keyhole]
    with served(chatting([])) as server, httpx2.Client() as http:
        given = {name: value.replace("TOKEN", server.token) for name, value in headers.items()}
        for method, path in WAYS:
            body: dict[str, Any] = {"json": BODY} if method == "POST" else {}
            answer = http.request(method, f"{server.url}{path}", headers=given, **body)
            assert answer.status_code == status, (method, path, answer.text)
            query = http.request(method, f"{server.url}{path}?token={server.token}&api_key={server.token}", headers=given, **body)
            assert query.status_code == status, (method, path)
        assert asyncio.run(server.serving.store.list()) == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
def test_each_path_refuses_every_other_method(method: str) -> None:
    known = {*WAYS, ("GET", "/v1/responses/input_tokens"), ("DELETE", "/v1/responses/input_tokens")}  # a response may have that id
    with served(chatting([])) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as http:
        for path in {path for _, path in WAYS}:
            if (method, path) not in known:
                assert http.request(method, f"{server.url}{path}").status_code == 405, (method, path)
