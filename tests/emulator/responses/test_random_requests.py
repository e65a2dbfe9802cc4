"""Random requests: each gets a valid reply or a valid error."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato.emulator.fake_models.base import FakeReply, FakeReplyItem, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.request_types import EmulatorRequest, ProviderFailure
from tests.emulator.responses.adapter_client import NOW, PARAMETERS, TOOL, AdapterClient, decode_events, rebuild_output

CLIENT = AdapterClient()
STORED = CLIENT.post({"model": "gpt-5", "tools": [TOOL]}, FakeReply((ReplyThought("Hm."), ReplyText("Hello."))))
_, CONVERSATION = CLIENT.adapter.conversation_endpoints.create(CLIENT.make_request(), {})

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TEXT = st.text(max_size=12)

ITEMS = st.sampled_from([
    {"role": "user", "content": "Hi"},
    {"role": "system", "content": [{"type": "input_text", "text": "Be kind."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}], "phase": "commentary"},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}, {"type": "input_file", "file_id": "f"}]},
    {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": "{"},
    {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "out"}]},
    {"type": "function_call_output", "name": "look_up", "output": "out"},
    {"type": "custom_tool_call", "call_id": "call_2", "name": "sql", "input": "select"},
    {"type": "custom_tool_call_output", "call_id": "call_2", "output": "1"},
    {"type": "reasoning", "summary": []},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
    {"type": "mcp_call", "server_label": "s", "name": "n", "arguments": "{}"},
    {"type": "compaction", "encrypted_content": "gAAA"},
    {"type": "item_reference", "id": STORED["output"][1]["id"]},
    {"id": STORED["output"][0]["id"]},
    *STORED["output"],
])  # fmt: skip

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "model": st.sampled_from(["gpt-4o", "gpt-5", "gpt-5.5", "o4-mini", "gpt-4o-mini"]),
    "input": TEXT | st.lists(ITEMS, max_size=4),
    "instructions": TEXT,
    "previous_response_id": st.just(STORED["id"]),
    "conversation": st.sampled_from([CONVERSATION["id"], {"id": CONVERSATION["id"]}]),
    "tools": st.lists(
        st.sampled_from(
            [
                TOOL,
                {**TOOL, "name": "other", "description": None, "parameters": {}},
                {"type": "function", "name": "bare"},
                {"type": "custom", "name": "sql"},
                {"type": "web_search"},
                {"type": "mcp", "server_label": "s", "server_url": "https://example.com"},
                {"type": "namespace", "name": "n", "description": "d", "tools": [TOOL]},
            ]
        ),
        max_size=4,
    ),
    "tool_choice": st.sampled_from(["auto", "none", "required", {"type": "function", "name": "look_up"}, {"type": "web_search_preview"}]),
    "parallel_tool_calls": st.booleans(),
    "max_output_tokens": st.integers(16, 40),
    "max_tool_calls": st.integers(1, 3),
    "metadata": st.dictionaries(TEXT, TEXT, max_size=2),
    "reasoning": st.fixed_dictionaries({}, optional={"effort": st.sampled_from(["none", "low", "high"]), "summary": st.just("auto")}),
    "text": st.sampled_from([{}, {"verbosity": "low"}, {"format": {"type": "json_schema", "name": "a", "schema": PARAMETERS}}]),
    "store": st.booleans(),
    "stream": st.booleans(),
    "stream_options": st.sampled_from([{}, {"include_obfuscation": False}]),
    "background": st.booleans(),
    "service_tier": st.sampled_from(["auto", "flex", "fast"]),
    "temperature": st.floats(0, 2),
    "top_logprobs": st.integers(0, 20),
    "truncation": st.sampled_from(["auto", "disabled"]),
    "include": st.just(["reasoning.encrypted_content"]),
    "prompt_cache_options": st.sampled_from([{}, {"ttl": "12h"}]),
    "user": TEXT,
}
BODIES = st.fixed_dictionaries(
    {name: VALUES[name] for name in ("model", "input")},
    optional={name: value | st.none() for name, value in VALUES.items() if name not in ("model", "input")},
)
ARGUMENTS = TEXT | st.just('{"input": "x"}')
CALLS = st.builds(ReplyCall, st.sampled_from(["look_up", "sql", "no_such_tool", ""]), ARGUMENTS, st.sampled_from(["", "call_0"]))
REPLY_ITEMS: st.SearchStrategy[FakeReplyItem] = (
    st.builds(ReplyThought, TEXT) | st.builds(ReplyText, st.text(max_size=200)) | CALLS | st.builds(ReplyRefusal, TEXT)
)
REPLIES = st.builds(FakeReply, st.lists(REPLY_ITEMS, max_size=4).map(tuple), st.sampled_from(["stop", "length", "content_filter"]))


def _list_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    return [path, *(deeper for key, child in children for deeper in _list_paths(child, (*path, key)))]


@st.composite
def mutated_bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Return a legal body with one value or key replaced, removed or added."""
    body = copy.deepcopy(draw(BODIES))
    path = draw(st.sampled_from(_list_paths(body)[1:]))
    holder: Any = body
    for key in path[:-1]:
        holder = holder[key]
    match draw(st.sampled_from(["replace", "remove", "add"])):
        case "replace":
            holder[path[-1]] = draw(JSON)
        case "remove":
            del holder[path[-1]]
        case "add" if isinstance(holder, dict):
            holder[draw(st.sampled_from(["id", "type", "role", "content", "status", "call_id", "name", "x"]))] = draw(JSON)
        case _:
            holder.append(draw(JSON))
    return body


def _make_request(body: dict[str, Any], number: int) -> EmulatorRequest:
    return EmulatorRequest("responses", number, msgspec.json.decode(msgspec.json.encode(body)), {}, "org-1", NOW)


def _process(body: dict[str, Any], fake_reply: FakeReply, *, typed: bool) -> None:
    adapter, request = CLIENT.adapter, _make_request(body, CLIENT.request_count)
    adapter.apply_state_fault(request, "expired" if body.get("previous_response_id") != STORED["id"] else "nothing")
    violations = adapter.find_violations(request)
    if violations:
        error_reply = adapter.reply_to_violations(request, violations)
        assert 400 <= error_reply.status < 500
        assert msgspec.json.decode(msgspec.json.encode(error_reply.body))["error"].keys() == {"message", "type", "param", "code"}
        return
    adapter.acquire_locks(request)
    try:
        prompt = adapter.make_prompt(request)
        assert msgspec.json.encode(prompt)
        reply = adapter.make_reply(request, fake_reply)
        events = decode_events(reply.events, typed=typed)
        output = events[-1]["response"]["output"]
        assert [item["id"] for item in rebuild_output(events)] == [item["id"] for item in output]
        assert reply.body["usage"]["total_tokens"] >= reply.body["usage"]["input_tokens_details"]["cached_tokens"]
        limit = body.get("max_output_tokens")
        assert limit is None or reply.body["usage"]["output_tokens"] <= limit
        failing = decode_events(
            adapter.make_failing_stream(request, reply, ProviderFailure("server_error", 500), 4, is_flat=True), typed=typed
        )
        assert failing[-1]["type"] == "response.failed"
        if not body.get("conversation"):  # the conversation would grow with every example
            adapter.store_reply(request, reply)
    finally:
        adapter.release_locks(request)
    status, collected = adapter.response_endpoints.get(request, reply.body["id"], {})
    if body.get("store") is False or body.get("conversation"):
        assert status == 404
    else:
        assert (status, collected) == (200, msgspec.json.decode(msgspec.json.encode(reply.body)))
        status, item_list = adapter.response_endpoints.input_items(request, reply.body["id"], {"limit": "100"})
        assert status == 200
        assert all(isinstance(item["id"], str) and isinstance(item["type"], str) for item in item_list["data"])


@given(BODIES, REPLIES)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_body_of_legal_parts_gets_reply(body: dict[str, Any], fake_reply: FakeReply) -> None:
    _process(body, fake_reply, typed=True)


@given(mutated_bodies(), REPLIES)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_body_gets_reply_or_error(body: dict[str, Any], fake_reply: FakeReply) -> None:
    _process(body, fake_reply, typed=False)  # members that no rule checks are echoed unchanged


@given(st.dictionaries(st.sampled_from([*VALUES, "prompt", "x"]), JSON, max_size=6), REPLIES)
@settings(max_examples=300, deadline=None)
def test_arbitrary_body_gets_reply_or_error(body: dict[str, Any], fake_reply: FakeReply) -> None:
    _process(body, fake_reply, typed=False)  # members that no rule checks are echoed unchanged


MEMBERS = st.dictionaries(st.sampled_from(["items", "metadata", "x"]), JSON | st.lists(ITEMS | JSON, max_size=3))


@given(st.sampled_from(["create", "update", "add_items"]), MEMBERS)
@settings(max_examples=300, deadline=None)
def test_arbitrary_conversation_request_gets_a_reply(name: str, body: dict[str, Any]) -> None:
    request = _make_request(body, 1)
    endpoints = CLIENT.adapter.conversation_endpoints
    _, conversation = endpoints.create(CLIENT.make_request(), {})
    path_ids = () if name == "create" else (conversation["id"],)
    status, response = getattr(endpoints, name)(request, *path_ids, {})
    assert status in (200, 400, 404)
    assert ("error" in response) == (status != 200)
    if status == 200:
        conversation_id = response["id"] if name == "create" else conversation["id"]
        assert endpoints.list_items(request, conversation_id, {})[0] == 200
        follow_up = _make_request({"model": "gpt-4o", "input": "Hi", "conversation": conversation_id}, 2)
        if not CLIENT.adapter.find_violations(follow_up):
            CLIENT.adapter.make_prompt(follow_up)
            CLIENT.adapter.release_locks(follow_up)


@given(st.text(), st.dictionaries(st.sampled_from(["limit", "order", "after", "x"]), st.text()))
def test_any_id_and_query_get_a_reply(id: str, query: dict[str, str]) -> None:
    for path_ids in (id, STORED["id"]):
        for endpoint in (
            CLIENT.adapter.response_endpoints.input_items,
            CLIENT.adapter.response_endpoints.get,
            CLIENT.adapter.response_endpoints.cancel,
        ):
            assert endpoint(CLIENT.make_request(), path_ids, query)[0] in (200, 400, 404)
