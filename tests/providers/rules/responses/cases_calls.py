"""Test cases of the rules about calls and their outputs."""

from __future__ import annotations

from legato.emulator.fake_models.base import ReplyCall
from tests.providers.rules.responses.sample_requests import (
    FOLLOW_UP,
    TOOL,
    USER_MESSAGE,
    make_call,
    make_case,
    make_output,
    make_permission_case,
    make_reply,
    make_request,
)
from tests.providers.rules.rule_cases import SetupStep

CALL_STEP = SetupStep.respond(make_request(tools=[TOOL]), ReplyCall("look_up", "{}"), save_as="r1")
CUSTOM_CALL = {"type": "custom_tool_call", "call_id": "call_1", "name": "run", "input": "ls"}
CUSTOM_OUTPUT = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "done"}
PATCH_CALL = {
    "type": "apply_patch_call",
    "call_id": "call_1",
    "status": "completed",
    "operation": {"type": "delete_file", "path": "a"},
}
PATCH_OUTPUT = {"type": "apply_patch_call_output", "call_id": "call_1", "status": "completed"}
DEFERRED_TOOL = {**TOOL, "defer_loading": True}
TOOL_SEARCH_CALL = {"type": "tool_search_call", "call_id": "call_9", "execution": "client", "arguments": {}, "status": "completed"}

CASES = [
    make_case(
        "T1",
        make_request([FOLLOW_UP], previous_response_id="{r1.id}"),
        make_request([make_output("{r1.output[0].call_id}"), FOLLOW_UP], previous_response_id="{r1.id}"),
        "No tool output found for function call {r1.output[0].call_id}.",
        "input",
        setup=(CALL_STEP,),
    ),
    make_case(
        "T2",
        make_request([USER_MESSAGE, make_output()]),
        make_request([USER_MESSAGE, make_call(), make_output()]),
        "No tool call found for function call output with call_id call_1.",
        "input",
    ),
    make_case(
        "T3",
        make_request([USER_MESSAGE, make_output(), make_call()]),
        make_request([USER_MESSAGE, make_call(), make_output()]),
        "No tool call found for function call output with call_id call_1.",
        "input",
    ),
    make_permission_case("T4", make_request([USER_MESSAGE, make_call(), make_reply(), FOLLOW_UP, make_output()])),
    make_case(
        "T5a",
        make_request([USER_MESSAGE, make_call(), make_output(), FOLLOW_UP, make_call(), make_output()]),
        make_request([USER_MESSAGE, make_call(), make_output(), FOLLOW_UP, make_call("call_2"), make_output("call_2")]),
        "Multiple function calls found with call_id call_1.",
        "input",
        switches={"unique_call_ids": True},
    ),
    make_case(
        "T5b",
        make_request([USER_MESSAGE, make_call(), make_output(), make_output()]),
        make_request([USER_MESSAGE, make_call(), make_output()]),
        "Multiple tool outputs found for function call call_1.",
        "input",
        switches={"single_outputs": True},
    ),
    make_case(
        "T32",
        make_request([USER_MESSAGE, make_call(), make_output()], tools=[DEFERRED_TOOL]),
        make_request([USER_MESSAGE, make_call(namespace="look_up"), make_output()], tools=[DEFERRED_TOOL]),
        "Missing namespace for function_call 'look_up'. It does not exist in the default namespace. "
        "Round-trip the model's function_call item with its namespace field included.",
        "input[1].namespace",
    ),
    make_permission_case("T33", make_request([USER_MESSAGE, TOOL_SEARCH_CALL, make_output("call_9"), FOLLOW_UP])),
    make_permission_case("T6", make_request([USER_MESSAGE, {"type": "function_call_output", "name": "look_up", "output": "found"}])),
    make_case(
        "T19",
        make_request([USER_MESSAGE, make_call(), {"type": "compaction_trigger"}, make_output()]),
        make_request([USER_MESSAGE, make_call(), make_output(), {"type": "compaction_trigger"}]),
        "No tool call found for function call output with call_id call_1.",
        "input",
    ),
    make_case(
        "T23",
        make_request([USER_MESSAGE, CUSTOM_CALL]),
        make_request([USER_MESSAGE, CUSTOM_CALL, CUSTOM_OUTPUT]),
        "No tool output found for custom tool call call_1.",
        "input",
    ),
    make_case(
        "T24",
        make_request([USER_MESSAGE, CUSTOM_OUTPUT]),
        make_request([USER_MESSAGE, CUSTOM_CALL, CUSTOM_OUTPUT]),
        "No tool call found for custom tool call output with call_id call_1.",
        "input",
    ),
    make_case(
        "T25",
        make_request([USER_MESSAGE, PATCH_CALL]),
        make_request([USER_MESSAGE, PATCH_CALL, PATCH_OUTPUT]),
        "No tool output found for apply patch call call_1.",
        "input",
    ),
]
