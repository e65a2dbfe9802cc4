"""What of an item goes back to the provider that sent it. May know: the table of shapes. Decides: which members, and in which form.

Three kinds of items go back. Words and calls are written anew from what is recorded of them, with the members that `MEMBERS` lists. What
the provider did by itself goes back as it came, if it is among `BY_VALUE`. Reasoning goes back sealed (compile.py).

A call whose type is not `function_call` is recorded as a call all the same, since somebody has to answer it. Its type is among the members,
so that it goes back as what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from legato.core.facts import Call, Hosted, Item
from legato.providers.formats.loose import json_text, mapping, object_in, objects, text
from legato.providers.rules.responses.shapes import ITEM_SHAPES, VALUES, fits

MEMBERS: dict[str, tuple[str, ...]] = {
    "message": ("phase",),
    "function_call": ("namespace", "caller", "async"),
    "custom_tool_call": ("type", "namespace", "caller", "async"),
    "tool_search_call": ("type", "execution"),
}
"""The members that the provider wants back with an item, by its type. The others say how the reply came about, or are of one use only."""

BY_VALUE = {
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
"""What the provider did by itself and takes back whole, without having stored it, under any id that begins like this; empty: without one.
A program keeps the id that its seal was made for, and a picture its own, by which it is found where it was stored."""

NOT_BY_VALUE = {
    "apply_patch_call": "it waits for the caller to patch files, and Legato has no such tool",
    "computer_call": "it waits for the caller to act on a screen, and Legato has no such tool",
    "file_search_call": "the provider takes it back only by an id that it stored",
    "local_shell_call": "the provider lists it and refuses it",
    "mcp_approval_request": "it waits for the caller's approval: approve such calls beforehand with require_approval='never'",
}
"""What stays behind, and why."""

FREE_TEXT = "input"
"""The argument that a custom tool's text is recorded as: its arguments are an object, as those of every tool."""

_KEEPS_ITS_ID = ("program", "program_output", "image_generation_call")
_NOT_SENT = {"approval_request_id", "created_by"}
_TOOL_SEARCH = "tool_search"


def extra_of(item: dict[str, Any]) -> str:
    """The members of an item that go back with it, as a JSON object; empty if it has none. What has the wrong type is no member."""
    kind = text(item.get("type"))
    kinds = ITEM_SHAPES[kind].kinds
    kept = {name: item[name] for name in MEMBERS[kind] if item.get(name) is not None and fits(kinds[name], item[name])}
    return json_text(kept) if kept else ""


def is_call(item: dict[str, Any]) -> bool:
    """Tell whether an item asks the caller to run a tool. The provider runs its own searches for tools."""
    kind = item.get("type")
    return kind in ("function_call", "custom_tool_call") or (kind == "tool_search_call" and item.get("execution") == "client")


def called_with(item: dict[str, Any]) -> tuple[str, str]:
    """The name of the tool that an item calls, and its arguments as JSON text."""
    match item.get("type"):
        case "custom_tool_call":
            return text(item.get("name")), json_text({FREE_TEXT: text(item.get("input"))})
        case "tool_search_call":
            return _TOOL_SEARCH, json_text(mapping(item.get("arguments")))
        case _:
            return text(item.get("name")), text(item.get("arguments"))


def write_message(words: str, extra: str, annotations: str) -> dict[str, Any]:
    """A message of the assistant as it goes back to the provider that sent it."""
    phase = object_in(extra).get("phase")
    content: object = words
    if notes := objects(_decoded(annotations)):
        content = [{"type": "output_text", "text": words, "annotations": notes}]
    return {"role": "assistant", "content": content, **({"phase": phase} if phase in VALUES["phase"] else {})}


def write_call(call: Call, id: str, name: str) -> dict[str, Any]:
    """A call as it goes back to the provider that made it."""
    members = object_in(call.extra)
    match members.pop("type", "function_call"):
        case "custom_tool_call":
            return {"type": "custom_tool_call", "call_id": id, "name": name, "input": _free_text(call.arguments), **members}
        case "tool_search_call":
            arguments = object_in(call.arguments)
            return {"type": "tool_search_call", "call_id": id, "arguments": arguments, "status": "completed", **members}
        case _:
            return {"type": "function_call", "call_id": id, "name": name, "arguments": call.arguments, **members}


def programs_of(items: Sequence[Item]) -> frozenset[str]:
    """The ids by which calls name the programs among these items."""
    return frozenset(_call_id(item) for item in items if isinstance(item, Hosted) and item.kind == "program")


def programs_named(items: Sequence[Item]) -> frozenset[str]:
    """The ids of the programs that made calls among these items, or had output."""
    called = (object_in(item.extra).get("caller") for item in items if isinstance(item, Call) and item.extra)
    by_programs = {text(mapping(caller).get("caller_id")) for caller in called if mapping(caller).get("type") == "program"}
    return frozenset(by_programs | {_call_id(item) for item in items if isinstance(item, Hosted) and item.kind == "program_output"})


def without_program(call: Call, programs: Collection[str]) -> Call:
    """The call as one of the model's own, if the program that made it is none of these: it points to nothing then."""
    if programs_named([call]) <= frozenset(programs):
        return call
    members = {name: value for name, value in object_in(call.extra).items() if name != "caller"}
    return replace(call, extra=json_text(members) if members else "")


def is_output_of(item: Hosted, programs: Collection[str]) -> bool:
    """Tell whether an item may follow these programs: the output of another one points to nothing."""
    return item.kind != "program_output" or _call_id(item) in programs


def _call_id(item: Hosted) -> str:
    return text(object_in(item.body).get("call_id"))


def write_output(call: Call, id: str, output: object) -> dict[str, Any]:
    """The output of a call as the provider that made the call takes it."""
    members = object_in(call.extra)
    caller = {"caller": members["caller"]} if "caller" in members else {}
    kind, tools = members.get("type"), objects(_decoded(output))
    if kind == "tool_search_call" and tools:  # what was found, as definitions of tools; anything else is said in words
        return {"type": "tool_search_output", "call_id": id, "execution": "client", "status": "completed", "tools": tools}
    spoken = "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output"
    return {"type": spoken, "call_id": id, "output": output, **caller}


def waits_for_caller(item: Hosted, items: Sequence[Item]) -> bool:
    """Whether an item is commands that the provider did not run itself: then their output is not in the reply, and nobody can give it."""
    if item.kind != "shell_call":
        return False
    outputs = [object_in(each.body) for each in items if isinstance(each, Hosted) and each.kind == "shell_call_output"]
    return object_in(item.body).get("call_id") not in [output.get("call_id") for output in outputs]


def write_hosted(kind: str, body: str, id: str) -> dict[str, Any]:
    """What the provider did by itself, as it told it: without members that it does not take back, and without ids that it might look up."""
    names = ITEM_SHAPES[kind].kinds.keys() - _NOT_SENT - ({"id"} if kind not in _KEEPS_ITS_ID else set())
    kept = {name: value for name, value in object_in(body).items() if value is not None and name in names}
    return {**kept, "id": id} if BY_VALUE[kind] else kept


def _free_text(arguments: str) -> str:
    given = object_in(arguments).get(FREE_TEXT)
    return given if isinstance(given, str) else arguments


def _decoded(value: object) -> Any:
    """What a JSON text says; None if it is none."""
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
