"""What a Messages request gives the model. May know: the request's fields. Decides: nothing; the law book did.

The law book does not look into every corner of a request, so nothing here takes a shape for granted that it did not check.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import Struct

from legato.emulator.loose import as_text, listing, mapping, mappings, string, whole
from legato.emulator.minds.base import Heard, Prompt, Tool, Use

_STAND_INS = {"image": "[image]", "document": "[document]", "search_result": "[search result]"}  # blocks that have no text
_COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
_OWN_SCHEMA = ("bash_", "text_editor_", "memory_")  # tools of the client whose schema the model was trained on
_BINDING_CONTROLS = "thinking-binding-controls-2026-08-01"


class Terms(Struct, frozen=True):
    """What the request says about the form of the answer."""

    limit: int | None = None  # tokens
    stops: tuple[str, ...] = ()
    thinks: bool = False
    shown: bool = True  # whether thinking may be read, or only its signature comes back
    parallel: bool = True


def text_of(content: Any) -> str:
    """The words of a message's or a tool result's content, with a stand-in for what is not text."""
    if isinstance(content, str):
        return content
    return "\n".join(string(block.get("text")) or _STAND_INS.get(string(block.get("type")), "") for block in mappings(content))


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message's content as blocks, also where it is a mere string."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else mappings(content)


def terms(body: dict[str, Any]) -> Terms:
    """What the answer must keep to."""
    thinking = mapping(body.get("thinking"))
    limit = whole(body.get("max_tokens"))
    return Terms(
        limit=None if limit is None else max(limit, 0),
        stops=tuple(filter(None, map(string, listing(body.get("stop_sequences"))))),
        thinks=thinking.get("type") in ("enabled", "adaptive") or (thinking.get("type") == "between_tools" and _after_tools(body)),
        shown=thinking.get("display") != "omitted",
        parallel=mapping(body.get("tool_choice")).get("disable_parallel_tool_use") is not True,
    )


def reports_transformations(headers: dict[str, str]) -> bool:
    """Whether the caller asked, by its beta header, to be told what was changed in its request."""
    return _BINDING_CONTROLS in (name.strip() for name in headers.get("anthropic-beta", "").split(","))


def prompt(body: dict[str, Any], model: str) -> Prompt:
    """What the model is given."""
    format = mapping(mapping(body.get("output_config")).get("format") or body.get("output_format"))
    rules = terms(body)
    return Prompt(
        api="anthropic",
        model=model,
        instructions=text_of(body.get("system")),
        tools=tuple(tool for tool in map(_tool, mappings(body.get("tools"))) if tool.name),
        heard=_heard(mappings(body.get("messages"))),
        choice=_choice(mapping(body.get("tool_choice"))),
        parallel=rules.parallel,
        thinks=rules.thinks,
        schema=mapping(format.get("schema")) or {"type": "object"} if format.get("type") == "json_schema" else None,
    )


def prompt_strings(body: dict[str, Any], dropped: Collection[str] = ()) -> list[str]:
    """Everything the model has to read, for counting its tokens. `dropped`: the paths of the thinking that it does not get to see."""
    read = [text_of(body.get("system")), as_text(body["tools"]) if body.get("tools") else ""]
    for index, message in _shown(mappings(body.get("messages"))):
        for place, block in enumerate(blocks_of(message)):
            match block.get("type"):
                case "tool_use":
                    read.append(f"{string(block.get('name'))} {as_text(block.get('input'))}")
                case "tool_result":
                    read.append(text_of(block.get("content")))
                case "thinking":
                    read.append("" if f"messages.{index}.content.{place}" in dropped else string(block.get("thinking")))
                case _:
                    read.append(text_of([block]))
    return [text for text in read if text]


def call_ids(body: dict[str, Any]) -> set[str]:
    """The ids of the calls that the conversation has already."""
    return {string(block.get("id")) for message in mappings(body.get("messages")) for block in blocks_of(message)}


def _heard(messages: list[dict[str, Any]]) -> tuple[Heard, ...]:
    heard: list[Heard] = []
    names: dict[str, str] = {}  # of the tools, by the ids of their calls
    for _, message in _shown(messages):
        blocks = blocks_of(message)
        words = text_of([block for block in blocks if block.get("type") not in ("tool_use", "tool_result")])
        if message.get("role") == "assistant":
            uses = tuple(
                Use(string(block.get("name")), as_text(block.get("input")), string(block.get("id")))
                for block in blocks
                if block.get("type") == "tool_use"
            )
            names.update((use.id, use.tool) for use in uses)
            heard.append(Heard("assistant", words.strip("\n"), uses))
            continue
        for block in blocks:
            if block.get("type") == "tool_result":
                call = string(block.get("tool_use_id"))
                heard.append(Heard("tool", text_of(block.get("content")), call=call, tool=names.get(call, "")))
        if words:
            heard.append(Heard("system" if message.get("role") == "system" else "user", words))
    return tuple(heard)


def _shown(messages: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """The messages and their places, without the system's words for one turn of the user if the user has spoken since."""
    last = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    once = ("system", "next_user_message")
    return [each for each in enumerate(messages) if each[0] > last or (each[1].get("role"), each[1].get("clear_at")) != once]


def _tool(tool: dict[str, Any]) -> Tool:
    """A tool of the client. One that Anthropic runs itself is none: it gets no name."""
    kind = string(tool.get("type"))
    if kind.startswith(_OWN_SCHEMA):
        return Tool(string(tool.get("name")), kind, _COMMAND)
    if kind not in ("", "custom"):
        return Tool("")
    return Tool(string(tool.get("name")), string(tool.get("description")), mapping(tool.get("input_schema")))


def _choice(choice: dict[str, Any]) -> str:
    match choice.get("type"):
        case "any":
            return "required"
        case "none":
            return "none"
        case "tool":
            return string(choice.get("name")) or "auto"
        case _:
            return "auto"


def _after_tools(body: dict[str, Any]) -> bool:
    last = mappings(body.get("messages"))[-1:]
    return any(block.get("type") == "tool_result" for message in last for block in blocks_of(message))
