"""What each type of input item, content part and tool is made of. May know: nothing. Decides: which members are known.

The tables follow the published types (openai 3.49) and what the API was seen to send: whatever it sends it takes back. A row
names the members of one type: `name` is a string, `name:kind` something else, and `!` marks what must be there. Optional
members may be null, which means that they are absent.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

_PROGRESS = ("in_progress", "completed", "incomplete")

VALUES: dict[str, tuple[str, ...]] = {
    "progress": _PROGRESS,
    "finishing": (*_PROGRESS, "failed"),
    "searching": ("in_progress", "searching", "completed", "incomplete", "failed"),
    "drawing": ("in_progress", "completed", "generating", "failed"),
    "running": ("in_progress", "completed", "incomplete", "interpreting", "failed"),
    "calling": ("in_progress", "completed", "incomplete", "calling", "failed"),
    "patching": ("in_progress", "completed"),
    "patched": ("completed", "failed"),
    "phase": ("commentary", "final_answer"),
}

TYPES: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "string": ("a string", str),
    "object": ("an object", dict),
    "array": ("an array", list),
    "objects": ("an array of objects", list),
    "text": ("one of an array of objects or string", (str, list)),
    "boolean": ("a boolean", bool),
    "integer": ("an integer", int),
    "any": ("anything", object),
    **dict.fromkeys(VALUES, ("a string", str)),
}


class Shape(Struct, frozen=True):
    """The members of one type. `closed`: a member that is not here is refused."""

    required: tuple[str, ...] = ()
    kinds: dict[str, str] = {}
    closed: bool = False


def shape(members: str) -> Shape:
    """A row of the table, read.

    >>> shape("call_id! status:progress").required
    ('call_id',)
    """
    required, kinds = [], {"type": "any"}
    for member in members.split():
        name, _, kind = member.partition(":")
        if name.endswith("!"):
            name = name[:-1]
            required.append(name)
        kinds[name] = kind or "string"
    return Shape(tuple(required), kinds, closed=True)


def fits(kind: str, value: Any) -> bool:
    """Whether a value has the type that a kind asks for.

    >>> fits("integer", 3), fits("integer", True)
    (True, False)
    """
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind][1])


OPEN = Shape()  # of a type whose members nobody has published

ITEM_SHAPES: dict[str, Shape] = {
    "message": shape("content!:text role:any id status:progress phase:phase"),
    "function_call": shape("call_id! name! arguments! id status:progress namespace caller:object async:boolean created_by"),
    "function_call_output": shape("output!:text call_id name namespace id status:progress caller:object created_by"),
    "reasoning": shape("summary!:objects id encrypted_content content:array status:progress"),
    "item_reference": shape("id!"),
    "web_search_call": shape("id action:object status:searching"),
    "file_search_call": shape("id queries:array status:searching results:objects"),
    "image_generation_call": shape(
        "id result status:drawing action background error:object output_format quality revised_prompt size svg_usage:object"
    ),
    "code_interpreter_call": shape("id code container_id outputs:objects status:running"),
    "mcp_call": shape("server_label! name! arguments! id approval_request_id error:any output status:calling"),
    "mcp_list_tools": shape("server_label! tools!:objects id error:any"),
    "mcp_approval_request": shape("id server_label! name! arguments!"),
    "mcp_approval_response": shape("approval_request_id! approve!:boolean id reason"),
    "computer_call": shape("call_id! id action:object actions:objects pending_safety_checks:objects status:progress"),
    "computer_call_output": shape("call_id! output!:object id acknowledged_safety_checks:objects status:finishing created_by"),
    "custom_tool_call": shape("call_id! name! input! id status:progress namespace caller:object async:boolean created_by"),
    "custom_tool_call_output": shape("call_id! output!:text id status:progress caller:object created_by"),
    "shell_call": shape("call_id! action!:object id environment:object status:progress caller:object created_by"),
    "shell_call_output": shape("call_id! output!:objects id max_output_length:integer status:progress caller:object created_by"),
    "apply_patch_call": shape("call_id! operation!:object status!:patching id caller:object created_by"),
    "apply_patch_call_output": shape("call_id! status!:patched id output caller:object created_by"),
    "tool_search_call": shape("arguments:any id call_id execution status:progress created_by"),
    "tool_search_output": shape("tools!:objects id call_id execution status:progress created_by"),
    "compaction": shape("encrypted_content! id created_by"),
    "compaction_trigger": shape("id"),
    "additional_tools": shape("tools!:objects role id"),
    "configuration_update": shape("id reasoning:object text:object"),
    "program": shape("id call_id code fingerprint"),
    "program_output": shape("id call_id result status"),
    "agent_message": OPEN,
    "multi_agent_call": OPEN,
    "multi_agent_call_output": OPEN,
}

# What the refusal of an unknown type prints. The list is not what is accepted: `local_shell_call` is on it and refused.
PRINTED_ITEM_TYPES = (
    "additional_tools", "agent_message", "apply_patch_call", "apply_patch_call_output", "code_interpreter_call", "compaction",
    "compaction_trigger", "computer_call", "computer_call_output", "custom_tool_call", "custom_tool_call_output",
    "file_search_call", "function_call", "function_call_output", "image_generation_call", "item_reference", "local_shell_call",
    "local_shell_call_output", "mcp_approval_request", "mcp_approval_response", "mcp_call", "mcp_list_tools", "message",
    "multi_agent_call", "multi_agent_call_output", "program", "program_output", "reasoning", "shell_call", "shell_call_output",
    "tool_search_call", "tool_search_output", "web_search_call",
)  # fmt: skip

# How the ids of a type begin. The first table has been quoted in refusals, the second was only read off accepted requests.
QUOTED_PREFIXES = {"function_call": "fc", "message": "msg", "reasoning": "rs", "web_search_call": "ws", "custom_tool_call": "ctc"}
READ_PREFIXES = {
    "function_call_output": "fc", "shell_call": "sh", "shell_call_output": "sho", "tool_search_call": "tsc",
    "apply_patch_call": "apc", "apply_patch_call_output": "apco", "computer_call": "cu", "mcp_approval_request": "mcpr",
}  # fmt: skip

# What the server calls the kinds of calls that it is known to pair with outputs.
SPOKEN = {"function_call": "function call", "custom_tool_call": "custom tool call", "apply_patch_call": "apply patch call"}
CALL_OF = {f"{kind}_output": kind for kind in SPOKEN}

_PART = "prompt_cache_breakpoint:object"

PART_SHAPES: dict[str, Shape] = {
    "input_text": shape(f"text! {_PART}"),
    "input_image": shape(f"detail file_id image_url {_PART}"),
    "input_file": shape(f"detail file_data file_id file_url filename {_PART}"),
    "input_audio": shape("input_audio!:object"),
    "output_text": shape("text! annotations:objects logprobs:array"),
    "refusal": shape("refusal!"),
}

# What the refusal of an unknown part prints, and what each side of a conversation may send.
PRINTED_PART_TYPES = (
    "input_text", "input_image", "input_audio", "output_text", "refusal", "input_file", "computer_screenshot", "summary_text",
    "encrypted_content",
)  # fmt: skip
ASSISTANT_PARTS = ("output_text", "refusal")
OTHER_PARTS = ("input_text", "input_image", "input_file", "scoped_content", "input_audio")
PART_TYPES = frozenset((*PRINTED_PART_TYPES, *OTHER_PARTS))

TOOL_SHAPES: dict[str, Shape] = {
    "function": shape(
        "name! parameters:object strict:boolean description async:boolean allowed_callers:array defer_loading:boolean "
        "output_schema:object"
    ),
    "custom": shape("name! description format:object async:boolean allowed_callers:array defer_loading:boolean"),
    "namespace": Shape(("name", "tools"), {"name": "string", "description": "string", "tools": "objects"}),
    "mcp": Shape(("server_label",), {"server_label": "string"}),
    "file_search": Shape(("vector_store_ids",), {"vector_store_ids": "array"}),
    "code_interpreter": Shape(("container",)),
    "computer_use_preview": Shape(("display_height", "display_width", "environment")),
} | dict.fromkeys(
    ("apply_patch", "computer", "computer_use", "image_generation", "local_shell", "programmatic_tool_calling", "shell", "tool_search",
     "web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"),
    OPEN,
)  # fmt: skip
