"""Test cases of the rules about the body and the shape of the fields of Chat Completions."""

from __future__ import annotations

from typing import Any

from tests.providers.rules.chat.sample_requests import HELLO, make_call, make_call_message, make_request, make_tool, make_tool_message
from tests.providers.rules.rule_cases import RuleCase

LONG_NAME = "x" * 65


def make_error_body(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return the body of an error response."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


ANSWERED_CALL_REQUEST = make_request(HELLO, make_call_message("call_1"), make_tool_message("call_1"))

CASES: list[RuleCase] = [
    # -- the body
    RuleCase(
        "CB1",
        [HELLO],
        make_error_body("Invalid type for request body: expected an object, but got an array instead.", code="invalid_type"),
        legal=make_request(),
    ),
    RuleCase("CP1", {"messages": [HELLO]}, make_error_body("you must provide a model parameter"), legal=make_request()),
    RuleCase(
        "C11a",
        {"model": "gpt-4o"},
        make_error_body("Missing required parameter: 'messages'.", "messages", "missing_required_parameter"),
        legal=make_request(),
    ),
    RuleCase("CP2", make_request(zzz=1), make_error_body("Unrecognized request argument supplied: zzz"), legal=make_request(seed=1)),
    RuleCase(
        "CP2",
        make_request(zzz=1),
        make_error_body("Unknown parameter: 'zzz'.", "zzz", "unknown_parameter"),
        legal=make_request(seed=1),
        switches={"unknown_parameter": "unknown"},
    ),
    # -- the shape of the fields
    RuleCase(
        "C11b",
        {"model": "gpt-4o", "messages": "Where is my order?"},
        make_error_body("Invalid type for 'messages': expected an array of objects, but got a string instead.", "messages", "invalid_type"),
        legal=make_request(),
    ),
    RuleCase(
        "C11c",
        {"model": "gpt-4o", "messages": []},
        make_error_body(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "messages",
            "empty_array",
        ),
        legal=make_request(),
    ),
    RuleCase(
        "C10",
        make_request({"role": "narrator", "content": "Meanwhile"}),
        make_error_body(
            "Invalid value: 'narrator'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
            "messages[0].role",
            "invalid_value",
        ),
        legal=make_request({"role": "developer", "content": "Meanwhile"}),
    ),
    RuleCase(
        "CM1",
        make_request(HELLO, make_call_message("call_1"), {"role": "tool", "content": "shipped"}),
        make_error_body(
            "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
            "messages.[2].tool_call_id",
        ),
        legal=ANSWERED_CALL_REQUEST,
    ),
    RuleCase(
        "C3",
        make_request(HELLO, {"role": "assistant", "content": "Let me see.", "tool_calls": []}),
        make_error_body(
            "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "messages[1].tool_calls",
            "empty_array",
        ),
        legal=make_request(HELLO, {"role": "assistant", "content": "Let me see."}),
    ),
    RuleCase(
        "C5",
        make_request(HELLO, make_call_message("c" * 83), make_tool_message("c" * 64)),
        make_error_body(
            "Invalid 'messages[1].tool_calls[0].id': string too long. "
            "Expected a string with maximum length 64, but got a string with length 83 instead.",
            "messages[1].tool_calls[0].id",
            "string_above_max_length",
        ),
        legal=make_request(HELLO, make_call_message("c" * 64), make_tool_message("c" * 64)),
    ),
    RuleCase(
        "C5",
        make_request(HELLO, make_call_message("call_1"), make_tool_message("c" * 83)),
        make_error_body(
            "Invalid 'messages[2].tool_call_id': string too long. "
            "Expected a string with maximum length 64, but got a string with length 83 instead.",
            "messages[2].tool_call_id",
            "string_above_max_length",
        ),
        legal=ANSWERED_CALL_REQUEST,
    ),
    RuleCase(
        "C6",
        make_request(tools=[make_tool("find order")]),
        make_error_body(
            "Invalid 'tools[0].function.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "tools[0].function.name",
            "invalid_value",
        ),
        legal=make_request(tools=[make_tool("find_order")]),
    ),
    RuleCase(
        "C6",
        make_request(HELLO, {"role": "assistant", "name": "the desk", "content": "Hello."}),
        make_error_body(
            "Invalid 'messages[1].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "messages[1].name",
            "invalid_value",
        ),
        legal=make_request(HELLO, {"role": "assistant", "name": "the_desk", "content": "Hello."}),
    ),
    RuleCase(
        "C7",
        make_request(HELLO, make_call_message("call_1", tool_calls=[make_call("call_1", LONG_NAME)]), make_tool_message("call_1")),
        make_error_body(
            "Invalid 'messages[1].tool_calls[0].function.name': string too long. "
            "Expected a string with maximum length 64, but got a string with length 65 instead.",
            "messages[1].tool_calls[0].function.name",
            "string_above_max_length",
        ),
        legal=make_request(
            HELLO, make_call_message("call_1", tool_calls=[make_call("call_1", LONG_NAME[1:])]), make_tool_message("call_1")
        ),
    ),
    RuleCase(
        "C7",
        make_request(tools=[make_tool("x" * 129)]),
        make_error_body(
            "Invalid 'tools[0].function.name': string too long. "
            "Expected a string with maximum length 128, but got a string with length 129 instead.",
            "tools[0].function.name",
            "string_above_max_length",
        ),
        legal=make_request(tools=[make_tool("x" * 128)]),
        switches={"name_limit": 128},
    ),
    RuleCase(
        "C8",
        make_request(tools=[make_tool(f"tool_{index}") for index in range(132)]),
        make_error_body(
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 132 instead.",
            "tools",
            "array_above_max_length",
        ),
        legal=make_request(tools=[make_tool(f"tool_{index}") for index in range(128)]),
    ),
    RuleCase(
        "CT1",
        make_request(tools=[]),
        make_error_body(
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "tools",
            "empty_array",
        ),
        legal=make_request(tools=None),
    ),
    RuleCase(
        "CS1",
        make_request({"content": "Where is my order?"}),
        make_error_body("Missing required parameter: 'messages[0].role'.", "messages[0].role", "missing_required_parameter"),
        legal=make_request(),
    ),
    RuleCase(
        "CS1",
        make_request(tools=[{"type": "function", "name": "find_order"}]),
        make_error_body("Missing required parameter: 'tools[0].function'.", "tools[0].function", "missing_required_parameter"),
        legal=make_request(tools=[make_tool("find_order")]),
    ),
    RuleCase(
        "CS2",
        make_request(max_tokens=139.75),
        make_error_body(
            "Invalid type for 'max_tokens': expected an integer, but got a decimal number instead.", "max_tokens", "invalid_type"
        ),
        legal=make_request(max_tokens=139),
    ),
    RuleCase(
        "CS2",
        make_request({"role": "user", "content": 7}),
        make_error_body(
            "Invalid type for 'messages[0].content': expected one of a string or array of objects, but got an integer instead.",
            "messages[0].content",
            "invalid_type",
        ),
        legal=make_request({"role": "user", "content": [{"type": "text", "text": "7"}]}),
    ),
    RuleCase(
        "CS3",
        make_request(response_format={"type": "object"}),
        make_error_body(
            "Invalid value: 'object'. Supported values are: 'json_object', 'json_schema', and 'text'.",
            "response_format.type",
            "invalid_value",
        ),
        legal=make_request(response_format={"type": "text"}),
    ),
    RuleCase(
        "CS4",
        make_request(n=0),
        make_error_body(
            "Invalid 'n': integer below minimum value. Expected a value >= 1, but got 0 instead.", "n", "integer_below_min_value"
        ),
        legal=make_request(n=1),
    ),
    RuleCase(
        "CS5",
        make_request(temperature=2.1),
        make_error_body(
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.1 instead.",
            "temperature",
            "decimal_above_max_value",
        ),
        legal=make_request(temperature=2),
    ),
    RuleCase(
        "CS6",
        make_request({"role": "user", "content": []}),
        make_error_body(
            "Invalid 'messages[0].content': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "messages[0].content",
            "empty_array",
        ),
        legal=make_request({"role": "user", "content": ""}),
    ),
    RuleCase(
        "CS7",
        make_request(stop=["a", "b", "c", "d", "e"]),
        make_error_body(
            "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 5 instead.",
            "stop",
            "array_above_max_length",
        ),
        legal=make_request(stop=["a", "b", "c", "d"]),
    ),
    RuleCase(
        "CS8",
        make_request(tools=[make_tool("")]),
        make_error_body(
            "Invalid 'tools[0].function.name': empty string. Expected a string with minimum length 1, but got an empty string instead.",
            "tools[0].function.name",
            "empty_string",
        ),
        legal=make_request(tools=[make_tool("f")]),
    ),
    RuleCase(
        "CS9",
        make_request(HELLO | {"mood": "cross"}),
        make_error_body("Unknown parameter: 'messages[0].mood'.", "messages[0].mood", "unknown_parameter"),
        legal=make_request(HELLO | {"name": "Mia"}),
        switches={"unknown_members": True},
    ),
]
