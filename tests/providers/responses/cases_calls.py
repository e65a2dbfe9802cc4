"""Cases about calls and their outputs."""

from __future__ import annotations

from legato.emulator.minds.base import Use
from tests.providers.lawcase import Step
from tests.providers.responses.lawcase import AGAIN, TOOL, USER, allowed, ask, call, output, refused, said

CALLED = Step.respond(ask(tools=[TOOL]), Use("look_up", "{}"), save_as="r1")
CUSTOM = {"type": "custom_tool_call", "call_id": "call_1", "name": "run", "input": "ls"}
CUSTOM_OUTPUT = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "done"}
PATCH = {
    "type": "apply_patch_call",
    "call_id": "call_1",
    "status": "completed",
    "operation": {"type": "delete_file", "path": "a"},
}
PATCHED = {"type": "apply_patch_call_output", "call_id": "call_1", "status": "completed"}
LATER = {**TOOL, "defer_loading": True}
SEARCH = {"type": "tool_search_call", "call_id": "call_9", "execution": "client", "arguments": {}, "status": "completed"}

CASES = [
    refused(
        "T1",
        ask([AGAIN], previous_response_id="{r1.id}"),
        ask([output("{r1.output[0].call_id}"), AGAIN], previous_response_id="{r1.id}"),
        "No tool output found for function call {r1.output[0].call_id}.",
        "input",
        setup=(CALLED,),
    ),
    refused(
        "T2",
        ask([USER, output()]),
        ask([USER, call(), output()]),
        "No tool call found for function call output with call_id call_1.",
        "input",
    ),
    refused(
        "T3",
        ask([USER, output(), call()]),
        ask([USER, call(), output()]),
        "No tool call found for function call output with call_id call_1.",
        "input",
    ),
    allowed("T4", ask([USER, call(), said(), AGAIN, output()])),
    refused(
        "T5a",
        ask([USER, call(), output(), AGAIN, call(), output()]),
        ask([USER, call(), output(), AGAIN, call("call_2"), output("call_2")]),
        "Multiple function calls found with call_id call_1.",
        "input",
        profile={"unique_call_ids": True},
    ),
    refused(
        "T5b",
        ask([USER, call(), output(), output()]),
        ask([USER, call(), output()]),
        "Multiple tool outputs found for function call call_1.",
        "input",
        profile={"single_outputs": True},
    ),
    refused(
        "T32",
        ask([USER, call(), output()], tools=[LATER]),
        ask([USER, call(namespace="look_up"), output()], tools=[LATER]),
        "Missing namespace for function_call 'look_up'. It does not exist in the default namespace. "
        "Round-trip the model's function_call item with its namespace field included.",
        "input[1].namespace",
    ),
    allowed("T33", ask([USER, SEARCH, output("call_9"), AGAIN])),
    allowed("T6", ask([USER, {"type": "function_call_output", "name": "look_up", "output": "found"}])),
    refused(
        "T19",
        ask([USER, call(), {"type": "compaction_trigger"}, output()]),
        ask([USER, call(), output(), {"type": "compaction_trigger"}]),
        "No tool call found for function call output with call_id call_1.",
        "input",
    ),
    refused("T23", ask([USER, CUSTOM]), ask([USER, CUSTOM, CUSTOM_OUTPUT]), "No tool output found for custom tool call call_1.", "input"),
    refused(
        "T24",
        ask([USER, CUSTOM_OUTPUT]),
        ask([USER, CUSTOM, CUSTOM_OUTPUT]),
        "No tool call found for custom tool call output with call_id call_1.",
        "input",
    ),
    refused("T25", ask([USER, PATCH]), ask([USER, PATCH, PATCHED]), "No tool output found for apply patch call call_1.", "input"),
]
