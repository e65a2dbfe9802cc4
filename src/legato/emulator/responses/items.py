"""Items of a conversation as the provider keeps them. May know: item types. Decides: an item's id, its stored form and its text."""

from __future__ import annotations

from typing import Any

from legato.emulator.ids import Ids
from legato.emulator.loose import as_text, mapping, mappings, string
from legato.emulator.tokens import PER_MESSAGE, count
from legato.providers.rules.responses.case import type_of

PREFIXES = {
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
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}  # and where they keep what the tool is called with
OUTPUTS = ("function_call_output", "custom_tool_call_output")

_WITH_STATUS = {*CALLS, *OUTPUTS, "message", "computer_call_output", "shell_call", "shell_call_output"}
_UNSAID_IN_PART: dict[str, dict[str, Any]] = {"output_text": {"annotations": [], "logprobs": []}, "input_image": {"detail": "auto"}}
_STAND_INS = {"input_image": "[image]", "input_file": "[file]", "input_audio": "[audio]", "computer_screenshot": "[screenshot]"}


class ItemIds:
    """The ids of one response and its items. As the provider's do, they share their first digits and carry the second."""

    def __init__(self, ids: Ids, now: float) -> None:
        head = ids.hex("", 16)
        self._ids = Ids(head)
        self._shared = f"{head}00{int(now) & 0xFFFFFFFF:08x}"

    def new(self, prefix: str) -> str:
        """An id of fifty hexadecimal digits."""
        return prefix + self._shared + self._ids.hex("", 24)

    def of(self, kind: str) -> str:
        """An id for an item of this type."""
        return self.new(PREFIXES.get(kind, "item_"))

    def call(self) -> str:
        """An id for a tool call."""
        return self._ids.word("call_", 24)

    def letters(self, length: int) -> str:
        """So many random letters and digits."""
        return "".join(self._ids.word("", 64) for _ in range(-(-length // 64)))[:length]


def input_items(given: Any) -> list[dict[str, Any]]:
    """The request's input as items: a text is a user's message."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}] if given else []
    return [item for item in mappings(given) if item]


def stored_form(item: dict[str, Any], ids: ItemIds) -> dict[str, Any]:
    """An item as it is kept and listed: with an id, a type and a status, a message's content in parts."""
    kind = type_of(item)
    rest = {key: value for key, value in item.items() if key not in ("id", "type")}
    kept = {"id": string(item.get("id")) or ids.of(kind), "type": kind, **rest}
    if kind in _WITH_STATUS and not string(kept.get("status")):
        kept["status"] = "completed"
    if kind == "message":
        kept["content"] = _parts(kept.get("content"), by_assistant=kept.get("role") == "assistant")
    if kind in OUTPUTS and isinstance(kept.get("output"), list):
        kept["output"] = _parts(kept["output"], by_assistant=False)
    if kind == "shell_call":
        kept = {"environment": None, **kept, "action": {"timeout_ms": None, "max_output_length": None, **mapping(kept.get("action"))}}
    return kept


def _parts(content: Any, *, by_assistant: bool) -> list[dict[str, Any]]:
    if isinstance(content, str):
        content = [{"type": "output_text" if by_assistant else "input_text", "text": content}]
    return [{**_UNSAID_IN_PART.get(string(part.get("type")), {}), **part} for part in mappings(content)]


def text_of(content: Any) -> str:
    """The words of a message's content or a tool's output, with a stand-in for what is not text."""
    if isinstance(content, str):
        return content
    return "\n".join(_part_text(part) for part in mappings(content))


def _part_text(part: dict[str, Any]) -> str:
    return string(part.get("text")) or string(part.get("refusal")) or _STAND_INS.get(string(part.get("type")), "")


def tokens_of(items: list[dict[str, Any]]) -> int:
    """How many tokens the model reads for these items. Reasoning is not read again."""
    return sum(PER_MESSAGE + count(_read(item)) for item in items if type_of(item) != "reasoning")


def _read(item: dict[str, Any]) -> str:
    kind = type_of(item)
    if kind == "message":
        return text_of(item.get("content"))
    if kind in CALLS:
        return f"{string(item.get('name'))} {string(item.get(CALLS[kind]))}"
    if kind in OUTPUTS:
        return text_of(item.get("output"))
    return as_text(mapping(item))
