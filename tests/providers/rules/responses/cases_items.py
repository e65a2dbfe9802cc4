"""Test cases of the rules about one input item by itself."""

from __future__ import annotations

from typing import Any

from tests.providers.rules.responses.sample_requests import (
    FOLLOW_UP,
    USER_MESSAGE,
    drop_fields,
    make_call,
    make_case,
    make_output,
    make_permission_case,
    make_reply,
    make_request,
)

ITEM_TYPES = (
    "'additional_tools', 'agent_message', 'apply_patch_call', 'apply_patch_call_output', 'code_interpreter_call', 'compaction', "
    "'compaction_trigger', 'computer_call', 'computer_call_output', 'custom_tool_call', 'custom_tool_call_output', "
    "'file_search_call', 'function_call', 'function_call_output', 'image_generation_call', 'item_reference', 'local_shell_call', "
    "'local_shell_call_output', 'mcp_approval_request', 'mcp_approval_response', 'mcp_call', 'mcp_list_tools', 'message', "
    "'multi_agent_call', 'multi_agent_call_output', 'program', 'program_output', 'reasoning', 'shell_call', 'shell_call_output', "
    "'tool_search_call', 'tool_search_output', and 'web_search_call'"
)
PART_TYPES = (
    "'input_text', 'input_image', 'input_audio', 'output_text', 'refusal', 'input_file', 'computer_screenshot', 'summary_text', "
    "and 'encrypted_content'"
)
LONG_ID = "x" * 70
SHELL_CALL = {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls"]}}


def make_message_request(*parts: Any) -> dict[str, Any]:
    """Return a request with a user message of these parts."""
    return make_request([{"role": "user", "content": list(parts)}])


FILE_PART = {"type": "input_file", "filename": "notes"}

CASES = [
    make_case(
        "V33",
        make_request() | {"model": 7},
        make_request(),
        "Invalid type for 'model': expected a string, but got an integer instead.",
        "model",
        "invalid_type",
    ),
    make_case(
        "N1",
        make_request(None),
        make_request(),
        "Invalid type for 'input': expected a string, but got an object instead.",
        "input",
        "invalid_type",
    ),
    make_case(
        "N2",
        make_request(7),
        make_request("7"),
        "Invalid type for 'input': expected one of a string or array of input items, but got an integer instead.",
        "input",
        "invalid_type",
    ),
    make_case(
        "N3",
        make_request([USER_MESSAGE, 7]),
        make_request([USER_MESSAGE, FOLLOW_UP]),
        "Invalid type for 'input[1]': expected an input item, but got an integer instead.",
        "input[1]",
        "invalid_type",
    ),
    make_case(
        "N4",
        make_request([{"type": "bogus_item"}]),
        make_request([{"type": "message", **USER_MESSAGE}]),
        f"Invalid value: 'bogus_item'. Supported values are: {ITEM_TYPES}.",
        "input[0]",
        "invalid_value",
    ),
    make_case(
        "N5",
        make_request([USER_MESSAGE, {"role": "tool", "content": "found"}]),
        make_request([USER_MESSAGE, {"role": "developer", "content": "found"}]),
        "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
        "input[1]",
        "invalid_value",
    ),
    make_case(
        "N6",
        make_request([{"role": "user"}]),
        make_request([USER_MESSAGE]),
        "Missing required parameter: 'input[0].content'.",
        "input[0].content",
        "missing_required_parameter",
    ),
    make_case(
        "N7",
        make_request([make_reply([{"type": "input_text", "text": "yes"}]), USER_MESSAGE]),
        make_request([make_reply([{"type": "output_text", "text": "yes"}]), USER_MESSAGE]),
        "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
        "input[0].content[0]",
        "invalid_value",
    ),
    make_case(
        "N8",
        make_message_request({"type": "output_text", "text": "hello"}),
        make_message_request({"type": "input_text", "text": "hello"}),
        "Invalid value: 'output_text'. Supported values are: 'input_text', 'input_image', 'input_file', 'scoped_content', "
        "and 'input_audio'.",
        "input[0].content[0]",
        "invalid_value",
    ),
    make_case(
        "N9",
        make_message_request({"type": "text", "text": "hello"}),
        make_message_request({"type": "input_text", "text": "hello"}),
        f"Invalid value: 'text'. Supported values are: {PART_TYPES}.",
        "input[0].content[0].type",
        "invalid_value",
    ),
    make_case(
        "N10",
        make_request([{**USER_MESSAGE, "bogus": 1}]),
        make_request([{**USER_MESSAGE, "status": "completed"}]),
        "Unknown parameter: 'input[0].bogus'.",
        "input[0].bogus",
        "unknown_parameter",
    ),
    make_case(
        "N11",
        make_request([{**USER_MESSAGE, "phase": "final_answer"}]),
        make_request([make_reply(phase="final_answer"), USER_MESSAGE]),
        "Unknown parameter: 'input[0].phase'.",
        "input[0].phase",
        "unknown_parameter",
    ),
    make_case(
        "N12",
        make_request([make_reply(phase="bogus"), USER_MESSAGE]),
        make_request([make_reply(phase="commentary"), USER_MESSAGE]),
        "Invalid value: 'bogus'. Supported values are: 'commentary' and 'final_answer'.",
        "input[0].phase",
        "invalid_value",
    ),
    make_case(
        "N13",
        make_request([USER_MESSAGE, {"type": "reasoning", "summary": [], "status": None}, make_reply(), FOLLOW_UP]),
        make_request([USER_MESSAGE, {"type": "reasoning", "summary": []}, make_reply(), FOLLOW_UP]),
        "Unknown parameter: 'input[1].status'.",
        "input[1].status",
        "unknown_parameter",
    ),
    make_case(
        "N14",
        make_request([USER_MESSAGE, make_call(), drop_fields(make_output(), "output")]),
        make_request([USER_MESSAGE, make_call(), make_output()]),
        "Missing required parameter: 'input[2].output'.",
        "input[2].output",
        "missing_required_parameter",
    ),
    make_case(
        "N15",
        make_request([{"role": "user", "content": None}]),
        make_request([{"role": "user", "content": ""}]),
        "Invalid type for 'input[0].content': expected one of an array of objects or string, but got null instead.",
        "input[0].content",
        "invalid_type",
    ),
    make_case(
        "N16",
        make_request([USER_MESSAGE, make_call(status="done"), make_output()]),
        make_request([USER_MESSAGE, make_call(status="completed"), make_output()]),
        "Invalid value: 'done'. Supported values are: 'in_progress', 'completed', and 'incomplete'.",
        "input[1].status",
        "invalid_value",
    ),
    make_case(
        "N17",
        make_message_request({"type": "input_text", "text": "hello", "bogus": 1}),
        make_message_request({"type": "input_text", "text": "hello"}),
        "Unknown parameter: 'input[0].content[0].bogus'.",
        "input[0].content[0].bogus",
        "unknown_parameter",
    ),
    make_case(
        "N18",
        make_message_request({"type": "input_text"}),
        make_message_request({"type": "input_text", "text": ""}),
        "Missing required parameter: 'input[0].content[0].text'.",
        "input[0].content[0].text",
        "missing_required_parameter",
    ),
    make_case(
        "N19",
        make_message_request({"type": "input_text", "text": 7}),
        make_message_request({"type": "input_text", "text": "7"}),
        "Invalid type for 'input[0].content[0].text': expected a string, but got an integer instead.",
        "input[0].content[0].text",
        "invalid_type",
    ),
    make_case(
        "N20",
        make_message_request("hello"),
        make_message_request({"type": "input_text", "text": "hello"}),
        "Invalid type for 'input[0].content[0]': expected an object, but got a string instead.",
        "input[0].content[0]",
        "invalid_type",
    ),
    make_permission_case(
        "N21",
        make_request(
            [
                USER_MESSAGE,
                {"role": "system", "content": "be brief"},
                make_reply(),
                {"type": "message", "role": "developer", "content": "be kind", "id": "msg_mine", "status": "completed"},
            ]
        ),
    ),
    make_case(
        "T7",
        make_request([USER_MESSAGE, drop_fields(make_call(), "arguments"), make_output()]),
        make_request([USER_MESSAGE, make_call(), make_output()]),
        "Missing required parameter: 'input[1].arguments'.",
        "input[1].arguments",
        "missing_required_parameter",
    ),
    make_case(
        "T8",
        make_request([USER_MESSAGE, make_call(LONG_ID), make_output("call_1")]),
        make_request([USER_MESSAGE, make_call(), make_output()]),
        "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64, but got a string with length 70 instead.",
        "input[1].call_id",
        "string_above_max_length",
    ),
    make_case(
        "T20",
        make_request([USER_MESSAGE, make_call(""), make_output("call_1")]),
        make_request([USER_MESSAGE, make_call(), make_output()]),
        "Invalid 'input[1].call_id': empty string. Expected a string with minimum length 1, but got an empty string instead.",
        "input[1].call_id",
        "empty_string",
    ),
    make_case(
        "T21",
        make_request([USER_MESSAGE, make_call(name="look.up"), make_output()]),
        make_request([USER_MESSAGE, make_call(name="look_up"), make_output()]),
        "Invalid 'input[1].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        "input[1].name",
        "invalid_value",
    ),
    make_case(
        "T22",
        make_request([USER_MESSAGE, make_call(), drop_fields(make_output(), "call_id")]),
        make_request([USER_MESSAGE, make_call(), make_output()]),
        "Missing required parameter: 'input[2].call_id'.",
        "input[2].call_id",
        "missing_required_parameter",
    ),
    make_case(
        "I9",
        make_request([USER_MESSAGE, make_call(id="__fake_id__"), make_output()]),
        make_request([USER_MESSAGE, make_call(id="fc_mine"), make_output()]),
        "Invalid 'input[1].id': '__fake_id__'. Expected an ID that begins with 'fc'.",
        "input[1].id",
        "invalid_value",
    ),
    make_case(
        "I10",
        make_request([USER_MESSAGE, {**SHELL_CALL, "id": "fc_1"}]),
        make_request([USER_MESSAGE, {**SHELL_CALL, "id": "sh_1"}]),
        "Invalid 'input[1].id': 'fc_1'. Expected an ID that begins with 'sh'.",
        "input[1].id",
        "invalid_value",
    ),
    make_case(
        "I11",
        make_request([USER_MESSAGE, make_reply(id=f"msg_{LONG_ID}"), FOLLOW_UP]),
        make_request([USER_MESSAGE, make_reply(id="msg_mine"), FOLLOW_UP]),
        "Invalid 'input[1].id': string too long. Expected a string with maximum length 64, but got a string with length 74 instead.",
        "input[1].id",
        "string_above_max_length",
    ),
    make_case(
        "R14",
        make_request(
            [
                USER_MESSAGE,
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
                make_reply(),
                FOLLOW_UP,
            ]
        ),
        make_request([USER_MESSAGE, {"type": "reasoning", "summary": [], "content": []}, make_reply(), FOLLOW_UP]),
        "Invalid 'input[1].content': array too long. Expected an array with maximum length 0, but got an array with length 1 instead.",
        "input[1].content",
        "array_above_max_length",
    ),
    make_case(
        "N23",
        make_request([{"role": "user", "content": [{**FILE_PART, "file_data": "data:audio/mpeg;base64,SUQz"}]}]),
        make_request([{"role": "user", "content": [{**FILE_PART, "file_data": "data:text/plain;base64,SGVsbG8="}]}]),
        "Invalid file data: 'input[0].content[0].file_data'. Expected a base64-encoded data URL with a valid file MIME type "
        "(e.g. 'data:text/plain;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type 'audio/mpeg'. Please see "
        "https://platform.openai.com/docs/assistants/tools/file-search#supported-files for supported file types.",
        "input[0].content[0].file_data",
        "invalid_value",
    ),
    make_case(
        "N24",
        make_request([{"role": "user", "content": [{**FILE_PART, "file_url": "https://example.com/song.mp3"}]}]),
        make_request([{"role": "user", "content": [{**FILE_PART, "file_url": "https://example.com/song.pdf"}]}]),
        "The file type you uploaded is not supported. Please try again with a pdf",
        "input",
        "unsupported_file",
    ),
]
