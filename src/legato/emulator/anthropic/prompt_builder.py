"""The model's prompt from a Messages request.

The rules do not check every part of a request. So nothing here relies on a shape that they did not check.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import Struct

from legato.emulator.fake_models.base import ModelPrompt, PromptMessage, PromptTool, ReplyCall
from legato.emulator.lenient_json import as_integer, as_list, as_object, as_objects, as_string, encode_json_or_empty

_BLOCK_PLACEHOLDERS = {"image": "[image]", "document": "[document]", "search_result": "[search result]"}  # blocks that have no text
_COMMAND_SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
_TRAINED_TOOL_PREFIXES = ("bash_", "text_editor_", "memory_")  # client tools whose schema the model was trained on
_BINDING_CONTROLS_BETA = "thinking-binding-controls-2026-08-01"


class AnthropicReplyOptions(Struct, frozen=True):
    """The parts of a Messages request that shape its reply."""

    max_tokens: int | None = None
    stop_sequences: tuple[str, ...] = ()
    has_thinking: bool = False
    is_thinking_visible: bool = True  # False: the reply has only the signature of the thinking
    allows_parallel_calls: bool = True


def to_text(content: Any) -> str:
    """Return the text of a message's or a tool result's content, with placeholders for blocks without text."""
    if isinstance(content, str):
        return content
    return "\n".join(
        as_string(block.get("text")) or _BLOCK_PLACEHOLDERS.get(as_string(block.get("type")), "") for block in as_objects(content)
    )


def list_blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a message's content as blocks, also if it is a string."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else as_objects(content)


def read_reply_options(body: dict[str, Any]) -> AnthropicReplyOptions:
    """Read the parts of a request that shape its reply."""
    thinking = as_object(body.get("thinking"))
    max_tokens = as_integer(body.get("max_tokens"))
    return AnthropicReplyOptions(
        max_tokens=None if max_tokens is None else max(max_tokens, 0),
        stop_sequences=tuple(filter(None, map(as_string, as_list(body.get("stop_sequences"))))),
        has_thinking=thinking.get("type") in ("enabled", "adaptive")
        or (thinking.get("type") == "between_tools" and _follows_tool_results(body)),
        is_thinking_visible=thinking.get("display") != "omitted",
        allows_parallel_calls=as_object(body.get("tool_choice")).get("disable_parallel_tool_use") is not True,
    )


def wants_transformations(headers: dict[str, str]) -> bool:
    """Return True if the client's beta header asks for a report of the changes to its request."""
    return _BINDING_CONTROLS_BETA in (name.strip() for name in headers.get("anthropic-beta", "").split(","))


def build_prompt(body: dict[str, Any], model: str) -> ModelPrompt:
    """Return the model's prompt."""
    format = as_object(as_object(body.get("output_config")).get("format") or body.get("output_format"))
    options = read_reply_options(body)
    return ModelPrompt(
        api="anthropic",
        model=model,
        instructions=to_text(body.get("system")),
        tools=tuple(tool for tool in map(_read_tool, as_objects(body.get("tools"))) if tool.name),
        messages=_read_messages(as_objects(body.get("messages"))),
        tool_choice=_read_tool_choice(as_object(body.get("tool_choice"))),
        allows_parallel_calls=options.allows_parallel_calls,
        has_reasoning=options.has_thinking,
        output_schema=as_object(format.get("schema")) or {"type": "object"} if format.get("type") == "json_schema" else None,
    )


def list_prompt_texts(body: dict[str, Any], dropped_paths: Collection[str] = ()) -> list[str]:
    """Return all texts that the model reads, for counting tokens. `dropped_paths` are the paths of thinking that it does not read."""
    texts = [to_text(body.get("system")), encode_json_or_empty(body["tools"]) if body.get("tools") else ""]
    for index, message in _list_visible_messages(as_objects(body.get("messages"))):
        for position, block in enumerate(list_blocks(message)):
            match block.get("type"):
                case "tool_use":
                    texts.append(f"{as_string(block.get('name'))} {encode_json_or_empty(block.get('input'))}")
                case "tool_result":
                    texts.append(to_text(block.get("content")))
                case "thinking":
                    texts.append("" if f"messages.{index}.content.{position}" in dropped_paths else as_string(block.get("thinking")))
                case _:
                    texts.append(to_text([block]))
    return [text for text in texts if text]


def list_call_ids(body: dict[str, Any]) -> set[str]:
    """Return the ids of the conversation's calls."""
    return {as_string(block.get("id")) for message in as_objects(body.get("messages")) for block in list_blocks(message)}


def _read_messages(messages: list[dict[str, Any]]) -> tuple[PromptMessage, ...]:
    prompt_messages: list[PromptMessage] = []
    names: dict[str, str] = {}  # the names of tools by the ids of their calls
    for _, message in _list_visible_messages(messages):
        blocks = list_blocks(message)
        text = to_text([block for block in blocks if block.get("type") not in ("tool_use", "tool_result")])
        if message.get("role") == "assistant":
            calls = tuple(
                ReplyCall(as_string(block.get("name")), encode_json_or_empty(block.get("input")), as_string(block.get("id")))
                for block in blocks
                if block.get("type") == "tool_use"
            )
            names.update((call.id, call.tool) for call in calls)
            prompt_messages.append(PromptMessage("assistant", text.strip("\n"), calls))
            continue
        for block in blocks:
            if block.get("type") == "tool_result":
                call_id = as_string(block.get("tool_use_id"))
                prompt_messages.append(PromptMessage("tool", to_text(block.get("content")), call_id=call_id, tool=names.get(call_id, "")))
        if text:
            prompt_messages.append(PromptMessage("system" if message.get("role") == "system" else "user", text))
    return tuple(prompt_messages)


def _list_visible_messages(messages: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return messages with their indexes. A system message for one user turn is left out if the user has spoken since."""
    last = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    one_turn_only = ("system", "next_user_message")
    return [each for each in enumerate(messages) if each[0] > last or (each[1].get("role"), each[1].get("clear_at")) != one_turn_only]


def _read_tool(tool: dict[str, Any]) -> PromptTool:
    """Return a client tool. A tool that Anthropic runs itself gets an empty name."""
    kind = as_string(tool.get("type"))
    if kind.startswith(_TRAINED_TOOL_PREFIXES):
        return PromptTool(as_string(tool.get("name")), kind, _COMMAND_SCHEMA)
    if kind not in ("", "custom"):
        return PromptTool("")
    return PromptTool(as_string(tool.get("name")), as_string(tool.get("description")), as_object(tool.get("input_schema")))


def _read_tool_choice(choice: dict[str, Any]) -> str:
    match choice.get("type"):
        case "any":
            return "required"
        case "none":
            return "none"
        case "tool":
            return as_string(choice.get("name")) or "auto"
        case _:
            return "auto"


def _follows_tool_results(body: dict[str, Any]) -> bool:
    last = as_objects(body.get("messages"))[-1:]
    return any(block.get("type") == "tool_result" for message in last for block in list_blocks(message))
