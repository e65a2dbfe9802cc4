"""Encoding of requests to the Messages API: always legal, deterministic, with as much thinking as the rules allow."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from legato.core.facts import Call, File, Image, OutputText, Reasoning, Refusal, Text
from legato.core.groups import Group
from legato.core.model_reply import ModelReply
from legato.core.turn_context import ToolSpec, TurnContext
from legato.providers.formats.anthropic.encode import DEFAULT_MAX_TOKENS, encode_request, find_option_violations
from legato.providers.formats.encoded_request import MISSING_USER_MESSAGE
from legato.providers.formats.loss_reasons import OTHER_MODEL_ONLY
from legato.providers.formats.request_options import RequestOptions
from tests.providers.formats.anthropic.conversations import (
    UNBOUND_MODEL,
    decode_body,
    find_blocks,
    make_message_group,
    make_origin,
    make_reply_group,
    make_request,
    make_turn_context,
)

PLAIN_OPTIONS = RequestOptions(model="claude-sonnet-5")


def encode(
    groups: list[Group], options: RequestOptions = PLAIN_OPTIONS, context: TurnContext | None = None, **encode_options: Any
) -> dict[str, Any]:
    return decode_body(
        encode_request(
            make_request(context or make_turn_context("a", "look"), groups), options, make_origin(options), stream=False, **encode_options
        )
    )


def find_losses(
    groups: list[Group], options: RequestOptions = PLAIN_OPTIONS, context: TurnContext | None = None, **encode_options: Any
) -> tuple[str, ...]:
    return encode_request(
        make_request(context or make_turn_context("a", "look"), groups), options, make_origin(options), stream=False, **encode_options
    ).losses


def make_reply(*items: Any, **members: Any) -> ModelReply:
    return ModelReply(items=items, **members)


# -- turn contexts and settings ----------------------------------------------------------------------------------------


def test_system_and_added_messages_are_encoded_first() -> None:
    """Instructions are the system prompt, and added messages are the user's first texts."""
    request = make_request(make_turn_context("a", messages=("Today is Monday.",)), [make_message_group(0, "Hi")], summary="They met.")
    body = decode_body(encode_request(request, PLAIN_OPTIONS, "o", stream=True))
    assert body["system"] == "You are a."
    assert [block["text"] for _, block in find_blocks(body)] == [
        "Today is Monday.",
        "Summary of the conversation so far:\nThey met.",
        "Hi",
    ]
    assert len(body["messages"]) == 1
    assert body["stream"] is True
    assert body["max_tokens"] == DEFAULT_MAX_TOKENS


def test_system_is_omitted_without_instructions() -> None:
    body = encode([make_message_group(0, "Hi")], context=TurnContext("a"))
    assert "system" not in body
    assert "tools" not in body
    assert "stream" not in body


def test_tool_schema_and_name_are_made_legal() -> None:
    request = make_request(
        TurnContext("a", tools=(ToolSpec("Größe der Wand"), ToolSpec("b", "", '{"properties":{}}'))), [make_message_group(0, "Hi")]
    )
    encoded = encode_request(request, PLAIN_OPTIONS, "o", stream=False)
    first, second = decode_body(encoded)["tools"]
    assert first["input_schema"] == {"type": "object"}
    assert second["input_schema"] == {"properties": {}, "type": "object"}
    assert encoded.tool_names[first["name"]] == "Größe der Wand"
    assert encoded.violations == ()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"effort": "high"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ({"effort": "minimal"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ({"effort": "none"}, {"thinking": {"type": "disabled"}}),
        ({"thinking_tokens": 2000}, {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": DEFAULT_MAX_TOKENS + 2000}),
        ({"thinking_tokens": 0}, {"thinking": {"type": "disabled"}}),
        ({"effort": "low", "reasoning_summary": "omitted"}, {"thinking": {"type": "adaptive", "display": "omitted"}}),
        ({"effort": "low", "extra": {"output_config": {"effort": "max"}}}, {"output_config": {"effort": "max"}}),
        ({"max_tokens": 9, "temperature": 1}, {"max_tokens": 9, "temperature": 1}),
        ({"stop": ("END",), "service_tier": "auto"}, {"stop_sequences": ["END"], "service_tier": "auto"}),
        ({"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
        ({"tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
        (
            {"tool_choice": "look", "parallel_calls": False},
            {"tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True}},
        ),
        ({"parallel_calls": False}, {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
        ({"extra": {"metadata": {"user_id": "u"}}}, {"metadata": {"user_id": "u"}}),
    ],
)
def test_options_are_encoded_for_the_api(arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    options = RequestOptions(model="claude-sonnet-5", **arguments)
    body = encode([make_message_group(0, "Hi")], options)
    assert {name: body[name] for name in expected} == expected
    assert find_option_violations(options) == ()


@pytest.mark.parametrize(("name", "value"), [("temperature", 0.5), ("top_p", 0.9), ("top_k", 5)])
def test_sampling_is_legal_where_the_model_takes_it(name: str, value: float) -> None:
    arguments: dict[str, Any] = {"extra": {name: value}} if name == "top_k" else {name: value}
    assert find_option_violations(RequestOptions(model="claude-haiku-4-5", **arguments)) == ()
    assert [each.rule.id for each in find_option_violations(RequestOptions(model="claude-opus-5-5", **arguments))] == ["MP6"]


def test_missing_tool_is_not_forced() -> None:
    options = RequestOptions(model="claude-sonnet-5", tool_choice="refund")
    assert "tool_choice" not in encode([make_message_group(0, "Hi")], options)
    assert find_losses([make_message_group(0, "Hi")], options) == ("tool_choice of a: it has no tool 'refund'",)


def test_forced_tool_disables_budgeted_thinking() -> None:
    options = RequestOptions(model=UNBOUND_MODEL, tool_choice="required", thinking_tokens=1024)
    assert encode([make_message_group(0, "Hi")], options)["thinking"] == {"type": "disabled"}


def test_hosted_tools_follow_the_agents_tools() -> None:
    search_tool = {"type": "web_search_20260209", "name": "web_search"}
    assert encode([make_message_group(0, "Hi")], RequestOptions(model="claude-sonnet-5", hosted=(search_tool,)))["tools"][-1] == search_tool


def test_cache_marks_change_no_messages() -> None:
    cached = RequestOptions(model="claude-sonnet-5", extra={"cache_control": {"type": "ephemeral"}})
    plain, marked = encode([make_message_group(0, "Hi")]), encode([make_message_group(0, "Hi")], cached)
    assert marked["messages"] == plain["messages"]
    assert marked["tools"] == plain["tools"]
    assert marked["system"] == [{"type": "text", "text": "You are a.", "cache_control": {"type": "ephemeral"}}]
    assert marked["cache_control"] == {"type": "ephemeral"}


SCHEMA = {
    "type": "object",
    "title": "Order",
    "properties": {
        "id": {"type": "string", "pattern": "^A"},
        "count": {"type": "integer", "minimum": 1, "description": "How many."},
        "when": {"type": "string", "format": "date"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "kind": {"enum": ["a", "b"], "type": "string"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["id"],
    "$defs": {"Line": {"type": "object", "properties": {"n": {"type": "number"}}}},
}


def test_typed_output_is_enforced_with_closed_objects() -> None:
    """Constraints that cannot be enforced go into descriptions."""
    body = encode([make_message_group(0, "Hi")], context=make_turn_context("a", output=json.dumps(SCHEMA)))
    schema = body["output_config"]["format"]["schema"]
    assert body["output_config"]["format"]["type"] == "json_schema"
    assert body["system"] == "You are a."
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Line"]["additionalProperties"] is False
    assert schema["properties"]["id"] == {"type": "string", "description": '(pattern: "^A")'}
    assert schema["properties"]["count"] == {"type": "integer", "description": "How many. (minimum: 1)"}
    assert schema["properties"]["when"] == {"type": "string", "format": "date"}
    assert schema["properties"]["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert schema["required"] == ["id"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array"},
        {},
        {"type": ["string", "null"]},
        {"const": {"a": 1}},
        {"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}}}},
    ],
    ids=["any members", "any items", "anything", "several types", "a constant object", "a circle"],
)
def test_unenforceable_schema_goes_into_the_instructions(schema: dict[str, Any]) -> None:
    body = encode([make_message_group(0, "Hi")], context=make_turn_context("a", output=json.dumps(schema)))
    assert "output_config" not in body
    assert body["system"].startswith("You are a.\n\nReply with nothing but JSON")
    assert json.dumps(schema) in body["system"]


@pytest.mark.parametrize("kind", ["object", None])
def test_properties_of_schemas_keep_their_order(kind: str | None) -> None:
    schema = {"properties": {"why": {"type": "string"}, "answer": {"type": "string"}}, "required": ["why", "answer"]}
    typed = json.dumps({"type": "object", **schema})
    context = TurnContext(
        "a", tools=(ToolSpec("think", parameters=json.dumps({"type": kind, **schema} if kind else schema)),), output=typed
    )
    body = encode([make_message_group(0, "Hello")], context=context)
    assert list(body["tools"][0]["input_schema"]["properties"]) == ["why", "answer"]
    assert list(body["output_config"]["format"]["schema"]["properties"]) == ["why", "answer"]


def test_schema_goes_into_instructions_after_a_refusal() -> None:
    body = encode([make_message_group(0, "Hi")], context=make_turn_context("a", output=json.dumps(SCHEMA)), enforce_output=False)
    assert "output_config" not in body
    assert "Reply with nothing but JSON" in body["system"]


# -- the conversation --------------------------------------------------------------------------------------------------


def test_tool_results_come_before_the_users_text() -> None:
    reply = make_reply(OutputText("Wait."), Call("look", '{"id":"7"}', "toolu_1"), Call("look", "{}", "toolu_2"))
    body = encode([make_message_group(0, "Hi"), make_reply_group(3, "a", reply, ["one", ""]), make_message_group(6, "And?")])
    assert [(message["role"], [block["type"] for block in message["content"]]) for message in body["messages"]] == [
        ("user", ["text"]),
        ("assistant", ["text", "tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result", "text"]),
    ]
    results = [block for _, block in find_blocks(body, "tool_result")]
    assert results[0] == {"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"}
    assert results[1] == {"type": "tool_result", "tool_use_id": "toolu_2"}


@pytest.mark.parametrize("status", ["error", "timeout", "cancelled", "superseded", "stopped"])
def test_failed_call_has_an_error_result(status: str) -> None:
    body = encode([make_message_group(0, "Hi"), make_reply_group(3, "a", make_reply(Call("look", "{}", "c")), ["no"], status)])
    assert find_blocks(body, "tool_result")[0][1]["is_error"] is True


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"b": 1, "a": 1.50}', {"b": 1, "a": 1.5}),
        ("", {}),
        ("{broken", {"_raw": "{broken"}),
        ('["x"]', {"_raw": '["x"]'}),
        ('{"a": NaN}', {"_raw": '{"a": NaN}'}),
    ],
)
def test_arguments_are_replayed_as_written(arguments: str, expected: dict[str, Any]) -> None:
    group = make_reply_group(3, "a", make_reply(Call("look", arguments, "c")))
    encoded = encode_request(make_request(make_turn_context("a"), [make_message_group(0, "Hi"), group]), PLAIN_OPTIONS, "o", stream=False)
    assert find_blocks(decode_body(encoded), "tool_use")[0][1]["input"] == expected
    if "_raw" not in expected and arguments:
        assert arguments.encode() in encoded.body


def test_illegal_and_repeated_ids_are_replaced() -> None:
    groups = [
        make_message_group(0, "Hi"),
        make_reply_group(3, "a", make_reply(Call("look", "{}", "same"))),
        make_reply_group(6, "a", make_reply(Call("look", "{}", "same"))),
        make_reply_group(9, "a", make_reply(Call("look", "{}", "not a legal id!"))),
        make_reply_group(12, "a", make_reply(Call("look", "{}", ""))),
    ]
    body = encode(groups)
    uses = [block["id"] for _, block in find_blocks(body, "tool_use")]
    assert uses == ["same", "call_6_0", "call_9_0", "call_12_0"]
    assert [block["tool_use_id"] for _, block in find_blocks(body, "tool_result")] == uses


def test_blank_texts_are_never_sent() -> None:
    parts = (Text(" "), Text("See"), Text(""))
    body = encode(
        [
            make_message_group(0, parts),
            make_reply_group(3, "a", make_reply(OutputText("\n"), OutputText("Yes"), Refusal("No"))),
            make_message_group(6, "  "),
        ]
    )
    assert [block["text"] for _, block in find_blocks(body)] == ["See", "Yes", "No", MISSING_USER_MESSAGE]


def test_replies_stand_between_user_messages() -> None:
    first, second = (
        make_reply_group(0, "a", make_reply(OutputText("I begin."))),
        make_reply_group(3, "b", make_reply(OutputText("I go on."))),
    )
    body = encode([first, second])
    assert [(role, block["text"]) for role, block in find_blocks(body)] == [
        ("user", MISSING_USER_MESSAGE),
        ("assistant", "I begin."),
        ("user", MISSING_USER_MESSAGE),
        ("assistant", "I go on."),
        ("user", MISSING_USER_MESSAGE),
    ]


def test_an_empty_view_is_still_a_legal_request() -> None:
    assert find_blocks(encode([])) == [("user", {"type": "text", "text": MISSING_USER_MESSAGE})]


def test_reply_without_sendable_content_is_omitted() -> None:
    groups = [
        make_message_group(0, "Hi"),
        make_reply_group(3, "a", make_reply(Reasoning("Hm.", "enc"), origin="responses x gpt-5")),
        make_message_group(6, "Well?"),
    ]
    body = encode(groups)
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert find_losses(groups) == (f"reasoning of a: {OTHER_MODEL_ONLY}",)


# -- pictures and files ------------------------------------------------------------------------------------------------

PNG = Image("image/png", digest="d")
CONTENTS = {"d": b"\x89PNG", "t": "Grüße".encode(), "x": b"\xff\xfe"}


def encode_parts(*parts: Any) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    encoded = encode_request(
        make_request(make_turn_context("a"), [make_message_group(0, parts)], contents=CONTENTS), PLAIN_OPTIONS, "o", stream=False
    )
    assert encoded.violations == ()
    return [block for _, block in find_blocks(decode_body(encoded))], encoded.losses


def test_pictures_and_files_are_encoded_for_the_api() -> None:
    blocks, lost = encode_parts(
        PNG,
        Image(url="https://example.com/a.png"),
        Image(url="data:image/gif;base64,R0lG"),
        File("a.pdf", "application/pdf", digest="d"),
        File("b.pdf", "application/pdf", url="https://example.com/b.pdf"),
        File("c.md", "text/markdown; charset=utf-8", digest="t"),
        File("d.json", "application/json", digest="t"),
    )
    data = base64.b64encode(CONTENTS["d"]).decode()
    assert blocks == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}, "title": "a.pdf"},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/b.pdf"}, "title": "b.pdf"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"}, "title": "c.md"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"}, "title": "d.json"},
    ]
    assert lost == ()


@pytest.mark.parametrize(
    "part",
    [
        Image("image/tiff", digest="d"),
        Image(url="data:image/svg+xml,<svg/>"),
        File("a.zip", "application/zip", digest="d"),
        File("a.txt", "text/plain", digest="x"),
        File("a.csv", "text/csv", url="https://example.com/a.csv"),
    ],
)
def test_unsupported_attachments_become_placeholders_and_losses(part: Any) -> None:
    blocks, lost = encode_parts(part)
    assert blocks[0]["type"] == "text"
    assert "could not be shown" in blocks[0]["text"]
    assert len(lost) == 1


def test_output_may_hold_a_picture() -> None:
    group = make_reply_group(3, "a", make_reply(Call("look", "{}", "c")), [(Text("Here:"), PNG)])
    request = make_request(make_turn_context("a"), [make_message_group(0, "Hi"), group], contents=CONTENTS)
    content = find_blocks(decode_body(encode_request(request, PLAIN_OPTIONS, "o", stream=False)), "tool_result")[0][1]["content"]
    assert [block["type"] for block in content] == ["text", "image"]
