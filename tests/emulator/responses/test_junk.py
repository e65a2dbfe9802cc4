"""Whatever is sent is refused in the envelope or answered in the right form; nothing that the law book lets through breaks anything."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato.emulator.asks import Ask, Failure
from legato.emulator.minds.base import Item, Refused, Say, Thought, Use, Words
from tests.emulator.responses.bench import NOW, PARAMETERS, TOOL, Bench, rebuild, told

BENCH = Bench()
STORED = BENCH.post({"model": "gpt-5", "tools": [TOOL]}, Say((Thought("Hm."), Words("Hello."))))
_, CONVERSATION = BENCH.dialect.conversations.create(BENCH.ask(), {})

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
USES = st.builds(Use, st.sampled_from(["look_up", "sql", "no_such_tool", ""]), ARGUMENTS, st.sampled_from(["", "call_0"]))
SAID: st.SearchStrategy[Item] = st.builds(Thought, TEXT) | st.builds(Words, st.text(max_size=200)) | USES | st.builds(Refused, TEXT)
SAYS = st.builds(Say, st.lists(SAID, max_size=4).map(tuple), st.sampled_from(["stop", "length", "content_filter"]))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    return [path, *(deeper for key, child in children for deeper in _paths(child, (*path, key)))]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A body that was legal, with one value or key somewhere in it replaced, removed or added."""
    body = copy.deepcopy(draw(BODIES))
    path = draw(st.sampled_from(_paths(body)[1:]))
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


def _sent(body: dict[str, Any], number: int) -> Ask:
    return Ask("responses", number, msgspec.json.decode(msgspec.json.encode(body)), {}, "org-1", NOW)


def _go_through(body: dict[str, Any], say: Say, *, typed: bool) -> None:
    dialect, ask = BENCH.dialect, _sent(body, BENCH.asked)
    dialect.strike(ask, "expired" if body.get("previous_response_id") != STORED["id"] else "nothing")
    complaints = dialect.judge(ask)
    if complaints:
        refusal = dialect.refuse(ask, complaints)
        assert 400 <= refusal.status < 500
        assert msgspec.json.decode(msgspec.json.encode(refusal.body))["error"].keys() == {"message", "type", "param", "code"}
        return
    dialect.begin(ask)
    try:
        prompt = dialect.prompt(ask)
        assert msgspec.json.encode(prompt)
        answer = dialect.answer(ask, say)
        events = told(answer.events, typed=typed)
        output = events[-1]["response"]["output"]
        assert [item["id"] for item in rebuild(events)] == [item["id"] for item in output]
        assert answer.body["usage"]["total_tokens"] >= answer.body["usage"]["input_tokens_details"]["cached_tokens"]
        limit = body.get("max_output_tokens")
        assert limit is None or answer.body["usage"]["output_tokens"] <= limit
        failing = told(dialect.fail_stream(ask, answer, Failure("server_error", 500), 4, flat=True), typed=typed)
        assert failing[-1]["type"] == "response.failed"
        if not body.get("conversation"):  # it would grow from example to example
            dialect.keep(ask, answer)
    finally:
        dialect.end(ask)
    status, found = dialect.responses.get(ask, answer.body["id"], {})
    if body.get("store") is False or body.get("conversation"):
        assert status == 404
    else:
        assert (status, found) == (200, msgspec.json.decode(msgspec.json.encode(answer.body)))
        status, listed = dialect.responses.input_items(ask, answer.body["id"], {"limit": "100"})
        assert status == 200
        assert all(isinstance(item["id"], str) and isinstance(item["type"], str) for item in listed["data"])


@given(BODIES, SAYS)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_body_made_of_legal_parts_is_refused_or_answered(body: dict[str, Any], say: Say) -> None:
    _go_through(body, say, typed=True)


@given(mutated(), SAYS)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_body_with_one_thing_wrong_is_refused_or_answered(body: dict[str, Any], say: Say) -> None:
    _go_through(body, say, typed=False)  # what the law book does not look into is echoed as it came


@given(st.dictionaries(st.sampled_from([*VALUES, "prompt", "x"]), JSON, max_size=6), SAYS)
@settings(max_examples=300, deadline=None)
def test_a_body_of_anything_is_refused_or_answered(body: dict[str, Any], say: Say) -> None:
    _go_through(body, say, typed=False)  # what the law book does not look into is echoed as it came


MEMBERS = st.dictionaries(st.sampled_from(["items", "metadata", "x"]), JSON | st.lists(ITEMS | JSON, max_size=3))


@given(st.sampled_from(["create", "update", "add_items"]), MEMBERS)
@settings(max_examples=300, deadline=None)
def test_a_conversation_takes_or_refuses_anything(name: str, body: dict[str, Any]) -> None:
    ask = _sent(body, 1)
    endpoints = BENCH.dialect.conversations
    _, made = endpoints.create(BENCH.ask(), {})
    where = () if name == "create" else (made["id"],)
    status, answered = getattr(endpoints, name)(ask, *where, {})
    assert status in (200, 400, 404)
    assert ("error" in answered) == (status != 200)
    if status == 200:
        conversation = answered["id"] if name == "create" else made["id"]
        assert endpoints.list_items(ask, conversation, {})[0] == 200
        follow_up = _sent({"model": "gpt-4o", "input": "Hi", "conversation": conversation}, 2)
        if not BENCH.dialect.judge(follow_up):
            BENCH.dialect.prompt(follow_up)
            BENCH.dialect.end(follow_up)


@given(st.text(), st.dictionaries(st.sampled_from(["limit", "order", "after", "x"]), st.text()))
def test_any_id_and_any_query_have_an_answer(id: str, query: dict[str, str]) -> None:
    for where in (id, STORED["id"]):
        for endpoint in (BENCH.dialect.responses.input_items, BENCH.dialect.responses.get, BENCH.dialect.responses.cancel):
            assert endpoint(BENCH.ask(), where, query)[0] in (200, 400, 404)
