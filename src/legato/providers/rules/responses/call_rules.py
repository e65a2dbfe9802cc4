"""The rules about calls and their outputs: every call has an output, and every output a call.

They look at the whole input: the stored items of the previous responses or the conversation, then the request's own items. Anything may
stand between a call and its output.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator

from legato.providers.rules.responses.check_order import CALLS, RULES
from legato.providers.rules.responses.error_messages import AS_OF
from legato.providers.rules.responses.request_context import InputEntry, ResponsesContext, as_text
from legato.providers.rules.responses.type_shapes import CALL_TYPE_BY_OUTPUT_TYPE, CALL_TYPE_NAMES
from legato.providers.rules.rule_set import Finding


def _find_unanswered_calls(context: ResponsesContext, call_type: str) -> Iterator[Finding]:
    pairs = context.call_pairs
    for (type, call_id), positions in pairs.calls.items():
        if type == call_type and (type, call_id) not in pairs.outputs and not pairs.may_be_answered(positions[0]):
            path = context.entries[positions[0]].path
            yield Finding(f"No tool output found for {CALL_TYPE_NAMES[type]} {call_id}.", "input", path)


def _output_without_call(entry: InputEntry) -> Finding:
    type_name = CALL_TYPE_NAMES[CALL_TYPE_BY_OUTPUT_TYPE[entry.type]]
    return Finding(f"No tool call found for {type_name} output with call_id {entry.call_id}.", "input", entry.path)


def _find_outputs_without_call(context: ResponsesContext, call_type: str) -> Iterator[Finding]:
    pairs = context.call_pairs
    searches = {entry.call_id for entry in context.entries if entry.type == "tool_search_call"} if call_type == "function_call" else set()
    for (type, call_id), positions in pairs.outputs.items():
        has_call = (type, call_id) in pairs.calls or call_id in searches or pairs.may_be_called(positions[0])
        if type == call_type and not has_call:
            yield _output_without_call(context.entries[positions[0]])


@RULES.rule(
    "T1",
    "Every function call has its output: sent, referenced, or stored in a previous response or the conversation.",
    CALLS,
    grade="A",
    as_of=AS_OF,
)
def every_call_has_its_output(context: ResponsesContext) -> Iterator[Finding]:
    return _find_unanswered_calls(context, "function_call")


@RULES.rule("T2", "Every function call output has its call.", CALLS, grade="A", as_of=AS_OF)
def every_output_has_its_call(context: ResponsesContext) -> Iterator[Finding]:
    return _find_outputs_without_call(context, "function_call")


@RULES.rule("T3", "An output comes after its call.", CALLS, grade="C", as_of=AS_OF)
def an_output_comes_after_its_call(context: ResponsesContext) -> Iterator[Finding]:
    pairs = context.call_pairs
    for key, positions in pairs.outputs.items():
        if key in pairs.calls and positions[0] < pairs.calls[key][0] and not pairs.may_be_called(positions[0]):
            yield _output_without_call(context.entries[positions[0]])


@RULES.rule("T19", "Compaction is not forced between a call and its output.", CALLS, grade="C", as_of=AS_OF)
def no_compaction_between_call_and_output(context: ResponsesContext) -> Iterator[Finding]:
    pairs, triggers = context.call_pairs, context.call_pairs.compaction_triggers
    for key, positions in pairs.outputs.items() if triggers else ():
        if key in pairs.calls and bisect(triggers, pairs.calls[key][0]) < bisect(triggers, positions[0]):
            yield _output_without_call(context.entries[positions[0]])


@RULES.rule("T23", "Every custom tool call has its output.", CALLS, grade="B", as_of=AS_OF)
def every_custom_call_has_its_output(context: ResponsesContext) -> Iterator[Finding]:
    return _find_unanswered_calls(context, "custom_tool_call")


@RULES.rule("T24", "Every custom tool call output has its call.", CALLS, grade="B", as_of=AS_OF)
def every_custom_output_has_its_call(context: ResponsesContext) -> Iterator[Finding]:
    return _find_outputs_without_call(context, "custom_tool_call")


@RULES.rule("T25", "Every call to apply a patch has its output.", CALLS, grade="C", as_of=AS_OF)
def every_patch_has_its_output(context: ResponsesContext) -> Iterator[Finding]:
    return _find_unanswered_calls(context, "apply_patch_call")


@RULES.rule("T5a", "No two calls share a call id.", CALLS, grade="D", as_of=AS_OF, switch="unique_call_ids")
def call_ids_are_unique(context: ResponsesContext) -> Iterator[Finding]:
    for (type, call_id), positions in context.call_pairs.calls.items():
        if len(positions) > 1:
            path = context.entries[positions[1]].path
            yield Finding(f"Multiple {CALL_TYPE_NAMES[type]}s found with call_id {call_id}.", "input", path)


@RULES.rule("T5b", "A call has one output.", CALLS, grade="D", as_of=AS_OF, switch="single_outputs")
def a_call_has_one_output(context: ResponsesContext) -> Iterator[Finding]:
    for (type, call_id), positions in context.call_pairs.outputs.items():
        if len(positions) > 1:
            path = context.entries[positions[1]].path
            yield Finding(f"Multiple tool outputs found for {CALL_TYPE_NAMES[type]} {call_id}.", "input", path)


def _list_functions(context: ResponsesContext) -> Iterator[tuple[str, bool]]:
    """List the request's functions, each with True if it is in the default namespace: at the top level, and not loaded later."""
    loaded = [each.members.get("tools") for each in context.items if each.type in ("additional_tools", "tool_search_output")]
    for tools in (context.get_field("tools"), *loaded):
        for tool in tools if isinstance(tools, list) else ():
            if not isinstance(tool, dict):
                continue
            inner = tool.get("tools")
            if tool.get("type") in ("function", "custom"):
                yield as_text(tool.get("name")), not tool.get("defer_loading")
            elif tool.get("type") == "namespace" and isinstance(inner, list):
                yield from ((as_text(each.get("name")), False) for each in inner if isinstance(each, dict))


@RULES.rule("T32", "A call of a function that exists only in a namespace names the namespace.", CALLS, grade="B", as_of="2026-09")
def a_call_names_its_namespace(context: ResponsesContext) -> Iterator[Finding]:
    calls = [item for item in context.items if item.type == "function_call" and item.members.get("namespace") is None]
    if not calls:
        return
    functions = set(_list_functions(context))
    for item in calls:
        name = as_text(item.members.get("name"))
        if (name, False) in functions and (name, True) not in functions:
            yield Finding(
                f"Missing namespace for function_call '{name}'. It does not exist in the default namespace. "
                "Round-trip the model's function_call item with its namespace field included.",
                f"{item.path}.namespace",
            )


RULES.add_permission("T33", "A client's tool search may be answered with a function call output.", grade="A", as_of=AS_OF, phase=CALLS)
RULES.add_permission("T4", "Anything may stand between a call and its output.", grade="B", as_of=AS_OF, phase=CALLS)
RULES.add_permission("T6", "An output may name its tool instead of a call.", grade="C", as_of=AS_OF, phase=CALLS)
