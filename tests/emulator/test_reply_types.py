"""Every reply of the emulator once: each kind of item, chunk and block, whole and streamed, and each failure.

After every test of the suite, tests/provider_types compares the sent replies with the types of the providers' SDKs. This module makes
sure that every reply is sent, so that every known difference shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import httpx2
import pytest

from legato.emulator import Emulator, serve
from legato.emulator.fake_models.base import FakeReplyItem, ModelPrompt, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from tests.emulator.conftest import fetch

ORDER = {"order": {"type": "string"}}
LOOK_UP: dict[str, Any] = {"type": "object", "properties": ORDER, "required": ["order"], "additionalProperties": False}
REPLIES: dict[str, list[FakeReplyItem]] = {
    "words": [ReplyText("It is on its way.")],
    "refusal": [ReplyRefusal("I cannot help with that.")],
    "thoughts": [ReplyThought("The user greets me."), ReplyText("Hello.")],
    "calls": [
        ReplyThought("I need both."),
        ReplyText("One moment."),
        ReplyCall("look_up", '{"order": "A-7"}'),
        ReplyCall("look_up", '{"order": "B-2"}'),
    ],
    "free text": [ReplyCall("note", '{"input": "He called."}')],
    "all at once": [ReplyText("First."), ReplyCall("look_up", '{"order": "A-7"}'), ReplyCall("note", '{"input": "He called."}')],
}


KEYS = {"authorization": "Bearer sk-test", "x-api-key": "sk-test", "anthropic-version": "2023-06-01"}


def named_reply_model(prompt: ModelPrompt) -> list[FakeReplyItem]:
    """Return the reply that the user names."""
    return REPLIES[prompt.last_user_text]


RESPONSES: dict[str, Any] = {
    "tools": [
        {"type": "function", "name": "look_up", "description": None, "parameters": LOOK_UP, "strict": True},
        {"type": "custom", "name": "note", "description": "Take a note."},
    ],
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low", "summary": "auto"},
    "model": "gpt-5.5",
}
CHAT: dict[str, Any] = {
    "model": "gpt-5.1",
    "tools": [
        {"type": "function", "function": {"name": "look_up", "parameters": LOOK_UP}},
        {"type": "custom", "custom": {"name": "note", "description": "Take a note."}},
    ],
    "n": 2,
}
CLAUDE: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 5000,
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "tools": [{"name": "look_up", "input_schema": LOOK_UP}, {"name": "note", "input_schema": {"type": "object"}}],
}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with serve(fake_model=named_reply_model) as emulator:
        yield emulator


def send(emulator: Emulator, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
    """Send a request as any client does, and return the body of the response."""
    request_headers = {"authorization": "Bearer sk-test", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if path.startswith("/v1/messages"):
        request_headers |= {"x-api-key": "sk-test", "anthropic-version": "2023-06-01"}
    response = fetch(method, f"{emulator.url}{path}", json=body, headers=request_headers)
    assert response.status_code == status, response.text
    return response.json() if "json" in response.headers["content-type"] else response.text


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", REPLIES)
def test_each_item_kind_has_its_type(emulator: Emulator, name: str, stream: bool) -> None:
    messages = [{"role": "user", "content": name}]
    usage = {"stream_options": {"include_usage": True}} if stream else {}
    send(emulator, "POST", "/v1/responses", {**RESPONSES, "input": name, "stream": stream})
    send(emulator, "POST", "/v1/responses", {"model": "gpt-4.1", "input": name, "tools": RESPONSES["tools"], "stream": stream})
    send(emulator, "POST", "/v1/chat/completions", {**CHAT, "messages": messages, "stream": stream, **usage})
    send(emulator, "POST", "/v1/messages", {**CLAUDE, "messages": messages, "stream": stream})


def test_all_emulator_events_are_covered(emulator: Emulator) -> None:
    event_types = set()
    for name in REPLIES:
        text = send(emulator, "POST", "/v1/responses", {**RESPONSES, "input": name, "stream": True, "background": True})
        event_types |= {line.removeprefix("event: response.") for line in text.split("\n") if line.startswith("event: ")}
    assert event_types == {
        "created", "queued", "in_progress", "completed", "output_item.added", "output_item.done", "content_part.added", "content_part.done",
        "output_text.delta", "output_text.done", "refusal.delta", "refusal.done", "function_call_arguments.delta",
        "function_call_arguments.done", "custom_tool_call_input.delta", "custom_tool_call_input.done", "reasoning_summary_part.added",
        "reasoning_summary_part.done", "reasoning_summary_text.delta", "reasoning_summary_text.done",
    }  # fmt: skip


STORED_ITEMS: dict[str, dict[str, Any]] = {
    "a user's text": {"role": "user", "content": "Hello"},
    "a system message": {"role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
    "an agent's text": {"role": "assistant", "content": "Hello."},
    "an agent's parts": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
    "a refusal": {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    "a picture": {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]},
    "a file": {"role": "user", "content": [{"type": "input_file", "file_url": "https://example.com/a.pdf"}]},
    "a call": {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": "{}"},
    "an output": {"type": "function_call_output", "call_id": "call_1", "output": "there"},
    "an output in parts": {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "there"}]},
    "a custom call": {"type": "custom_tool_call", "call_id": "call_2", "name": "note", "input": "He called."},
    "a custom output": {"type": "custom_tool_call_output", "call_id": "call_2", "output": "noted"},
    "a web search": {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x", "queries": ["x"]},
    },
    "a file search": {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["x"]},
    "a code interpreter": {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "code": "1",
        "container_id": "cntr_1",
        "outputs": [],
    },
    "a picture made": {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="},
    "an MCP call": {"type": "mcp_call", "id": "mcp_1", "server_label": "desk", "name": "look_up", "arguments": "{}", "output": "there"},
    "MCP tools": {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "desk", "tools": [{"name": "look_up", "input_schema": {}}]},
    "an approval request": {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "desk", "name": "look_up", "arguments": "{}"},
    "an approval": {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    "a shell call": {"type": "shell_call", "call_id": "call_3", "action": {"commands": ["ls"]}},
    "reasoning": {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
    "compaction": {"type": "compaction", "encrypted_content": "gAAAA"},
}


@pytest.mark.parametrize("name", STORED_ITEMS)
def test_each_stored_item_has_its_type(emulator: Emulator, name: str) -> None:
    conversation = send(emulator, "POST", "/v1/conversations", {"items": [STORED_ITEMS[name]]})
    items = send(emulator, "GET", f"/v1/conversations/{conversation['id']}/items")["data"]
    assert len(items) == 1
    send(emulator, "GET", f"/v1/conversations/{conversation['id']}/items/{items[0]['id']}")


def test_stored_objects_have_their_types(emulator: Emulator) -> None:
    first = send(emulator, "POST", "/v1/responses", {**RESPONSES, "input": "calls", "background": True})
    outputs = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "there"} for item in first["output"] if "call_id" in item
    ]
    more = {**RESPONSES, "input": [*outputs, {"role": "user", "content": "words"}], "previous_response_id": first["id"]}
    last = send(emulator, "POST", "/v1/responses", more)
    assert send(emulator, "GET", f"/v1/responses/{last['id']}/input_items")["data"]
    send(emulator, "GET", f"/v1/responses/{last['id']}")
    send(emulator, "POST", f"/v1/responses/{first['id']}/cancel")
    send(emulator, "DELETE", f"/v1/responses/{first['id']}")
    conversation = send(emulator, "POST", "/v1/conversations", {"metadata": {"desk": "one"}})["id"]
    send(emulator, "GET", f"/v1/conversations/{conversation}/items")
    added = send(emulator, "POST", f"/v1/conversations/{conversation}/items", {"items": [{"role": "user", "content": "Hello"}]})["data"][0]
    send(emulator, "POST", f"/v1/conversations/{conversation}", {"metadata": {}})
    send(emulator, "DELETE", f"/v1/conversations/{conversation}/items/{added['id']}")
    send(emulator, "DELETE", f"/v1/conversations/{conversation}")
    stored_request = {**CHAT, "messages": [{"role": "user", "content": "words"}], "store": True}
    completion = send(emulator, "POST", "/v1/chat/completions", stored_request)["id"]
    send(emulator, "GET", f"/v1/chat/completions/{completion}")


def test_models_have_their_types(emulator: Emulator) -> None:
    for name in [each["id"] for each in send(emulator, "GET", "/v1/models")["data"]]:
        send(emulator, "GET", f"/v1/models/{name}")
    for name in [each["id"] for each in send(emulator, "GET", "/v1/models", anthropic_version="2023-06-01", x_api_key="sk")["data"]]:
        send(emulator, "GET", f"/v1/models/{name}", anthropic_version="2023-06-01", x_api_key="sk")
    count_request = {name: CLAUDE[name] for name in ("model", "tools")} | {"messages": [{"role": "user", "content": "words"}]}
    assert send(emulator, "POST", "/v1/messages/count_tokens", count_request)["input_tokens"] > 0


REQUESTS = {
    "/v1/responses": {"model": "gpt-5.1", "input": "words"},
    "/v1/chat/completions": {"model": "gpt-5.1", "messages": [{"role": "user", "content": "words"}]},
    "/v1/messages": {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "words"}]},
}
FAILURES = ("rate_limit", "quota", "server_error", "overloaded", "unauthorized", "context_length", "timeout seconds=0")


@pytest.mark.parametrize("fault", FAILURES)
@pytest.mark.parametrize("path", REQUESTS)
def test_each_failure_has_its_type(emulator: Emulator, path: str, fault: str) -> None:
    response = fetch("POST", f"{emulator.url}{path}", json=REQUESTS[path], headers={**KEYS, "x-legato-fault": fault})
    assert response.status_code >= 400
    assert response.json()["error"]["message"]


@pytest.mark.parametrize("fault", ["content_filter", "incomplete", "refusal"])
@pytest.mark.parametrize("path", REQUESTS)
def test_incomplete_replies_have_their_types(emulator: Emulator, path: str, fault: str) -> None:
    for stream in (False, True):
        body = {**REQUESTS[path], "stream": stream}
        assert fetch("POST", f"{emulator.url}{path}", json=body, headers={**KEYS, "x-legato-fault": fault}).status_code == 200


@pytest.mark.parametrize("path", REQUESTS)
def test_failures_in_streams_have_their_types(emulator: Emulator, path: str) -> None:
    for fault in ("error_event kind=overloaded", "error_event kind=rate_limit after=0", "error_event kind=context_length", "cut event=2"):
        body = {**REQUESTS[path], "stream": True}
        with pytest.raises(httpx2.RemoteProtocolError) if "cut" in fault else nullcontext():
            response = fetch("POST", f"{emulator.url}{path}", json=body, headers={**KEYS, "x-legato-fault": fault})
            assert '"error"' in response.text


@pytest.mark.parametrize("path", [*REQUESTS, "/v1/nothing", "/v1/responses/resp_none", "/v1/conversations/conv_none", "/v1/models/none"])
def test_rejections_have_their_types(emulator: Emulator, path: str) -> None:
    method = "POST" if path in REQUESTS else "GET"
    for body in ({}, {"model": 7}, {**REQUESTS.get(path, {}), "nonsense": 1}):
        response = fetch(method, f"{emulator.url}{path}", json=body, headers=KEYS)
        assert response.status_code in (400, 404)
