"""The error messages of rules that have several. They were seen on the live API unless a comment says otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from legato.providers.rules.responses.key_suggestions import REQUEST_KEYS, compute_edit_distance
from legato.providers.rules.responses.rules import OPENAI, ResponsesRuleSwitches, check_request, render_error_body
from tests.providers.rules.responses.sample_requests import (
    TOOL,
    USER_MESSAGE,
    make_call,
    make_output,
    make_reference,
    make_reply,
    make_request,
)

SHORTENED_VALUES = "'fil...lts', 'web...lts', 'web...ces', 'mes...url', 'com...url', 'cod...uts', 'rea...ent', or 'mes...obs'"
EFFORTS = "'none', 'minimal', 'low', 'medium', 'high', 'xhigh', or 'max'"

ERROR_MESSAGES: list[tuple[dict[str, Any], str, str | None]] = [
    (make_request(sto=1), "Unknown parameter: 'sto'. Did you mean 'store'?", "sto"),
    (make_request(st=1), "Unknown parameter: 'st'.", "st"),
    (make_request(stre=1), "Unknown parameter: 'stre'. Did you mean 'store' or 'stream'?", "stre"),
    (make_request(strem=1), "Unknown parameter: 'strem'. Did you mean 'stream' or 'store'?", "strem"),
    (make_request(inpu=1), "Unknown parameter: 'inpu'.", "inpu"),
    (make_request(modell=1), "Unknown parameter: 'modell'.", "modell"),
    (make_request(max_tokens=16), "Unknown parameter: 'max_tokens'.", "max_tokens"),
    (make_request(temperatur=1), "Unknown parameter: 'temperatur'. Did you mean 'temperature'?", "temperatur"),
    (make_request() | {"model": None}, "Invalid type for 'model': expected a string, but got an object instead.", "model"),
    (
        make_request({"a": 1}),
        "Invalid type for 'input': expected one of a string or array of input items, but got an object instead.",
        "input",
    ),
    (make_request([None]), "Invalid type for 'input[0]': expected an input item, but got null instead.", "input[0]"),
    (make_request([{}]), "Invalid value: ''. Supported values are: 'assistant', 'system', 'developer', and 'user'.", "input[0]"),
    (
        make_request([USER_MESSAGE, {"role": "assistant", "content": {"a": 1}}]),
        "Invalid type for 'input[1].content': expected one of an array of objects or string, but got an object instead.",
        "input[1].content",
    ),
    (
        make_request([USER_MESSAGE, make_call(arguments={"a": 1}), make_output()]),
        "Invalid type for 'input[1].arguments': expected a string, but got an object instead.",
        "input[1].arguments",
    ),
    (make_request([{"type": "reasoning", "id": "rs_1"}]), "Missing required parameter: 'input[0].summary'.", "input[0].summary"),
    (
        make_request([{"type": "reasoning", "summary": ["hm"]}]),
        "Invalid type for 'input[0].summary[0]': expected an object, but got a string instead.",
        "input[0].summary[0]",
    ),
    (make_request(tools=[{}]), "Missing required parameter: 'tools[0].type'.", "tools[0].type"),
    (
        make_request(tools=[{"type": "function", "function": {"name": "look_up"}}]),
        "Missing required parameter: 'tools[0].name'.",
        "tools[0].name",
    ),
    (
        make_request(tool_choice=7),
        "Invalid type for 'tool_choice': expected one of an object or 'none', 'auto', or 'required', but got an integer instead.",
        "tool_choice",
    ),
    (make_request(tools=[TOOL], tool_choice={"type": "function"}), "Missing required parameter: 'tool_choice.name'.", "tool_choice.name"),
    (
        make_request(tool_choice={"type": "function", "name": "look_up"}),
        "Tool choice 'function' not found in 'tools' parameter.",
        "tool_choice",
    ),
    (
        make_request(tools=[TOOL], tool_choice={"type": "image_generation"}),
        "Tool choice 'image_generation' not found in 'tools' parameter.",
        "tool_choice",
    ),
    (
        make_request(include="x"),
        f"Invalid type for 'include': expected an array of one of {SHORTENED_VALUES}, but got a string instead.",
        "include",
    ),
    (make_request(prompt={}), "Missing required parameter: 'prompt.id'.", "prompt.id"),
    (make_request(text={"zzz": 1}), "Unknown parameter: 'text.zzz'.", "text.zzz"),
    (
        make_request(text={"format": {"type": "bogus"}}),
        "Invalid value: 'bogus'. Supported values are: 'json_object', 'text', and 'json_schema'.",
        "text.format.type",
    ),
    (make_request(text={"format": {"type": "json_schema"}}), "Missing required parameter: 'text.format.name'.", "text.format.name"),
    (
        make_request(temperature=2.1),
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.1 instead.",
        "temperature",
    ),
    (
        make_request(truncation={"a": 1}),
        "Invalid type for 'truncation': expected one of 'auto' or 'disabled', but got an object instead.",
        "truncation",
    ),
    (
        make_request(reasoning={"effort": 5}),
        "Invalid type for 'reasoning.effort': expected one of 'minimal', 'low', 'medium', or 'high', but got an integer instead.",
        "reasoning.effort",
    ),
    (
        make_request(reasoning={"effort": ["low"]}),
        f"Invalid type for 'reasoning.effort': expected one of one of {EFFORTS} or integer, but got an array instead.",
        "reasoning.effort",
    ),
    (
        make_request(reasoning={"summary": "bogus"}),
        "Invalid value: 'bogus'. Supported values are: 'concise', 'detailed', and 'auto'.",
        "reasoning.summary",
    ),
    (make_request(stream_options={"bogus": 1}), "Unknown parameter: 'stream_options.bogus'.", "stream_options.bogus"),
    (make_request(metadata={"k": 1}), "Invalid type for 'metadata.k': expected a string, but got an integer instead.", "metadata.k"),
    (
        make_request(max_output_tokens=-(10**5000)),
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got a very large integer instead.",
        "max_output_tokens",
    ),
]


@pytest.mark.parametrize(("request_", "message", "param"), ERROR_MESSAGES, ids=[message[:70] for _, message, _ in ERROR_MESSAGES])
def test_error_messages_are_the_servers(request_: dict[str, Any], message: str, param: str | None) -> None:
    (violation, *_) = check_request(request_)
    assert (violation.message, violation.param) == (message, param)


def test_null_fields_count_as_absent() -> None:
    """Except `model` and `input`."""
    assert check_request({**dict.fromkeys(REQUEST_KEYS), **make_request()}) == []
    assert [violation.rule.id for violation in check_request({"model": None, "input": None})] == ["V33", "N1"]


def test_values_that_errors_do_not_list_are_accepted() -> None:
    assert check_request(make_request(service_tier="scale")) == []
    assert check_request(make_request(tools=[{"type": "web_search_preview"}], tool_choice={"type": "web_search"})) == []
    assert check_request(make_request(tools=[{"type": "mcp", "server_label": "s"}], tool_choice={"type": "mcp", "server_label": "s"})) == []


def test_tool_choice_finds_nested_and_later_tools() -> None:
    choice = {"type": "function", "name": "look_up"}
    namespace = {"type": "namespace", "name": "space", "description": "", "tools": [TOOL]}
    assert check_request(make_request(tools=[namespace], tool_choice=choice)) == []
    assert (
        check_request(make_request([{"type": "additional_tools", "role": "developer", "tools": [TOOL]}, USER_MESSAGE], tool_choice=choice))
        == []
    )


def test_open_object_deep_in_schema_is_found() -> None:
    inner = {"type": "object", "properties": {}}
    schema = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": inner}},
        "required": ["rows"],
        "additionalProperties": False,
    }
    (violation,) = check_request(make_request(tools=[{**TOOL, "strict": True, "parameters": schema}]))
    assert "In context=('properties', 'rows', 'items'), 'additionalProperties'" in violation.message


def test_refused_type_in_the_printed_list() -> None:
    (violation,) = check_request(
        make_request([{"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "action": {}, "status": "completed"}])
    )
    assert violation.message.startswith("Invalid value: 'local_shell_call'. Supported values are: ")


def test_switches_give_azures_status_and_code() -> None:
    """For an item that is not found."""
    azure = ResponsesRuleSwitches(item_not_found_status=400, code_never_null=True)
    request = make_request([USER_MESSAGE, make_reference("rs_1")])
    (violation,) = check_request(request, switches=azure)
    assert violation.status == 400
    assert render_error_body(violation, azure)["error"]["code"] == "invalid_request_error"
    (violation,) = check_request(request, switches=OPENAI)
    assert (violation.status, render_error_body(violation, OPENAI)["error"]["code"]) == (404, None)


def test_unknown_model_may_reason() -> None:
    assert check_request({"model": "gpt-5.5", "input": "Hi", "reasoning": {"effort": "low"}}) == []


@pytest.mark.parametrize("body", ["x", ["x"], 7, None])
def test_body_that_is_no_object_is_refused(body: object) -> None:
    (violation,) = check_request(body)
    assert violation.rule.id == "P0"


def test_violation_text_names_the_path() -> None:
    (violation,) = check_request(make_request([USER_MESSAGE, make_reply(), make_call()]))
    assert str(violation) == "[T1] 400 No tool output found for function call call_1. at input[2]"


def test_tool_name_limit_can_be_lifted() -> None:
    request = make_request(tools=[{**TOOL, "name": "x" * 129}])
    assert [violation.rule.id for violation in check_request(request)] == ["T11"]
    assert check_request(request, switches=ResponsesRuleSwitches(tool_name_limit=0)) == []


def test_at_most_hundred_violations_are_reported() -> None:
    assert len(check_request(make_request([7] * 1000))) == 100


def test_edit_distance_counts_characters() -> None:
    assert [
        compute_edit_distance("stop", "store"),
        compute_edit_distance("", "ab"),
        compute_edit_distance("ab", ""),
        compute_edit_distance("abc", "abc"),
    ] == [2, 2, 2, 0]


def test_failed_status_depends_on_item_type() -> None:
    call = {"type": "computer_call", "call_id": "call_1", "id": "cu_1", "action": {"type": "screenshot"}, "pending_safety_checks": []}
    screenshot = {"type": "computer_screenshot", "image_url": "https://example.com/1.png"}
    output = {"type": "computer_call_output", "call_id": "call_1", "output": screenshot, "status": "failed"}
    assert check_request(make_request([USER_MESSAGE, call, output])) == []
    (violation, *_) = check_request(make_request([USER_MESSAGE, {**call, "status": "failed"}, output]))
    assert violation.message == "Invalid value: 'failed'. Supported values are: 'in_progress', 'completed', and 'incomplete'."
