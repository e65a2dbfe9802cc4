"""The rules about one input item by itself.

They are checked item by item: all of them for the first item before any for the second. The rules about a message's content are in
part_rules.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from legato.providers.rules.responses.check_order import ITEMS, MODEL_AND_INPUT_TYPES, RULES
from legato.providers.rules.responses.error_messages import (
    AS_OF,
    array_too_long,
    empty_string,
    missing_member,
    pattern_mismatch,
    string_too_long,
    unknown_member,
    unsupported_value,
    wrong_type,
)
from legato.providers.rules.responses.request_context import MESSAGE_ROLES, RequestItem, ResponsesContext
from legato.providers.rules.responses.type_shapes import (
    ENUM_VALUES,
    ITEM_SHAPES,
    MEMBER_TYPES,
    OBSERVED_ID_PREFIXES,
    PRINTED_ITEM_TYPES,
    QUOTED_ID_PREFIXES,
    has_member_type,
)
from legato.providers.rules.rule_set import Finding, RuleCheck

MAX_ID_CHARS = 64
NAME_PATTERN = "^[a-zA-Z0-9_-]+$"
NAME = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)
AUDIO_OR_VIDEO_DATA = re.compile(r"data:((?:audio|video)/[\w.+-]+)[;,]", re.ASCII)


def only_types(*names: str) -> Callable[[RuleCheck], RuleCheck]:
    """Limit a rule's function to items of these types."""
    types = frozenset(names)

    def narrow(find: RuleCheck) -> RuleCheck:
        def find_in_types(context: ResponsesContext, item: RequestItem) -> Iterable[Finding]:
            return find(context, item) if item.type in types else ()

        return find_in_types

    return narrow


# -- model and input ---------------------------------------------------------------------------------------------------


@RULES.rule("V33", "`model` is a string.", MODEL_AND_INPUT_TYPES, grade="A", as_of=AS_OF)
def the_model_is_a_string(context: ResponsesContext) -> Iterator[Finding]:
    model = context.request.get("model", "")  # without one, a stored prompt has it
    if model is None:
        model = {}  # here, as for `input`, null is called an object
    if not isinstance(model, str):
        yield wrong_type("model", "a string", model)


@RULES.rule("N1", "`input` is not null.", MODEL_AND_INPUT_TYPES, grade="A", as_of=AS_OF)
def the_input_is_not_null(context: ResponsesContext) -> Iterator[Finding]:
    if "input" in context.request and context.request["input"] is None:
        yield wrong_type("input", "a string", {})


@RULES.rule("N2", "`input` is a string or an array of items.", MODEL_AND_INPUT_TYPES, grade="A", as_of=AS_OF)
def the_input_is_text_or_items(context: ResponsesContext) -> Iterator[Finding]:
    if not isinstance(context.get_field("input"), str | list | None):
        yield wrong_type("input", "one of a string or array of input items", context.get_field("input"))


# -- the type of an item -----------------------------------------------------------------------------------------------


@RULES.rule("N3", "An input item is an object.", ITEMS, grade="A", as_of=AS_OF)
def an_item_is_an_object(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if item.members is not item.raw:
        yield wrong_type(item.path, "an input item", item.raw)


@RULES.rule("N4", "An input item has a known type.", ITEMS, grade="A", as_of=AS_OF)
def an_item_has_a_known_type(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if item.members is item.raw and item.type not in ITEM_SHAPES:
        yield unsupported_value(item.path, item.type, PRINTED_ITEM_TYPES)


@RULES.rule("N5", "A message is from the assistant, the system, a developer or a user.", ITEMS, grade="A", as_of=AS_OF)
@only_types("message")
def a_message_has_a_role(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if item.members.get("role") not in MESSAGE_ROLES:
        yield unsupported_value(item.path, item.members.get("role"), MESSAGE_ROLES)


# -- required members --------------------------------------------------------------------------------------------------


@RULES.rule("N6", "A message has content.", ITEMS, grade="A", as_of=AS_OF)
@only_types("message")
def a_message_has_content(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if "content" not in item.members:
        yield missing_member(f"{item.path}.content")


@RULES.rule("T7", "A function call has a call id, a name and arguments.", ITEMS, grade="A", as_of=AS_OF)
@only_types("function_call")
def a_function_call_has_required_members(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    for name in item.shape.required:
        if name not in item.members:
            yield missing_member(f"{item.path}.{name}")


@RULES.rule("T22", "A function call output names its call or its tool.", ITEMS, grade="D", as_of=AS_OF)
@only_types("function_call_output")
def an_output_names_its_call_or_tool(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if item.members.get("call_id") is None and item.members.get("name") is None:
        yield missing_member(f"{item.path}.call_id")


@RULES.rule("N14", "An item of any other type has the members that its type requires.", ITEMS, grade="C", as_of=AS_OF)
@only_types(*(ITEM_SHAPES.keys() - {"function_call", "message"}))
def other_items_have_required_members(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    for name in item.shape.required:
        if name not in item.members:
            yield missing_member(f"{item.path}.{name}")


# -- unknown members ---------------------------------------------------------------------------------------------------


@RULES.rule("N10", "An item has no unknown members.", ITEMS, grade="A", as_of=AS_OF)
def an_item_has_no_unknown_members(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if item.shape.is_closed and not item.members.keys() <= item.shape.member_types.keys():
        for name in item.members:
            if name not in item.shape.member_types:
                yield unknown_member(f"{item.path}.{name}")


@RULES.rule("N11", "Only an assistant's message has a phase.", ITEMS, grade="A", as_of=AS_OF)
@only_types("message")
def only_the_assistant_has_phases(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if item.members.get("phase") is not None and item.members.get("role") != "assistant":
        yield unknown_member(f"{item.path}.phase")


# Every report of this refusal is about reasoning. Calls are different: Agent Framework sent all of them with `status: null`, and the
# provider refused other things, or nothing.
@RULES.rule("N13", "The status of reasoning is left out rather than null.", ITEMS, grade="C", as_of=AS_OF)
@only_types("reasoning")
def the_status_of_reasoning_is_not_null(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if item.members.get("status", "") is None:
        yield unknown_member(f"{item.path}.status")


# -- the types of members ----------------------------------------------------------------------------------------------


@RULES.rule("N15", "The members of an item have their types.", ITEMS, grade="B", as_of=AS_OF)
def members_have_their_types(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    member_types = item.shape.member_types
    for name, value in item.members.items():
        type = member_types.get(name, "any")
        if type == "any" or (type == "string" and value.__class__ is str):
            continue
        if value is None and name not in item.shape.required:
            continue
        if not has_member_type(type, value):
            yield wrong_type(f"{item.path}.{name}", MEMBER_TYPES[type][0], value)
        elif type == "objects":
            for index, element in enumerate(value):
                if not isinstance(element, dict):
                    yield wrong_type(f"{item.path}.{name}[{index}]", "an object", element)


@RULES.rule("N23", "A file is a document, not audio or video.", ITEMS, grade="A", as_of="2026-04", code="invalid_value")
@only_types("message", "function_call_output", "custom_tool_call_output")
def a_file_is_a_document(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    member = "content" if item.type == "message" else "output"
    parts = item.members.get(member)
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        data = part.get("file_data") if isinstance(part, dict) and part.get("type") == "input_file" else None
        if isinstance(data, str) and (match := AUDIO_OR_VIDEO_DATA.match(data)):
            path = f"{item.path}.{member}[{index}].file_data"
            yield Finding(
                f"Invalid file data: '{path}'. Expected a base64-encoded data URL with a valid file MIME type "
                f"(e.g. 'data:text/plain;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type '{match[1]}'. Please see "
                "https://platform.openai.com/docs/assistants/tools/file-search#supported-files for supported file types.",
                path,
            )


@RULES.rule("N12", "A phase is 'commentary' or 'final_answer'.", ITEMS, grade="A", as_of=AS_OF)
@only_types("message")
def a_phase_is_known(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    phase = item.members.get("phase")
    if isinstance(phase, str) and item.members.get("role") == "assistant" and phase not in ENUM_VALUES["phase"]:
        yield unsupported_value(f"{item.path}.phase", phase, ENUM_VALUES["phase"])


@RULES.rule("N16", "A status is one that the item's type can have.", ITEMS, grade="D", as_of=AS_OF)
def a_status_is_known(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    status = item.members.get("status")
    if isinstance(status, str) and (values := ENUM_VALUES.get(item.shape.member_types.get("status", ""))) and status not in values:
        yield unsupported_value(f"{item.path}.status", status, values)


@RULES.rule("R14", "A reasoning item has no content of its own.", ITEMS, grade="B", as_of=AS_OF)
@only_types("reasoning")
def reasoning_has_no_content(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if isinstance(content := item.members.get("content"), list) and content:
        yield array_too_long(f"{item.path}.content", 0, len(content))


# -- ids and names -----------------------------------------------------------------------------------------------------


@RULES.rule("I11", "An item's id has at most 64 characters.", ITEMS, grade="B", as_of=AS_OF)
def an_id_is_short(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if isinstance(id := item.members.get("id"), str) and len(id) > MAX_ID_CHARS:
        yield string_too_long(f"{item.path}.id", MAX_ID_CHARS, id)


def _find_wrong_prefix(item: RequestItem, prefixes: dict[str, str]) -> Iterator[Finding]:
    id, prefix = item.members.get("id"), prefixes[item.type]
    if isinstance(id, str) and not id.startswith(prefix):
        path = f"{item.path}.id"
        yield Finding(f"Invalid '{path}': '{id}'. Expected an ID that begins with '{prefix}'.", path, code="invalid_value")


@RULES.rule("I9", "An item's id begins with the prefix of its type.", ITEMS, grade="B", as_of=AS_OF)
@only_types(*QUOTED_ID_PREFIXES)
def an_id_has_the_prefix_of_its_type(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    return _find_wrong_prefix(item, QUOTED_ID_PREFIXES)


@RULES.rule("I10", "An item's id begins with its type's prefix, if that was only seen in accepted requests.", ITEMS, grade="C", as_of=AS_OF)
@only_types(*OBSERVED_ID_PREFIXES)
def an_id_has_the_observed_prefix(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    return _find_wrong_prefix(item, OBSERVED_ID_PREFIXES)


@RULES.rule("T8", "A call id has at most 64 characters.", ITEMS, grade="B", as_of=AS_OF)
def a_call_id_is_short(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if isinstance(call := item.members.get("call_id"), str) and len(call) > MAX_ID_CHARS:
        yield string_too_long(f"{item.path}.call_id", MAX_ID_CHARS, call)


@RULES.rule("T20", "A call id is not empty.", ITEMS, grade="B", as_of=AS_OF)
def a_call_id_is_not_empty(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if item.members.get("call_id") == "":
        yield empty_string(f"{item.path}.call_id")


@RULES.rule("T21", "The name in a function call is a tool's name: letters, digits, _ and -.", ITEMS, grade="B", as_of=AS_OF)
@only_types("function_call")
def a_call_has_a_proper_name(context: ResponsesContext, item: RequestItem) -> Iterator[Finding]:
    if isinstance(name := item.members.get("name"), str) and not NAME.fullmatch(name):
        yield pattern_mismatch(f"{item.path}.name", NAME_PATTERN)
