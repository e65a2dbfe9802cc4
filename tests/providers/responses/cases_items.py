"""Cases about the items of the input, taken one by one."""

from __future__ import annotations

from typing import Any

from tests.providers.responses.lawcase import AGAIN, USER, allowed, ask, call, output, refused, said, without

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
LONG = "x" * 70
SHELL = {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls"]}}


def of(*parts: Any) -> dict[str, Any]:
    return ask([{"role": "user", "content": list(parts)}])


FILE = {"type": "input_file", "filename": "notes"}

CASES = [
    refused(
        "V33",
        ask() | {"model": 7},
        ask(),
        "Invalid type for 'model': expected a string, but got an integer instead.",
        "model",
        "invalid_type",
    ),
    refused("N1", ask(None), ask(), "Invalid type for 'input': expected a string, but got an object instead.", "input", "invalid_type"),
    refused(
        "N2",
        ask(7),
        ask("7"),
        "Invalid type for 'input': expected one of a string or array of input items, but got an integer instead.",
        "input",
        "invalid_type",
    ),
    refused(
        "N3",
        ask([USER, 7]),
        ask([USER, AGAIN]),
        "Invalid type for 'input[1]': expected an input item, but got an integer instead.",
        "input[1]",
        "invalid_type",
    ),
    refused(
        "N4",
        ask([{"type": "bogus_item"}]),
        ask([{"type": "message", **USER}]),
        f"Invalid value: 'bogus_item'. Supported values are: {ITEM_TYPES}.",
        "input[0]",
        "invalid_value",
    ),
    refused(
        "N5",
        ask([USER, {"role": "tool", "content": "found"}]),
        ask([USER, {"role": "developer", "content": "found"}]),
        "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
        "input[1]",
        "invalid_value",
    ),
    refused(
        "N6",
        ask([{"role": "user"}]),
        ask([USER]),
        "Missing required parameter: 'input[0].content'.",
        "input[0].content",
        "missing_required_parameter",
    ),
    refused(
        "N7",
        ask([said([{"type": "input_text", "text": "yes"}]), USER]),
        ask([said([{"type": "output_text", "text": "yes"}]), USER]),
        "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
        "input[0].content[0]",
        "invalid_value",
    ),
    refused(
        "N8",
        of({"type": "output_text", "text": "hello"}),
        of({"type": "input_text", "text": "hello"}),
        "Invalid value: 'output_text'. Supported values are: 'input_text', 'input_image', 'input_file', 'scoped_content', "
        "and 'input_audio'.",
        "input[0].content[0]",
        "invalid_value",
    ),
    refused(
        "N9",
        of({"type": "text", "text": "hello"}),
        of({"type": "input_text", "text": "hello"}),
        f"Invalid value: 'text'. Supported values are: {PART_TYPES}.",
        "input[0].content[0].type",
        "invalid_value",
    ),
    refused(
        "N10",
        ask([{**USER, "bogus": 1}]),
        ask([{**USER, "status": "completed"}]),
        "Unknown parameter: 'input[0].bogus'.",
        "input[0].bogus",
        "unknown_parameter",
    ),
    refused(
        "N11",
        ask([{**USER, "phase": "final_answer"}]),
        ask([said(phase="final_answer"), USER]),
        "Unknown parameter: 'input[0].phase'.",
        "input[0].phase",
        "unknown_parameter",
    ),
    refused(
        "N12",
        ask([said(phase="bogus"), USER]),
        ask([said(phase="commentary"), USER]),
        "Invalid value: 'bogus'. Supported values are: 'commentary' and 'final_answer'.",
        "input[0].phase",
        "invalid_value",
    ),
    refused(
        "N13",
        ask([USER, {"type": "reasoning", "summary": [], "status": None}, said(), AGAIN]),
        ask([USER, {"type": "reasoning", "summary": []}, said(), AGAIN]),
        "Unknown parameter: 'input[1].status'.",
        "input[1].status",
        "unknown_parameter",
    ),
    refused(
        "N14",
        ask([USER, call(), without(output(), "output")]),
        ask([USER, call(), output()]),
        "Missing required parameter: 'input[2].output'.",
        "input[2].output",
        "missing_required_parameter",
    ),
    refused(
        "N15",
        ask([{"role": "user", "content": None}]),
        ask([{"role": "user", "content": ""}]),
        "Invalid type for 'input[0].content': expected one of an array of objects or string, but got null instead.",
        "input[0].content",
        "invalid_type",
    ),
    refused(
        "N16",
        ask([USER, call(status="done"), output()]),
        ask([USER, call(status="completed"), output()]),
        "Invalid value: 'done'. Supported values are: 'in_progress', 'completed', and 'incomplete'.",
        "input[1].status",
        "invalid_value",
    ),
    refused(
        "N17",
        of({"type": "input_text", "text": "hello", "bogus": 1}),
        of({"type": "input_text", "text": "hello"}),
        "Unknown parameter: 'input[0].content[0].bogus'.",
        "input[0].content[0].bogus",
        "unknown_parameter",
    ),
    refused(
        "N18",
        of({"type": "input_text"}),
        of({"type": "input_text", "text": ""}),
        "Missing required parameter: 'input[0].content[0].text'.",
        "input[0].content[0].text",
        "missing_required_parameter",
    ),
    refused(
        "N19",
        of({"type": "input_text", "text": 7}),
        of({"type": "input_text", "text": "7"}),
        "Invalid type for 'input[0].content[0].text': expected a string, but got an integer instead.",
        "input[0].content[0].text",
        "invalid_type",
    ),
    refused(
        "N20",
        of("hello"),
        of({"type": "input_text", "text": "hello"}),
        "Invalid type for 'input[0].content[0]': expected an object, but got a string instead.",
        "input[0].content[0]",
        "invalid_type",
    ),
    allowed(
        "N21",
        ask(
            [
                USER,
                {"role": "system", "content": "be brief"},
                said(),
                {"type": "message", "role": "developer", "content": "be kind", "id": "msg_mine", "status": "completed"},
            ]
        ),
    ),
    refused(
        "T7",
        ask([USER, without(call(), "arguments"), output()]),
        ask([USER, call(), output()]),
        "Missing required parameter: 'input[1].arguments'.",
        "input[1].arguments",
        "missing_required_parameter",
    ),
    refused(
        "T8",
        ask([USER, call(LONG), output("call_1")]),
        ask([USER, call(), output()]),
        "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64, but got a string with length 70 instead.",
        "input[1].call_id",
        "string_above_max_length",
    ),
    refused(
        "T20",
        ask([USER, call(""), output("call_1")]),
        ask([USER, call(), output()]),
        "Invalid 'input[1].call_id': empty string. Expected a string with minimum length 1, but got an empty string instead.",
        "input[1].call_id",
        "empty_string",
    ),
    refused(
        "T21",
        ask([USER, call(name="look.up"), output()]),
        ask([USER, call(name="look_up"), output()]),
        "Invalid 'input[1].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        "input[1].name",
        "invalid_value",
    ),
    refused(
        "T22",
        ask([USER, call(), without(output(), "call_id")]),
        ask([USER, call(), output()]),
        "Missing required parameter: 'input[2].call_id'.",
        "input[2].call_id",
        "missing_required_parameter",
    ),
    refused(
        "I9",
        ask([USER, call(id="__fake_id__"), output()]),
        ask([USER, call(id="fc_mine"), output()]),
        "Invalid 'input[1].id': '__fake_id__'. Expected an ID that begins with 'fc'.",
        "input[1].id",
        "invalid_value",
    ),
    refused(
        "I10",
        ask([USER, {**SHELL, "id": "fc_1"}]),
        ask([USER, {**SHELL, "id": "sh_1"}]),
        "Invalid 'input[1].id': 'fc_1'. Expected an ID that begins with 'sh'.",
        "input[1].id",
        "invalid_value",
    ),
    refused(
        "I11",
        ask([USER, said(id=f"msg_{LONG}"), AGAIN]),
        ask([USER, said(id="msg_mine"), AGAIN]),
        "Invalid 'input[1].id': string too long. Expected a string with maximum length 64, but got a string with length 74 instead.",
        "input[1].id",
        "string_above_max_length",
    ),
    refused(
        "R14",
        ask([USER, {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}, said(), AGAIN]),
        ask([USER, {"type": "reasoning", "summary": [], "content": []}, said(), AGAIN]),
        "Invalid 'input[1].content': array too long. Expected an array with maximum length 0, but got an array with length 1 instead.",
        "input[1].content",
        "array_above_max_length",
    ),
    refused(
        "N23",
        ask([{"role": "user", "content": [{**FILE, "file_data": "data:audio/mpeg;base64,SUQz"}]}]),
        ask([{"role": "user", "content": [{**FILE, "file_data": "data:text/plain;base64,SGVsbG8="}]}]),
        "Invalid file data: 'input[0].content[0].file_data'. Expected a base64-encoded data URL with a valid file MIME type "
        "(e.g. 'data:text/plain;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type 'audio/mpeg'. Please see "
        "https://platform.openai.com/docs/assistants/tools/file-search#supported-files for supported file types.",
        "input[0].content[0].file_data",
        "invalid_value",
    ),
    refused(
        "N24",
        ask([{"role": "user", "content": [{**FILE, "file_url": "https://example.com/song.mp3"}]}]),
        ask([{"role": "user", "content": [{**FILE, "file_url": "https://example.com/song.pdf"}]}]),
        "The file type you uploaded is not supported. Please try again with a pdf",
        "input",
        "unsupported_file",
    ),
]
