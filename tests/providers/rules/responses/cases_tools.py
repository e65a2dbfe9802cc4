"""Test cases of the rules about tools and the choice among them."""

from __future__ import annotations

from typing import Any

from tests.providers.rules.responses.sample_requests import TOOL, drop_fields, make_case, make_request

TOOL_TYPES = (
    "'apply_patch', 'code_interpreter', 'computer', 'computer_use', 'computer_use_preview', 'custom', 'file_search', 'function', "
    "'image_generation', 'local_shell', 'mcp', 'namespace', 'programmatic_tool_calling', 'shell', 'tool_search', 'web_search', "
    "'web_search_2025_08_26', 'web_search_preview', and 'web_search_preview_2025_03_11'"
)
CLOSED_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def make_strict_request(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return a request with a strict function."""
    return make_request(tools=[{**TOOL, "strict": True, "parameters": parameters}])


CASES = [
    make_case(
        "V5",
        make_request(tools="look_up"),
        make_request(tools=[TOOL]),
        "Invalid type for 'tools': expected an array of tools, but got a string instead.",
        "tools",
        "invalid_type",
    ),
    make_case(
        "T16",
        make_request(tools=[{**TOOL, "name": f"tool_{number}"} for number in range(129)]),
        make_request(tools=[{**TOOL, "name": f"tool_{number}"} for number in range(128)]),
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129 instead.",
        "tools",
        "array_above_max_length",
    ),
    make_case(
        "T17",
        make_request(tools=[TOOL, TOOL]),
        make_request(tools=[TOOL, {**TOOL, "name": "look_down"}]),
        "Invalid 'tools[1].name': another tool is already named 'look_up'.",
        "tools[1].name",
        "invalid_value",
        switches={"unique_tool_names": True},
    ),
    make_case(
        "T26",
        make_request(tools=[{"type": "bogus"}]),
        make_request(tools=[{"type": "web_search"}]),
        f"Invalid value: 'bogus'. Supported values are: {TOOL_TYPES}.",
        "tools[0].type",
        "invalid_value",
    ),
    make_case(
        "T12",
        make_request(tools=[drop_fields(TOOL, "name")]),
        make_request(tools=[TOOL]),
        "Missing required parameter: 'tools[0].name'.",
        "tools[0].name",
        "missing_required_parameter",
    ),
    make_case(
        "T30",
        make_request(tools=[{"type": "mcp", "server_url": "https://example.com"}]),
        make_request(tools=[{"type": "mcp", "server_url": "https://example.com", "server_label": "docs"}]),
        "Missing required parameter: 'tools[0].server_label'.",
        "tools[0].server_label",
        "missing_required_parameter",
    ),
    make_case(
        "T29",
        make_request(tools=[{**TOOL, "strict": "yes"}]),
        make_request(tools=[{**TOOL, "strict": False}]),
        "Invalid type for 'tools[0].strict': expected a boolean, but got a string instead.",
        "tools[0].strict",
        "invalid_type",
    ),
    make_case(
        "T27",
        make_request(tools=[{**TOOL, "bogus": 1}]),
        make_request(tools=[{**TOOL, "description": "one"}]),
        "Unknown parameter: 'tools[0].bogus'.",
        "tools[0].bogus",
        "unknown_parameter",
    ),
    make_case(
        "T10",
        make_request(tools=[{**TOOL, "name": ""}]),
        make_request(tools=[TOOL]),
        "Invalid 'tools[0].name': empty string. Expected a string with minimum length 1, but got an empty string instead.",
        "tools[0].name",
        "empty_string",
    ),
    make_case(
        "T9",
        make_request(tools=[{**TOOL, "name": "look.up"}]),
        make_request(tools=[{**TOOL, "name": "look-up_2"}]),
        "Invalid 'tools[0].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        "tools[0].name",
        "invalid_value",
    ),
    make_case(
        "T11",
        make_request(tools=[{**TOOL, "name": "x" * 65}]),
        make_request(tools=[{**TOOL, "name": "x" * 64}]),
        "Invalid 'tools[0].name': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.",
        "tools[0].name",
        "string_above_max_length",
        switches={"tool_name_limit": 64},
    ),
    make_case(
        "T31",
        make_request(tools=[{**TOOL, "parameters": {"type": "array"}}]),
        make_request(tools=[{**TOOL, "parameters": {"type": "object", "properties": {}}}]),
        "Invalid schema for function 'look_up': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'.",
        "tools[0].parameters",
        "invalid_function_parameters",
    ),
    make_case(
        "T15",
        make_strict_request(drop_fields(CLOSED_SCHEMA, "additionalProperties")),
        make_strict_request(CLOSED_SCHEMA),
        "Invalid schema for function 'look_up': In context=(), 'additionalProperties' is required to be supplied and to be false.",
        "tools[0].parameters",
        "invalid_function_parameters",
    ),
    make_case(
        "T28",
        make_strict_request(drop_fields(CLOSED_SCHEMA, "required")),
        make_strict_request(CLOSED_SCHEMA),
        "Invalid schema for function 'look_up': In context=(), 'required' is required to be supplied and to be an array including "
        "every key in properties. Missing 'a'.",
        "tools[0].parameters",
        "invalid_function_parameters",
    ),
    make_case(
        "V6",
        make_request(tools=[TOOL], tool_choice="bogus"),
        make_request(tools=[TOOL], tool_choice="auto"),
        "Invalid value: 'bogus'. Supported values are: 'none', 'auto', and 'required'.",
        "tool_choice",
        "invalid_value",
    ),
    make_case(
        "T13",
        make_request(tools=[TOOL], tool_choice={"type": "function", "name": "look_down"}),
        make_request(tools=[TOOL], tool_choice={"type": "function", "name": "look_up"}),
        "Tool choice 'look_down' not found in 'tools' parameter.",
        "tool_choice",
    ),
    make_case(
        "T14",
        make_request(tool_choice="required"),
        make_request(tools=[TOOL], tool_choice="required"),
        "Tool choice 'required' must be specified with 'tools' parameter.",
        "tool_choice",
    ),
]
