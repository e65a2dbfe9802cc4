"""Items of the Responses API as the provider stores them: their ids, their stored form and their text."""

from __future__ import annotations

from typing import Any

from legato.emulator.ids import IdGenerator
from legato.emulator.lenient_json import as_object, as_objects, as_string, encode_json_or_empty
from legato.emulator.tokens import MESSAGE_OVERHEAD_TOKENS, count_tokens
from legato.providers.rules.responses.request_context import infer_item_type

ID_PREFIXES = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "function_call_output": "fc_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctc_",
    "web_search_call": "ws_",
    "file_search_call": "fs_",
    "image_generation_call": "ig_",
    "code_interpreter_call": "ci_",
    "computer_call": "cu_",
    "computer_call_output": "cuo_",
    "mcp_call": "mcp_",
    "mcp_list_tools": "mcpl_",
    "mcp_approval_request": "mcpr_",
    "mcp_approval_response": "mcpa_",
    "shell_call": "sh_",
    "shell_call_output": "sho_",
    "apply_patch_call": "apc_",
    "apply_patch_call_output": "apco_",
    "tool_search_call": "tsc_",
    "tool_search_output": "tso_",
    "compaction": "cmp_",
}
CALL_TEXT_MEMBERS = {"function_call": "arguments", "custom_tool_call": "input"}  # the member with a call's arguments or input, by type
OUTPUT_TYPES = ("function_call_output", "custom_tool_call_output")

_TYPES_WITH_STATUS = {*CALL_TEXT_MEMBERS, *OUTPUT_TYPES, "message", "computer_call_output", "shell_call", "shell_call_output"}
_PART_DEFAULTS: dict[str, dict[str, Any]] = {"output_text": {"annotations": [], "logprobs": []}, "input_image": {"detail": "auto"}}
_PART_PLACEHOLDERS = {"input_image": "[image]", "input_file": "[file]", "input_audio": "[audio]", "computer_screenshot": "[screenshot]"}


class ItemIdGenerator:
    """A generator of the ids of one response and its items. Like the provider's, they share their first digits and contain the time."""

    def __init__(self, ids: IdGenerator, now: float) -> None:
        head = ids.make_hex_id("", 16)
        self._ids = IdGenerator(head)
        self._shared_digits = f"{head}00{int(now) & 0xFFFFFFFF:08x}"

    def make_id(self, prefix: str) -> str:
        """Return an id of fifty hexadecimal digits."""
        return prefix + self._shared_digits + self._ids.make_hex_id("", 24)

    def make_item_id(self, item_type: str) -> str:
        """Return an id for an item of this type."""
        return self.make_id(ID_PREFIXES.get(item_type, "item_"))

    def make_call_id(self) -> str:
        """Return an id for a tool call."""
        return self._ids.make_alphanumeric_id("call_", 24)

    def make_characters(self, length: int) -> str:
        """Return random letters and digits."""
        return "".join(self._ids.make_alphanumeric_id("", 64) for _ in range(-(-length // 64)))[:length]


def list_input_items(request_input: Any) -> list[dict[str, Any]]:
    """Return a request's `input` as items. A text becomes a user message."""
    if isinstance(request_input, str):
        return [{"role": "user", "content": request_input}] if request_input else []
    return [item for item in as_objects(request_input) if item]


def to_stored_item(item: dict[str, Any], ids: ItemIdGenerator) -> dict[str, Any]:
    """Return an item as the provider stores and lists it: with an id, a type and a status, and a message's content in parts."""
    item_type = infer_item_type(item)
    rest = {key: value for key, value in item.items() if key not in ("id", "type")}
    stored = {"id": as_string(item.get("id")) or ids.make_item_id(item_type), "type": item_type, **rest}
    if item_type in _TYPES_WITH_STATUS and not as_string(stored.get("status")):
        stored["status"] = "completed"
    if item_type == "message":
        stored["content"] = _to_parts(stored.get("content"), by_assistant=stored.get("role") == "assistant")
    if item_type in OUTPUT_TYPES and isinstance(stored.get("output"), list):
        stored["output"] = _to_parts(stored["output"], by_assistant=False)
    if item_type == "shell_call":
        stored = {
            "environment": None,
            **stored,
            "action": {"timeout_ms": None, "max_output_length": None, **as_object(stored.get("action"))},
        }
    return stored


def _to_parts(content: Any, *, by_assistant: bool) -> list[dict[str, Any]]:
    if isinstance(content, str):
        content = [{"type": "output_text" if by_assistant else "input_text", "text": content}]
    return [{**_PART_DEFAULTS.get(as_string(part.get("type")), {}), **part} for part in as_objects(content)]


def to_text(content: Any) -> str:
    """Return the text of a message's content or a tool's output, with placeholders for parts without text."""
    if isinstance(content, str):
        return content
    return "\n".join(_part_to_text(part) for part in as_objects(content))


def _part_to_text(part: dict[str, Any]) -> str:
    return as_string(part.get("text")) or as_string(part.get("refusal")) or _PART_PLACEHOLDERS.get(as_string(part.get("type")), "")


def count_item_tokens(items: list[dict[str, Any]]) -> int:
    """Count the tokens that the model reads for these items. Reasoning is not read again."""
    return sum(MESSAGE_OVERHEAD_TOKENS + count_tokens(_item_to_text(item)) for item in items if infer_item_type(item) != "reasoning")


def _item_to_text(item: dict[str, Any]) -> str:
    item_type = infer_item_type(item)
    if item_type == "message":
        return to_text(item.get("content"))
    if item_type in CALL_TEXT_MEMBERS:
        return f"{as_string(item.get('name'))} {as_string(item.get(CALL_TEXT_MEMBERS[item_type]))}"
    if item_type in OUTPUT_TYPES:
        return to_text(item.get("output"))
    return encode_json_or_empty(as_object(item))
