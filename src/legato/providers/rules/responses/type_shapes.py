"""The members of each type of input item, content part and tool.

The tables follow the published types (openai 3.49) and what the API was seen to send: it accepts everything that it sends. A row names
the members of one type: `name` is a string, `name:type` something else, and `!` marks a required member. Optional members may be null,
which means that they are absent.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

_STATUSES = ("in_progress", "completed", "incomplete")

ENUM_VALUES: dict[str, tuple[str, ...]] = {  # member types that are one of some strings
    "item_status": _STATUSES,
    "output_status": (*_STATUSES, "failed"),
    "search_status": ("in_progress", "searching", "completed", "incomplete", "failed"),
    "image_status": ("in_progress", "completed", "generating", "failed"),
    "code_status": ("in_progress", "completed", "incomplete", "interpreting", "failed"),
    "mcp_status": ("in_progress", "completed", "incomplete", "calling", "failed"),
    "patch_status": ("in_progress", "completed"),
    "patch_output_status": ("completed", "failed"),
    "phase": ("commentary", "final_answer"),
}

MEMBER_TYPES: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "string": ("a string", str),
    "object": ("an object", dict),
    "array": ("an array", list),
    "objects": ("an array of objects", list),
    "text": ("one of an array of objects or string", (str, list)),
    "boolean": ("a boolean", bool),
    "integer": ("an integer", int),
    "any": ("anything", object),
    **dict.fromkeys(ENUM_VALUES, ("a string", str)),
}
"""The types that rows may name: OpenAI's words for each, and the Python types."""


class TypeShape(Struct, frozen=True):
    """The members of one type."""

    required: tuple[str, ...] = ()
    member_types: dict[str, str] = {}
    is_closed: bool = False  # True: a member that is not here is refused


def parse_shape(members: str) -> TypeShape:
    """Return the shape that a row of the table describes.

    >>> parse_shape("call_id! status:item_status").required
    ('call_id',)
    """
    required, member_types = [], {"type": "any"}
    for member in members.split():
        name, _, type = member.partition(":")
        if name.endswith("!"):
            name = name[:-1]
            required.append(name)
        member_types[name] = type or "string"
    return TypeShape(tuple(required), member_types, is_closed=True)


def has_member_type(member_type: str, value: Any) -> bool:
    """Return True if a value has the type that the tables call `member_type`.

    >>> has_member_type("integer", 3), has_member_type("integer", True)
    (True, False)
    """
    if member_type == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, MEMBER_TYPES[member_type][1])


OPEN_SHAPE = TypeShape()  # of a type whose members are not published

ITEM_SHAPES: dict[str, TypeShape] = {
    "message": parse_shape("content!:text role:any id status:item_status phase:phase"),
    "function_call": parse_shape("call_id! name! arguments! id status:item_status namespace caller:object async:boolean created_by"),
    "function_call_output": parse_shape("output!:text call_id name namespace id status:item_status caller:object created_by"),
    "reasoning": parse_shape("summary!:objects id encrypted_content content:array status:item_status"),
    "item_reference": parse_shape("id!"),
    "web_search_call": parse_shape("id action:object status:search_status"),
    "file_search_call": parse_shape("id queries:array status:search_status results:objects"),
    "image_generation_call": parse_shape(
        "id result status:image_status action background error:object output_format quality revised_prompt size svg_usage:object"
    ),
    "code_interpreter_call": parse_shape("id code container_id outputs:objects status:code_status"),
    "mcp_call": parse_shape("server_label! name! arguments! id approval_request_id error:any output status:mcp_status"),
    "mcp_list_tools": parse_shape("server_label! tools!:objects id error:any"),
    "mcp_approval_request": parse_shape("id server_label! name! arguments!"),
    "mcp_approval_response": parse_shape("approval_request_id! approve!:boolean id reason"),
    "computer_call": parse_shape("call_id! id action:object actions:objects pending_safety_checks:objects status:item_status"),
    "computer_call_output": parse_shape("call_id! output!:object id acknowledged_safety_checks:objects status:output_status created_by"),
    "custom_tool_call": parse_shape("call_id! name! input! id status:item_status namespace caller:object async:boolean created_by"),
    "custom_tool_call_output": parse_shape("call_id! output!:text id status:item_status caller:object created_by"),
    "shell_call": parse_shape("call_id! action!:object id environment:object status:item_status caller:object created_by"),
    "shell_call_output": parse_shape("call_id! output!:objects id max_output_length:integer status:item_status caller:object created_by"),
    "apply_patch_call": parse_shape("call_id! operation!:object status!:patch_status id caller:object created_by"),
    "apply_patch_call_output": parse_shape("call_id! status!:patch_output_status id output caller:object created_by"),
    "tool_search_call": parse_shape("arguments:any id call_id execution status:item_status created_by"),
    "tool_search_output": parse_shape("tools!:objects id call_id execution status:item_status created_by"),
    "compaction": parse_shape("encrypted_content! id created_by"),
    "compaction_trigger": parse_shape("id"),
    "additional_tools": parse_shape("tools!:objects role id"),
    "configuration_update": parse_shape("id reasoning:object text:object"),
    "program": parse_shape("id call_id code fingerprint"),
    "program_output": parse_shape("id call_id result status"),
    "agent_message": OPEN_SHAPE,
    "multi_agent_call": OPEN_SHAPE,
    "multi_agent_call_output": OPEN_SHAPE,
}

# The list in the refusal of an unknown type. It is not what is accepted: `local_shell_call` is on it and refused.
PRINTED_ITEM_TYPES = (
    "additional_tools", "agent_message", "apply_patch_call", "apply_patch_call_output", "code_interpreter_call", "compaction",
    "compaction_trigger", "computer_call", "computer_call_output", "custom_tool_call", "custom_tool_call_output",
    "file_search_call", "function_call", "function_call_output", "image_generation_call", "item_reference", "local_shell_call",
    "local_shell_call_output", "mcp_approval_request", "mcp_approval_response", "mcp_call", "mcp_list_tools", "message",
    "multi_agent_call", "multi_agent_call_output", "program", "program_output", "reasoning", "shell_call", "shell_call_output",
    "tool_search_call", "tool_search_output", "web_search_call",
)  # fmt: skip

# The prefixes of the ids of each type. Refusals quoted those of the first table; those of the second were only seen in accepted requests.
QUOTED_ID_PREFIXES = {"function_call": "fc", "message": "msg", "reasoning": "rs", "web_search_call": "ws", "custom_tool_call": "ctc"}
OBSERVED_ID_PREFIXES = {
    "function_call_output": "fc", "shell_call": "sh", "shell_call_output": "sho", "tool_search_call": "tsc",
    "apply_patch_call": "apc", "apply_patch_call_output": "apco", "computer_call": "cu", "mcp_approval_request": "mcpr",
}  # fmt: skip

# The types of calls that the server is known to pair with outputs, and its names for them.
CALL_TYPE_NAMES = {"function_call": "function call", "custom_tool_call": "custom tool call", "apply_patch_call": "apply patch call"}
CALL_TYPE_BY_OUTPUT_TYPE = {f"{type}_output": type for type in CALL_TYPE_NAMES}

_CACHE_BREAKPOINT = "prompt_cache_breakpoint:object"

PART_SHAPES: dict[str, TypeShape] = {
    "input_text": parse_shape(f"text! {_CACHE_BREAKPOINT}"),
    "input_image": parse_shape(f"detail file_id image_url {_CACHE_BREAKPOINT}"),
    "input_file": parse_shape(f"detail file_data file_id file_url filename {_CACHE_BREAKPOINT}"),
    "input_audio": parse_shape("input_audio!:object"),
    "output_text": parse_shape("text! annotations:objects logprobs:array"),
    "refusal": parse_shape("refusal!"),
}

# The list in the refusal of an unknown part, and the types that each side of a conversation may send.
PRINTED_PART_TYPES = (
    "input_text", "input_image", "input_audio", "output_text", "refusal", "input_file", "computer_screenshot", "summary_text",
    "encrypted_content",
)  # fmt: skip
ASSISTANT_PART_TYPES = ("output_text", "refusal")
INPUT_PART_TYPES = ("input_text", "input_image", "input_file", "scoped_content", "input_audio")
PART_TYPES = frozenset((*PRINTED_PART_TYPES, *INPUT_PART_TYPES))

TOOL_SHAPES: dict[str, TypeShape] = {
    "function": parse_shape(
        "name! parameters:object strict:boolean description async:boolean allowed_callers:array defer_loading:boolean "
        "output_schema:object"
    ),
    "custom": parse_shape("name! description format:object async:boolean allowed_callers:array defer_loading:boolean"),
    "namespace": TypeShape(("name", "tools"), {"name": "string", "description": "string", "tools": "objects"}),
    "mcp": TypeShape(("server_label",), {"server_label": "string"}),
    "file_search": TypeShape(("vector_store_ids",), {"vector_store_ids": "array"}),
    "code_interpreter": TypeShape(("container",)),
    "computer_use_preview": TypeShape(("display_height", "display_width", "environment")),
} | dict.fromkeys(
    ("apply_patch", "computer", "computer_use", "image_generation", "local_shell", "programmatic_tool_calling", "shell", "tool_search",
     "web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"),
    OPEN_SHAPE,
)  # fmt: skip
