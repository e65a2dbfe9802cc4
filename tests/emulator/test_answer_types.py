"""Everything that the emulator can say, once: each kind of item, chunk and block, whole and streamed, and each failure.

Whether what was sent has the types of the providers' SDKs is checked after every test of the suite (tests/provider_types). Here is made
sure that there is something to check, and that no known difference is one that nothing shows any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import httpx2
import pytest

from legato.emulator import Emulator, serve
from legato.emulator.minds.base import Item, Prompt, Refused, Thought, Use, Words
from tests.emulator.conftest import fetch

ORDER = {"order": {"type": "string"}}
LOOK_UP: dict[str, Any] = {"type": "object", "properties": ORDER, "required": ["order"], "additionalProperties": False}
ANSWERS: dict[str, list[Item]] = {
    "words": [Words("It is on its way.")],
    "refusal": [Refused("I cannot help with that.")],
    "thoughts": [Thought("The user greets me."), Words("Hello.")],
    "calls": [Thought("I need both."), Words("One moment."), Use("look_up", '{"order": "A-7"}'), Use("look_up", '{"order": "B-2"}')],
    "free text": [Use("note", '{"input": "He called."}')],
    "all at once": [Words("First."), Use("look_up", '{"order": "A-7"}'), Use("note", '{"input": "He called."}')],
}


KEYS = {"authorization": "Bearer sk-test", "x-api-key": "sk-test", "anthropic-version": "2023-06-01"}


def actor(prompt: Prompt) -> list[Item]:
    """Says what the user names."""
    return ANSWERS[prompt.said]


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
    with serve(mind=actor) as running:
        yield running


def send(emulator: Emulator, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
    """One request, as any client sends it; the body of the answer."""
    given = {"authorization": "Bearer sk-test", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if path.startswith("/v1/messages"):
        given |= {"x-api-key": "sk-test", "anthropic-version": "2023-06-01"}
    answer = fetch(method, f"{emulator.url}{path}", json=body, headers=given)
    assert answer.status_code == status, answer.text
    return answer.json() if "json" in answer.headers["content-type"] else answer.text


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("said", ANSWERS)
def test_each_kind_of_item_has_its_type(emulator: Emulator, said: str, streamed: bool) -> None:
    messages = [{"role": "user", "content": said}]
    usage = {"stream_options": {"include_usage": True}} if streamed else {}
    send(emulator, "POST", "/v1/responses", {**RESPONSES, "input": said, "stream": streamed})
    send(emulator, "POST", "/v1/responses", {"model": "gpt-4.1", "input": said, "tools": RESPONSES["tools"], "stream": streamed})
    send(emulator, "POST", "/v1/chat/completions", {**CHAT, "messages": messages, "stream": streamed, **usage})
    send(emulator, "POST", "/v1/messages", {**CLAUDE, "messages": messages, "stream": streamed})


def test_all_events_of_the_emulator_are_sent(emulator: Emulator) -> None:
    sent = set()
    for said in ANSWERS:
        text = send(emulator, "POST", "/v1/responses", {**RESPONSES, "input": said, "stream": True, "background": True})
        sent |= {line.removeprefix("event: response.") for line in text.split("\n") if line.startswith("event: ")}
    assert sent == {
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
def test_each_item_that_is_kept_has_its_type(emulator: Emulator, name: str) -> None:
    talk = send(emulator, "POST", "/v1/conversations", {"items": [STORED_ITEMS[name]]})
    items = send(emulator, "GET", f"/v1/conversations/{talk['id']}/items")["data"]
    assert len(items) == 1
    send(emulator, "GET", f"/v1/conversations/{talk['id']}/items/{items[0]['id']}")


def test_stored_things_have_their_types(emulator: Emulator) -> None:
    made = send(emulator, "POST", "/v1/responses", {**RESPONSES, "input": "calls", "background": True})
    outputs = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "there"} for item in made["output"] if "call_id" in item
    ]
    more = {**RESPONSES, "input": [*outputs, {"role": "user", "content": "words"}], "previous_response_id": made["id"]}
    last = send(emulator, "POST", "/v1/responses", more)
    assert send(emulator, "GET", f"/v1/responses/{last['id']}/input_items")["data"]
    send(emulator, "GET", f"/v1/responses/{last['id']}")
    send(emulator, "POST", f"/v1/responses/{made['id']}/cancel")
    send(emulator, "DELETE", f"/v1/responses/{made['id']}")
    talk = send(emulator, "POST", "/v1/conversations", {"metadata": {"desk": "one"}})["id"]
    send(emulator, "GET", f"/v1/conversations/{talk}/items")
    added = send(emulator, "POST", f"/v1/conversations/{talk}/items", {"items": [{"role": "user", "content": "Hello"}]})["data"][0]
    send(emulator, "POST", f"/v1/conversations/{talk}", {"metadata": {}})
    send(emulator, "DELETE", f"/v1/conversations/{talk}/items/{added['id']}")
    send(emulator, "DELETE", f"/v1/conversations/{talk}")
    kept = {**CHAT, "messages": [{"role": "user", "content": "words"}], "store": True}
    completion = send(emulator, "POST", "/v1/chat/completions", kept)["id"]
    send(emulator, "GET", f"/v1/chat/completions/{completion}")


def test_models_have_their_types(emulator: Emulator) -> None:
    for name in [each["id"] for each in send(emulator, "GET", "/v1/models")["data"]]:
        send(emulator, "GET", f"/v1/models/{name}")
    for name in [each["id"] for each in send(emulator, "GET", "/v1/models", anthropic_version="2023-06-01", x_api_key="sk")["data"]]:
        send(emulator, "GET", f"/v1/models/{name}", anthropic_version="2023-06-01", x_api_key="sk")
    counted = {name: CLAUDE[name] for name in ("model", "tools")} | {"messages": [{"role": "user", "content": "words"}]}
    assert send(emulator, "POST", "/v1/messages/count_tokens", counted)["input_tokens"] > 0


REQUESTS = {
    "/v1/responses": {"model": "gpt-5.1", "input": "words"},
    "/v1/chat/completions": {"model": "gpt-5.1", "messages": [{"role": "user", "content": "words"}]},
    "/v1/messages": {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "words"}]},
}
FAILURES = ("rate_limit", "quota", "server_error", "overloaded", "unauthorized", "context_length", "timeout seconds=0")


@pytest.mark.parametrize("fault", FAILURES)
@pytest.mark.parametrize("path", REQUESTS)
def test_each_failure_has_its_type(emulator: Emulator, path: str, fault: str) -> None:
    answer = fetch("POST", f"{emulator.url}{path}", json=REQUESTS[path], headers={**KEYS, "x-legato-fault": fault})
    assert answer.status_code >= 400
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("fault", ["content_filter", "incomplete", "refusal"])
@pytest.mark.parametrize("path", REQUESTS)
def test_answers_that_are_cut_short_have_their_types(emulator: Emulator, path: str, fault: str) -> None:
    for streamed in (False, True):
        asked = {**REQUESTS[path], "stream": streamed}
        assert fetch("POST", f"{emulator.url}{path}", json=asked, headers={**KEYS, "x-legato-fault": fault}).status_code == 200


@pytest.mark.parametrize("path", REQUESTS)
def test_failures_in_streams_have_their_types(emulator: Emulator, path: str) -> None:
    for fault in ("error_event kind=overloaded", "error_event kind=rate_limit after=0", "error_event kind=context_length", "cut event=2"):
        asked = {**REQUESTS[path], "stream": True}
        with pytest.raises(httpx2.RemoteProtocolError) if "cut" in fault else nullcontext():
            answer = fetch("POST", f"{emulator.url}{path}", json=asked, headers={**KEYS, "x-legato-fault": fault})
            assert '"error"' in answer.text


@pytest.mark.parametrize("path", [*REQUESTS, "/v1/nothing", "/v1/responses/resp_none", "/v1/conversations/conv_none", "/v1/models/none"])
def test_refusals_have_their_types(emulator: Emulator, path: str) -> None:
    method = "POST" if path in REQUESTS else "GET"
    for asked in ({}, {"model": 7}, {**REQUESTS.get(path, {}), "nonsense": 1}):
        answer = fetch(method, f"{emulator.url}{path}", json=asked, headers=KEYS)
        assert answer.status_code in (400, 404)
