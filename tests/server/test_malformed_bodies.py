"""Malformed requests to other protocols' routes: each is answered or refused with a reason, never with an unexpected error."""

from __future__ import annotations

import copy
import json
import os
from random import Random
from typing import Any

import httpx2
import pytest

from tests.server.workflows import make_chat, run_server

PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACw="
VALID_BODIES: dict[str, dict[str, Any]] = {
    "/v1/responses": {
        "model": "chat",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_image", "image_url": PIXEL}]},
        ],
        "stream": False,
        "conversation": {"id": "c"},
        "metadata": {"session": "c"},
        "text": {"format": {"type": "text"}},
    },
    "/v1/responses?": {
        "model": "chat",
        "input": [
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_a_b", "approve": True, "reason": "x"},
            {"type": "function_call_output", "call_id": "call_a_b", "output": "done"},
            {"role": "user", "content": "Hi"},
        ],
        "conversation": "c",
    },
    "/v1/chat/completions": {
        "model": "chat",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": PIXEL}}]},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "Bye"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "metadata": {"session": "d"},
    },
    "/agui": {
        "threadId": "t",
        "runId": "r",
        "messages": [
            {"id": "m1", "role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"id": "m2", "role": "assistant", "content": "Hello", "toolCalls": []},
            {"id": "m3", "role": "user", "content": "Bye"},
        ],
        "state": {},
        "tools": [],
        "context": [],
        "resume": [{"interruptId": "a_b", "status": "resolved", "payload": {"approved": True}}],
    },
}
TRIES = int(os.environ.get("LEGATO_TRIES", "100"))
ODD: list[Any] = [None, True, 0, -1, 10**30, 1.5, "", "x", "\x00", "é\u2028", "\ud800", "a" * 5000, [], {}, [[]], {"type": "text"}]


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in list_paths(each, (*path, key)))]


def corrupt(valid: Any, dice: Random) -> Any:
    """Return a copy with one to three corrupted values."""
    body = copy.deepcopy(valid)
    for _ in range(dice.randint(1, 3)):
        path = dice.choice(list_paths(body))
        if not path:
            continue
        holder = body
        for key in path[:-1]:
            holder = holder[key]
        match dice.randrange(4):
            case 0:
                del holder[path[-1]]
            case 1 if isinstance(holder, dict):
                holder[dice.choice(["typo", "type", "role", "id", "content"])] = copy.deepcopy(dice.choice(ODD))
            case _:
                holder[path[-1]] = copy.deepcopy(dice.choice(ODD))
    return body


@pytest.mark.parametrize("path", VALID_BODIES)
def test_malformed_request_never_causes_unexpected_error(path: str) -> None:
    dice = Random(path)
    with run_server(make_chat(lambda seen: "Fine.")) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as http:
        answered = 0
        for _ in range(TRIES):
            body = json.dumps(corrupt(VALID_BODIES[path], dice))
            answer = http.post(f"{server.url}{path}", content=body, headers={"content-type": "application/json"})
            assert answer.status_code in (200, 400, 404, 409), (answer.status_code, body, answer.text)
            assert '"code":"unexpected"' not in answer.text, (body, answer.text)
            if answer.status_code != 200:
                assert answer.json()["error"]["message"], body
            answered += answer.status_code == 200
        assert answered or path.endswith("?")  # its answers are to nobody
