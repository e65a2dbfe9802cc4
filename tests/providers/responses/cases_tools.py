"""Cases about tools and the choice among them."""

from __future__ import annotations

from typing import Any

from tests.providers.responses.lawcase import TOOL, ask, refused, without

TYPES = (
    "'apply_patch', 'code_interpreter', 'computer', 'computer_use', 'computer_use_preview', 'custom', 'file_search', 'function', "
    "'image_generation', 'local_shell', 'mcp', 'namespace', 'programmatic_tool_calling', 'shell', 'tool_search', 'web_search', "
    "'web_search_2025_08_26', 'web_search_preview', and 'web_search_preview_2025_03_11'"
)
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def strict(parameters: dict[str, Any]) -> dict[str, Any]:
    return ask(tools=[{**TOOL, "strict": True, "parameters": parameters}])


CASES = [
    refused(
        "V5",
        ask(tools="look_up"),
        ask(tools=[TOOL]),
        "Invalid type for 'tools': expected an array of tools, but got a string instead.",
        "tools",
        "invalid_type",
    ),
    refused(
        "T16",
        ask(tools=[{**TOOL, "name": f"tool_{number}"} for number in range(129)]),
        ask(tools=[{**TOOL, "name": f"tool_{number}"} for number in range(128)]),
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129 instead.",
        "tools",
        "array_above_max_length",
    ),
    refused(
        "T17",
        ask(tools=[TOOL, TOOL]),
        ask(tools=[TOOL, {**TOOL, "name": "look_down"}]),
        "Invalid 'tools[1].name': another tool is already named 'look_up'.",
        "tools[1].name",
        "invalid_value",
        profile={"unique_tool_names": True},
    ),
    refused(
        "T26",
        ask(tools=[{"type": "bogus"}]),
        ask(tools=[{"type": "web_search"}]),
        f"Invalid value: 'bogus'. Supported values are: {TYPES}.",
        "tools[0].type",
        "invalid_value",
    ),
    refused(
        "T12",
        ask(tools=[without(TOOL, "name")]),
        ask(tools=[TOOL]),
        "Missing required parameter: 'tools[0].name'.",
        "tools[0].name",
        "missing_required_parameter",
    ),
    refused(
        "T30",
        ask(tools=[{"type": "mcp", "server_url": "https://example.com"}]),
        ask(tools=[{"type": "mcp", "server_url": "https://example.com", "server_label": "docs"}]),
        "Missing required parameter: 'tools[0].server_label'.",
        "tools[0].server_label",
        "missing_required_parameter",
    ),
    refused(
        "T29",
        ask(tools=[{**TOOL, "strict": "yes"}]),
        ask(tools=[{**TOOL, "strict": False}]),
        "Invalid type for 'tools[0].strict': expected a boolean, but got a string instead.",
        "tools[0].strict",
        "invalid_type",
    ),
    refused(
        "T27",
        ask(tools=[{**TOOL, "bogus": 1}]),
        ask(tools=[{**TOOL, "description": "one"}]),
        "Unknown parameter: 'tools[0].bogus'.",
        "tools[0].bogus",
        "unknown_parameter",
    ),
    refused(
        "T10",
        ask(tools=[{**TOOL, "name": ""}]),
        ask(tools=[TOOL]),
        "Invalid 'tools[0].name': empty string. Expected a string with minimum length 1, but got an empty string instead.",
        "tools[0].name",
        "empty_string",
    ),
    refused(
        "T9",
        ask(tools=[{**TOOL, "name": "look.up"}]),
        ask(tools=[{**TOOL, "name": "look-up_2"}]),
        "Invalid 'tools[0].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        "tools[0].name",
        "invalid_value",
    ),
    refused(
        "T11",
        ask(tools=[{**TOOL, "name": "x" * 65}]),
        ask(tools=[{**TOOL, "name": "x" * 64}]),
        "Invalid 'tools[0].name': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.",
        "tools[0].name",
        "string_above_max_length",
        profile={"tool_name_limit": 64},
    ),
    refused(
        "T31",
        ask(tools=[{**TOOL, "parameters": {"type": "array"}}]),
        ask(tools=[{**TOOL, "parameters": {"type": "object", "properties": {}}}]),
        "Invalid schema for function 'look_up': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'.",
        "tools[0].parameters",
        "invalid_function_parameters",
    ),
    refused(
        "T15",
        strict(without(CLOSED, "additionalProperties")),
        strict(CLOSED),
        "Invalid schema for function 'look_up': In context=(), 'additionalProperties' is required to be supplied and to be false.",
        "tools[0].parameters",
        "invalid_function_parameters",
    ),
    refused(
        "T28",
        strict(without(CLOSED, "required")),
        strict(CLOSED),
        "Invalid schema for function 'look_up': In context=(), 'required' is required to be supplied and to be an array including "
        "every key in properties. Missing 'a'.",
        "tools[0].parameters",
        "invalid_function_parameters",
    ),
    refused(
        "V6",
        ask(tools=[TOOL], tool_choice="bogus"),
        ask(tools=[TOOL], tool_choice="auto"),
        "Invalid value: 'bogus'. Supported values are: 'none', 'auto', and 'required'.",
        "tool_choice",
        "invalid_value",
    ),
    refused(
        "T13",
        ask(tools=[TOOL], tool_choice={"type": "function", "name": "look_down"}),
        ask(tools=[TOOL], tool_choice={"type": "function", "name": "look_up"}),
        "Tool choice 'look_down' not found in 'tools' parameter.",
        "tool_choice",
    ),
    refused(
        "T14",
        ask(tool_choice="required"),
        ask(tools=[TOOL], tool_choice="required"),
        "Tool choice 'required' must be specified with 'tools' parameter.",
        "tool_choice",
    ),
]
