"""Replay of output items to the provider that sent them.

Text and calls are encoded from their recorded values, with the members that `REPLAYED_MEMBERS` lists. Uses of hosted tools, which the
provider runs, go back as they came if `REPLAYED_ITEM_ID_PREFIXES` has their type. Reasoning goes back encrypted (`encode.py`).

A call of another type than `function_call` is recorded as a call too, since it needs an output. Its type is one of the recorded members,
so it goes back with that type.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from legato.core.facts import Call, HostedToolUse, ReplyItem
from legato.providers.formats.lenient_json import as_object, as_objects, as_text, parse_object, to_json
from legato.providers.rules.responses.type_shapes import ENUM_VALUES, ITEM_SHAPES, has_member_type

REPLAYED_MEMBERS: dict[str, tuple[str, ...]] = {
    "message": ("phase",),
    "function_call": ("namespace", "caller", "async"),
    "custom_tool_call": ("type", "namespace", "caller", "async"),
    "tool_search_call": ("type", "execution"),
}
"""The members that the provider wants back with an item, by item type. The other members are about the reply, or of use only once."""

REPLAYED_ITEM_ID_PREFIXES = {
    "code_interpreter_call": "ci",
    "compaction": "",
    "image_generation_call": "",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "program": "",
    "program_output": "",
    "shell_call": "",
    "shell_call_output": "",
    "tool_search_call": "",
    "tool_search_output": "",
    "web_search_call": "ws",
}
"""The prefixes of item ids, by the types of items that the provider produced itself and takes back whole without having stored them. It
takes any id with the prefix; an empty prefix means that no id is made. A program keeps the id that its encrypted content belongs to, and
a picture keeps its id, which finds it where it is stored."""

UNREPLAYABLE_ITEMS = {
    "apply_patch_call": "it waits for the caller to patch files, and Legato has no such tool",
    "computer_call": "it waits for the caller to act on a screen, and Legato has no such tool",
    "file_search_call": "the provider accepts it back only by an id that it stored",
    "local_shell_call": "the provider lists this type and refuses it",
    "mcp_approval_request": "it waits for the caller's approval: approve such calls beforehand with require_approval='never'",
}
"""The types of items that are not replayed, with the reason."""

FREE_TEXT_ARGUMENT = "input"
"""The argument that holds the text of a call of a custom tool: recorded arguments are an object for every tool."""

_ITEMS_WITH_THEIR_OWN_ID = ("program", "program_output", "image_generation_call")
_UNSENT_MEMBERS = {"approval_request_id", "created_by"}
_TOOL_SEARCH = "tool_search"


def select_replayed_members(item: dict[str, Any]) -> str:
    """Return the members of an item that are replayed, as JSON text; empty if it has none. Members of the wrong type are left out."""
    kind = as_text(item.get("type"))
    kinds = ITEM_SHAPES[kind].member_types
    members = {
        name: item[name] for name in REPLAYED_MEMBERS[kind] if item.get(name) is not None and has_member_type(kinds[name], item[name])
    }
    return to_json(members) if members else ""


def is_call(item: dict[str, Any]) -> bool:
    """Return True if an item asks the caller to run a tool. Tool searches are run by the provider, unless the item says otherwise."""
    kind = item.get("type")
    return kind in ("function_call", "custom_tool_call") or (kind == "tool_search_call" and item.get("execution") == "client")


def find_tool_and_arguments(item: dict[str, Any]) -> tuple[str, str]:
    """Return the name of the tool that an item calls, and its arguments as JSON text."""
    match item.get("type"):
        case "custom_tool_call":
            return as_text(item.get("name")), to_json({FREE_TEXT_ARGUMENT: as_text(item.get("input"))})
        case "tool_search_call":
            return _TOOL_SEARCH, to_json(as_object(item.get("arguments")))
        case _:
            return as_text(item.get("name")), as_text(item.get("arguments"))


def encode_message(words: str, extra: str, annotations: str) -> dict[str, Any]:
    """Return an assistant message for the provider that sent it."""
    phase = parse_object(extra).get("phase")
    content: object = words
    if decoded_annotations := as_objects(_decode_or_none(annotations)):
        content = [{"type": "output_text", "text": words, "annotations": decoded_annotations}]
    return {"role": "assistant", "content": content, **({"phase": phase} if phase in ENUM_VALUES["phase"] else {})}


def encode_call(call: Call, id: str, name: str) -> dict[str, Any]:
    """Return a call for the provider that made it."""
    members = parse_object(call.extra)
    match members.pop("type", "function_call"):
        case "custom_tool_call":
            return {"type": "custom_tool_call", "call_id": id, "name": name, "input": _extract_free_text(call.arguments), **members}
        case "tool_search_call":
            arguments = parse_object(call.arguments)
            return {"type": "tool_search_call", "call_id": id, "arguments": arguments, "status": "completed", **members}
        case _:
            return {"type": "function_call", "call_id": id, "name": name, "arguments": call.arguments, **members}


def find_program_ids(items: Sequence[ReplyItem]) -> frozenset[str]:
    """Return the ids of the programs among these items, as calls refer to them."""
    return frozenset(_find_call_id(item) for item in items if isinstance(item, HostedToolUse) and item.kind == "program")


def find_referenced_program_ids(items: Sequence[ReplyItem]) -> frozenset[str]:
    """Return the ids of the programs that calls and program outputs among these items refer to."""
    callers = (parse_object(item.extra).get("caller") for item in items if isinstance(item, Call) and item.extra)
    by_programs = {as_text(as_object(caller).get("caller_id")) for caller in callers if as_object(caller).get("type") == "program"}
    return frozenset(
        by_programs | {_find_call_id(item) for item in items if isinstance(item, HostedToolUse) and item.kind == "program_output"}
    )


def drop_unknown_program(call: Call, programs: Collection[str]) -> Call:
    """Return the call without its reference to a program, unless it refers to one of these: a dangling reference is refused."""
    if find_referenced_program_ids([call]) <= frozenset(programs):
        return call
    members = {name: value for name, value in parse_object(call.extra).items() if name != "caller"}
    return replace(call, extra=to_json(members) if members else "")


def has_known_program(item: HostedToolUse, programs: Collection[str]) -> bool:
    """Return True unless an item is the output of a program that is not among these."""
    return item.kind != "program_output" or _find_call_id(item) in programs


def _find_call_id(item: HostedToolUse) -> str:
    return as_text(parse_object(item.body).get("call_id"))


def encode_output(call: Call, id: str, output: object) -> dict[str, Any]:
    """Return the output of a call for the provider that made the call."""
    members = parse_object(call.extra)
    caller = {"caller": members["caller"]} if "caller" in members else {}
    kind, tools = members.get("type"), as_objects(_decode_or_none(output))
    if kind == "tool_search_call" and tools:  # found tools go as definitions; any other output goes as text
        return {"type": "tool_search_output", "call_id": id, "execution": "client", "status": "completed", "tools": tools}
    type = "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output"
    return {"type": type, "call_id": id, "output": output, **caller}


def is_waiting_for_caller(item: HostedToolUse, items: Sequence[ReplyItem]) -> bool:
    """Return True if an item holds shell commands that the provider did not run: the reply has no output, and no caller can give one."""
    if item.kind != "shell_call":
        return False
    outputs = [parse_object(each.body) for each in items if isinstance(each, HostedToolUse) and each.kind == "shell_call_output"]
    return parse_object(item.body).get("call_id") not in [output.get("call_id") for output in outputs]


def encode_hosted_item(kind: str, body: str, id: str) -> dict[str, Any]:
    """Return a hosted item as it came, without members that the provider refuses and without ids that it might look up."""
    names = ITEM_SHAPES[kind].member_types.keys() - _UNSENT_MEMBERS - ({"id"} if kind not in _ITEMS_WITH_THEIR_OWN_ID else set())
    members = {name: value for name, value in parse_object(body).items() if value is not None and name in names}
    return {**members, "id": id} if REPLAYED_ITEM_ID_PREFIXES[kind] else members


def _extract_free_text(arguments: str) -> str:
    text = parse_object(arguments).get(FREE_TEXT_ARGUMENT)
    return text if isinstance(text, str) else arguments


def _decode_or_none(value: object) -> Any:
    """Return the value of a JSON text; None if it is invalid."""
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
