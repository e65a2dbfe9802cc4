"""Cases about the body and the shape of the fields of Chat Completions."""

from __future__ import annotations

from typing import Any

from tests.providers.chat.world import HELLO, ask, call, calls, result, tool
from tests.providers.lawcase import LawCase

LONG = "x" * 65


def error(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


FOUND_CALL = ask(HELLO, calls("call_1"), result("call_1"))

CASES: list[LawCase] = [
    # -- the body
    LawCase(
        "CB1",
        [HELLO],
        error("Invalid type for request body: expected an object, but got an array instead.", code="invalid_type"),
        obeys=ask(),
    ),
    LawCase("CP1", {"messages": [HELLO]}, error("you must provide a model parameter"), obeys=ask()),
    LawCase(
        "C11a",
        {"model": "gpt-4o"},
        error("Missing required parameter: 'messages'.", "messages", "missing_required_parameter"),
        obeys=ask(),
    ),
    LawCase("CP2", ask(zzz=1), error("Unrecognized request argument supplied: zzz"), obeys=ask(seed=1)),
    LawCase(
        "CP2",
        ask(zzz=1),
        error("Unknown parameter: 'zzz'.", "zzz", "unknown_parameter"),
        obeys=ask(seed=1),
        profile={"unknown_parameter": "unknown"},
    ),
    # -- the shape of the fields
    LawCase(
        "C11b",
        {"model": "gpt-4o", "messages": "Where is my order?"},
        error("Invalid type for 'messages': expected an array of objects, but got a string instead.", "messages", "invalid_type"),
        obeys=ask(),
    ),
    LawCase(
        "C11c",
        {"model": "gpt-4o", "messages": []},
        error(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "messages",
            "empty_array",
        ),
        obeys=ask(),
    ),
    LawCase(
        "C10",
        ask({"role": "narrator", "content": "Meanwhile"}),
        error(
            "Invalid value: 'narrator'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
            "messages[0].role",
            "invalid_value",
        ),
        obeys=ask({"role": "developer", "content": "Meanwhile"}),
    ),
    LawCase(
        "CM1",
        ask(HELLO, calls("call_1"), {"role": "tool", "content": "shipped"}),
        error(
            "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
            "messages.[2].tool_call_id",
        ),
        obeys=FOUND_CALL,
    ),
    LawCase(
        "C3",
        ask(HELLO, {"role": "assistant", "content": "Let me see.", "tool_calls": []}),
        error(
            "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "messages[1].tool_calls",
            "empty_array",
        ),
        obeys=ask(HELLO, {"role": "assistant", "content": "Let me see."}),
    ),
    LawCase(
        "C5",
        ask(HELLO, calls("c" * 83), result("c" * 64)),
        error(
            "Invalid 'messages[1].tool_calls[0].id': string too long. "
            "Expected a string with maximum length 64, but got a string with length 83 instead.",
            "messages[1].tool_calls[0].id",
            "string_above_max_length",
        ),
        obeys=ask(HELLO, calls("c" * 64), result("c" * 64)),
    ),
    LawCase(
        "C5",
        ask(HELLO, calls("call_1"), result("c" * 83)),
        error(
            "Invalid 'messages[2].tool_call_id': string too long. "
            "Expected a string with maximum length 64, but got a string with length 83 instead.",
            "messages[2].tool_call_id",
            "string_above_max_length",
        ),
        obeys=FOUND_CALL,
    ),
    LawCase(
        "C6",
        ask(tools=[tool("find order")]),
        error(
            "Invalid 'tools[0].function.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "tools[0].function.name",
            "invalid_value",
        ),
        obeys=ask(tools=[tool("find_order")]),
    ),
    LawCase(
        "C6",
        ask(HELLO, {"role": "assistant", "name": "the desk", "content": "Hello."}),
        error(
            "Invalid 'messages[1].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "messages[1].name",
            "invalid_value",
        ),
        obeys=ask(HELLO, {"role": "assistant", "name": "the_desk", "content": "Hello."}),
    ),
    LawCase(
        "C7",
        ask(HELLO, calls("call_1", tool_calls=[call("call_1", LONG)]), result("call_1")),
        error(
            "Invalid 'messages[1].tool_calls[0].function.name': string too long. "
            "Expected a string with maximum length 64, but got a string with length 65 instead.",
            "messages[1].tool_calls[0].function.name",
            "string_above_max_length",
        ),
        obeys=ask(HELLO, calls("call_1", tool_calls=[call("call_1", LONG[1:])]), result("call_1")),
    ),
    LawCase(
        "C7",
        ask(tools=[tool("x" * 129)]),
        error(
            "Invalid 'tools[0].function.name': string too long. "
            "Expected a string with maximum length 128, but got a string with length 129 instead.",
            "tools[0].function.name",
            "string_above_max_length",
        ),
        obeys=ask(tools=[tool("x" * 128)]),
        profile={"name_limit": 128},
    ),
    LawCase(
        "C8",
        ask(tools=[tool(f"tool_{index}") for index in range(132)]),
        error(
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 132 instead.",
            "tools",
            "array_above_max_length",
        ),
        obeys=ask(tools=[tool(f"tool_{index}") for index in range(128)]),
    ),
    LawCase(
        "CT1",
        ask(tools=[]),
        error(
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "tools",
            "empty_array",
        ),
        obeys=ask(tools=None),
    ),
    LawCase(
        "CS1",
        ask({"content": "Where is my order?"}),
        error("Missing required parameter: 'messages[0].role'.", "messages[0].role", "missing_required_parameter"),
        obeys=ask(),
    ),
    LawCase(
        "CS1",
        ask(tools=[{"type": "function", "name": "find_order"}]),
        error("Missing required parameter: 'tools[0].function'.", "tools[0].function", "missing_required_parameter"),
        obeys=ask(tools=[tool("find_order")]),
    ),
    LawCase(
        "CS2",
        ask(max_tokens=139.75),
        error("Invalid type for 'max_tokens': expected an integer, but got a decimal number instead.", "max_tokens", "invalid_type"),
        obeys=ask(max_tokens=139),
    ),
    LawCase(
        "CS2",
        ask({"role": "user", "content": 7}),
        error(
            "Invalid type for 'messages[0].content': expected one of a string or array of objects, but got an integer instead.",
            "messages[0].content",
            "invalid_type",
        ),
        obeys=ask({"role": "user", "content": [{"type": "text", "text": "7"}]}),
    ),
    LawCase(
        "CS3",
        ask(response_format={"type": "object"}),
        error(
            "Invalid value: 'object'. Supported values are: 'json_object', 'json_schema', and 'text'.",
            "response_format.type",
            "invalid_value",
        ),
        obeys=ask(response_format={"type": "text"}),
    ),
    LawCase(
        "CS4",
        ask(n=0),
        error("Invalid 'n': integer below minimum value. Expected a value >= 1, but got 0 instead.", "n", "integer_below_min_value"),
        obeys=ask(n=1),
    ),
    LawCase(
        "CS5",
        ask(temperature=2.1),
        error(
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.1 instead.",
            "temperature",
            "decimal_above_max_value",
        ),
        obeys=ask(temperature=2),
    ),
    LawCase(
        "CS6",
        ask({"role": "user", "content": []}),
        error(
            "Invalid 'messages[0].content': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "messages[0].content",
            "empty_array",
        ),
        obeys=ask({"role": "user", "content": ""}),
    ),
    LawCase(
        "CS7",
        ask(stop=["a", "b", "c", "d", "e"]),
        error(
            "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 5 instead.",
            "stop",
            "array_above_max_length",
        ),
        obeys=ask(stop=["a", "b", "c", "d"]),
    ),
    LawCase(
        "CS8",
        ask(tools=[tool("")]),
        error(
            "Invalid 'tools[0].function.name': empty string. Expected a string with minimum length 1, but got an empty string instead.",
            "tools[0].function.name",
            "empty_string",
        ),
        obeys=ask(tools=[tool("f")]),
    ),
    LawCase(
        "CS9",
        ask(HELLO | {"mood": "cross"}),
        error("Unknown parameter: 'messages[0].mood'.", "messages[0].mood", "unknown_parameter"),
        obeys=ask(HELLO | {"name": "Mia"}),
        profile={"unknown_members": True},
    ),
]
