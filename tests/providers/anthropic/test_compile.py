"""What is sent to the Messages API: legal always, the same every time, with as much of the models' thinking as the law allows."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from legato.core.facts import Call, File, Image, Reasoning, Refusal, Text, Words
from legato.core.groups import Group
from legato.core.model_reply import Reply
from legato.core.turn_context import Frame, ToolSpec
from legato.providers.formats.anthropic.compile import MAX_TOKENS, compile_request, judged_options
from legato.providers.formats.anthropic.past import FOREIGN
from legato.providers.formats.options import Options
from legato.providers.formats.parts import STAND_IN
from tests.providers.anthropic.talks import (
    FREE,
    asked,
    blocks_of,
    body_of,
    frame,
    origin_of,
    replied,
    said,
)

PLAIN = Options(model="claude-sonnet-5")


def compiled(groups: list[Group], options: Options = PLAIN, of: Frame | None = None, **how: Any) -> dict[str, Any]:
    return body_of(compile_request(asked(of or frame("a", "look"), groups), options, origin_of(options), stream=False, **how))


def losses(groups: list[Group], options: Options = PLAIN, of: Frame | None = None, **how: Any) -> tuple[str, ...]:
    return compile_request(asked(of or frame("a", "look"), groups), options, origin_of(options), stream=False, **how).losses


def a_reply(*items: Any, **members: Any) -> Reply:
    return Reply(items=items, **members)


# -- frames and settings -----------------------------------------------------------------------------------------------


def test_instructions_are_the_system_and_added_messages_are_the_users_first_words() -> None:
    request = asked(frame("a", messages=("Today is Monday.",)), [said(0, "Hi")], summary="They met.")
    body = body_of(compile_request(request, PLAIN, "o", stream=True))
    assert body["system"] == "You are a."
    assert [block["text"] for _, block in blocks_of(body)] == [
        "Today is Monday.",
        "Summary of the conversation so far:\nThey met.",
        "Hi",
    ]
    assert len(body["messages"]) == 1
    assert body["stream"] is True
    assert body["max_tokens"] == MAX_TOKENS


def test_without_instructions_there_is_no_system() -> None:
    body = compiled([said(0, "Hi")], of=Frame("a"))
    assert "system" not in body
    assert "tools" not in body
    assert "stream" not in body


def test_a_tool_without_a_schema_takes_an_object_and_an_odd_name_is_mapped() -> None:
    request = asked(Frame("a", tools=(ToolSpec("Größe der Wand"), ToolSpec("b", "", '{"properties":{}}'))), [said(0, "Hi")])
    made = compile_request(request, PLAIN, "o", stream=False)
    first, second = body_of(made)["tools"]
    assert first["input_schema"] == {"type": "object"}
    assert second["input_schema"] == {"properties": {}, "type": "object"}
    assert made.tools[first["name"]] == "Größe der Wand"
    assert made.complaints == ()


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"effort": "high"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ({"effort": "minimal"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ({"effort": "none"}, {"thinking": {"type": "disabled"}}),
        ({"thinking_tokens": 2000}, {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": MAX_TOKENS + 2000}),
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
def test_an_option_is_sent_as_the_api_has_it(given: dict[str, Any], sent: dict[str, Any]) -> None:
    options = Options(model="claude-sonnet-5", **given)
    body = compiled([said(0, "Hi")], options)
    assert {name: body[name] for name in sent} == sent
    assert judged_options(options) == ()


@pytest.mark.parametrize(("name", "value"), [("temperature", 0.5), ("top_p", 0.9), ("top_k", 5)])
def test_sampling_is_legal_where_the_model_takes_it(name: str, value: float) -> None:
    given: dict[str, Any] = {"extra": {name: value}} if name == "top_k" else {name: value}
    assert judged_options(Options(model="claude-haiku-4-5", **given)) == ()
    assert [each.clause.id for each in judged_options(Options(model="claude-opus-5-5", **given))] == ["MP6"]


def test_a_tool_that_the_agent_does_not_have_is_not_forced() -> None:
    options = Options(model="claude-sonnet-5", tool_choice="refund")
    assert "tool_choice" not in compiled([said(0, "Hi")], options)
    assert losses([said(0, "Hi")], options) == ("tool_choice of a: it has no tool 'refund'",)


def test_a_forced_tool_turns_thinking_with_a_budget_off() -> None:
    options = Options(model=FREE, tool_choice="required", thinking_tokens=1024)
    assert compiled([said(0, "Hi")], options)["thinking"] == {"type": "disabled"}


def test_tools_of_the_provider_are_declared_beside_ours() -> None:
    search_tool = {"type": "web_search_20260209", "name": "web_search"}
    assert compiled([said(0, "Hi")], Options(model="claude-sonnet-5", hosted=(search_tool,)))["tools"][-1] == search_tool


def test_caching_marks_the_system_and_leaves_the_messages_as_they_are() -> None:
    cached = Options(model="claude-sonnet-5", extra={"cache_control": {"type": "ephemeral"}})
    plain, marked = compiled([said(0, "Hi")]), compiled([said(0, "Hi")], cached)
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


def test_a_typed_output_is_enforced_with_closed_objects_and_what_cannot_be_enforced_is_said() -> None:
    body = compiled([said(0, "Hi")], of=frame("a", output=json.dumps(SCHEMA)))
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
def test_a_schema_that_cannot_be_enforced_is_told_in_the_instructions(schema: dict[str, Any]) -> None:
    body = compiled([said(0, "Hi")], of=frame("a", output=json.dumps(schema)))
    assert "output_config" not in body
    assert body["system"].startswith("You are a.\n\nReply with nothing but JSON")
    assert json.dumps(schema) in body["system"]


@pytest.mark.parametrize("kind", ["object", None])
def test_properties_keep_their_order_in_which_a_model_writes_them(kind: str | None) -> None:
    schema = {"properties": {"why": {"type": "string"}, "answer": {"type": "string"}}, "required": ["why", "answer"]}
    typed = json.dumps({"type": "object", **schema})
    frame = Frame("a", tools=(ToolSpec("think", parameters=json.dumps({"type": kind, **schema} if kind else schema)),), output=typed)
    sent = compiled([said(0, "Hello")], of=frame)
    assert list(sent["tools"][0]["input_schema"]["properties"]) == ["why", "answer"]
    assert list(sent["output_config"]["format"]["schema"]["properties"]) == ["why", "answer"]


def test_after_a_refusal_a_typed_output_is_told_instead() -> None:
    body = compiled([said(0, "Hi")], of=frame("a", output=json.dumps(SCHEMA)), enforce=False)
    assert "output_config" not in body
    assert "Reply with nothing but JSON" in body["system"]


# -- the conversation --------------------------------------------------------------------------------------------------


def test_results_stand_first_in_the_message_after_their_calls_and_the_users_words_follow_in_it() -> None:
    reply = a_reply(Words("Wait."), Call("look", '{"id":"7"}', "toolu_1"), Call("look", "{}", "toolu_2"))
    body = compiled([said(0, "Hi"), replied(3, "a", reply, ["one", ""]), said(6, "And?")])
    assert [(message["role"], [block["type"] for block in message["content"]]) for message in body["messages"]] == [
        ("user", ["text"]),
        ("assistant", ["text", "tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result", "text"]),
    ]
    results = [block for _, block in blocks_of(body, "tool_result")]
    assert results[0] == {"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"}
    assert results[1] == {"type": "tool_result", "tool_use_id": "toolu_2"}


@pytest.mark.parametrize("status", ["error", "timeout", "cancelled", "superseded", "stopped"])
def test_a_call_that_was_not_carried_out_is_marked_as_an_error(status: str) -> None:
    body = compiled([said(0, "Hi"), replied(3, "a", a_reply(Call("look", "{}", "c")), ["no"], status)])
    assert blocks_of(body, "tool_result")[0][1]["is_error"] is True


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"b": 1, "a": 1.50}', {"b": 1, "a": 1.5}),
        ("", {}),
        ("{broken", {"_raw": "{broken"}),
        ('["x"]', {"_raw": '["x"]'}),
        ('{"a": NaN}', {"_raw": '{"a": NaN}'}),
    ],
)
def test_the_model_sees_the_arguments_that_it_wrote(arguments: str, sent: dict[str, Any]) -> None:
    group = replied(3, "a", a_reply(Call("look", arguments, "c")))
    made = compile_request(asked(frame("a"), [said(0, "Hi"), group]), PLAIN, "o", stream=False)
    assert blocks_of(body_of(made), "tool_use")[0][1]["input"] == sent
    if "_raw" not in sent and arguments:
        assert arguments.encode() in made.body


def test_ids_that_the_api_does_not_take_or_that_come_twice_are_replaced_in_call_and_result() -> None:
    groups = [
        said(0, "Hi"),
        replied(3, "a", a_reply(Call("look", "{}", "same"))),
        replied(6, "a", a_reply(Call("look", "{}", "same"))),
        replied(9, "a", a_reply(Call("look", "{}", "not a legal id!"))),
        replied(12, "a", a_reply(Call("look", "{}", ""))),
    ]
    body = compiled(groups)
    uses = [block["id"] for _, block in blocks_of(body, "tool_use")]
    assert uses == ["same", "call_6_0", "call_9_0", "call_12_0"]
    assert [block["tool_use_id"] for _, block in blocks_of(body, "tool_result")] == uses


def test_blank_texts_are_never_sent() -> None:
    parts = (Text(" "), Text("See"), Text(""))
    body = compiled([said(0, parts), replied(3, "a", a_reply(Words("\n"), Words("Yes"), Refusal("No"))), said(6, "  ")])
    assert [block["text"] for _, block in blocks_of(body)] == ["See", "Yes", "No", STAND_IN]


def test_a_reply_always_follows_the_user_and_never_ends_the_conversation() -> None:
    first, second = replied(0, "a", a_reply(Words("I begin."))), replied(3, "b", a_reply(Words("I go on.")))
    body = compiled([first, second])
    assert [(role, block["text"]) for role, block in blocks_of(body)] == [
        ("user", STAND_IN),
        ("assistant", "I begin."),
        ("user", STAND_IN),
        ("assistant", "I go on."),
        ("user", STAND_IN),
    ]


def test_an_empty_view_is_still_a_legal_request() -> None:
    assert blocks_of(compiled([])) == [("user", {"type": "text", "text": STAND_IN})]


def test_a_reply_of_which_nothing_can_be_sent_leaves_no_message() -> None:
    groups = [said(0, "Hi"), replied(3, "a", a_reply(Reasoning("Hm.", "enc"), origin="responses x gpt-5")), said(6, "Well?")]
    body = compiled(groups)
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert losses(groups) == (f"reasoning of a: {FOREIGN}",)


# -- pictures and files ------------------------------------------------------------------------------------------------

PNG = Image("image/png", digest="d")
CONTENTS = {"d": b"\x89PNG", "t": "Grüße".encode(), "x": b"\xff\xfe"}


def parts_sent(*parts: Any) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    made = compile_request(asked(frame("a"), [said(0, parts)], contents=CONTENTS), PLAIN, "o", stream=False)
    assert made.complaints == ()
    return [block for _, block in blocks_of(body_of(made))], made.losses


def test_pictures_and_files_go_as_the_api_has_them() -> None:
    sent, lost = parts_sent(
        PNG,
        Image(url="https://example.com/a.png"),
        Image(url="data:image/gif;base64,R0lG"),
        File("a.pdf", "application/pdf", digest="d"),
        File("b.pdf", "application/pdf", url="https://example.com/b.pdf"),
        File("c.md", "text/markdown; charset=utf-8", digest="t"),
        File("d.json", "application/json", digest="t"),
    )
    data = base64.b64encode(CONTENTS["d"]).decode()
    assert sent == [
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
def test_what_the_api_cannot_be_shown_is_named_in_its_place_and_told_as_a_loss(part: Any) -> None:
    sent, lost = parts_sent(part)
    assert sent[0]["type"] == "text"
    assert "could not be shown" in sent[0]["text"]
    assert len(lost) == 1


def test_an_output_may_be_a_picture() -> None:
    group = replied(3, "a", a_reply(Call("look", "{}", "c")), [(Text("Here:"), PNG)])
    request = asked(frame("a"), [said(0, "Hi"), group], contents=CONTENTS)
    content = blocks_of(body_of(compile_request(request, PLAIN, "o", stream=False)), "tool_result")[0][1]["content"]
    assert [block["type"] for block in content] == ["text", "image"]
