"""The model's prompt from a Chat Completions request.

The rules do not check every part of a request. So nothing here relies on a shape that they did not check.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from legato.emulator.fake_models.base import ModelPrompt, PromptMessage, PromptTool, ReplyCall
from legato.emulator.lenient_json import as_integer, as_list, as_object, as_objects, as_string, encode_json_or_empty

_SYSTEM_ROLES = ("system", "developer")
_PART_PLACEHOLDERS = {"image_url": "[image]", "input_audio": "[audio]", "file": "[file]"}  # parts that have no text
_FREE_TEXT_SCHEMA = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_MAX_CHOICES = 128


class ChatReplyOptions(Struct, frozen=True):
    """The parts of a Chat Completions request that shape its reply."""

    max_tokens: int | None = None
    stop_sequences: tuple[str, ...] = ()
    choice_count: int = 1
    uses_functions: bool = False  # the request declares tools in the deprecated way: so the reply calls them in the deprecated way
    is_call_forced: bool = False  # the request names a tool that must be called
    free_text_tools: frozenset[str] = frozenset()  # tools that take text instead of arguments
    service_tier: str = "default"
    wants_usage: bool = False  # at the end of the stream
    wants_obfuscation: bool = True


def to_text(content: Any) -> str:
    """Return the text of a message's content, with placeholders for parts without text."""
    if isinstance(content, str):
        return content
    parts = as_objects(content)
    return "\n".join(
        as_string(part.get("text")) or as_string(part.get("refusal")) or _PART_PLACEHOLDERS.get(as_string(part.get("type")), "")
        for part in parts
    )


def read_reply_options(body: dict[str, Any]) -> ChatReplyOptions:
    """Read the parts of a request that shape its reply."""
    stop, options = body.get("stop"), as_object(body.get("stream_options"))
    token_limits = [limit for key in ("max_completion_tokens", "max_tokens") if (limit := as_integer(body.get(key))) is not None]
    tier = as_string(body.get("service_tier"))
    return ChatReplyOptions(
        max_tokens=max(min(token_limits), 0) if token_limits else None,
        stop_sequences=(stop,) if isinstance(stop, str) else tuple(filter(None, map(as_string, as_list(stop)))),
        choice_count=min(max(as_integer(body.get("n")) or 1, 1), _MAX_CHOICES),
        uses_functions=bool(as_list(body.get("functions"))) and not as_list(body.get("tools")),
        is_call_forced=as_object(body.get("tool_choice")).get("type") in ("function", "custom"),
        free_text_tools=frozenset(
            as_string(as_object(tool.get("custom")).get("name")) for tool in as_objects(body.get("tools")) if "custom" in tool
        ),
        service_tier={"flex": "flex", "scale": "scale", "priority": "priority", "fast": "priority"}.get(tier, "default"),
        wants_usage=options.get("include_usage") is True,
        wants_obfuscation=options.get("include_obfuscation") is not False,
    )


def build_prompt(body: dict[str, Any], model: str, has_reasoning: bool, choice: int = 0) -> ModelPrompt:
    """Return the model's prompt for one of the choices. The prompts differ in the seed only."""
    messages = as_objects(body.get("messages"))
    leading_count = 0
    while leading_count < len(messages) and messages[leading_count].get("role") in _SYSTEM_ROLES:
        leading_count += 1
    tools, tool_choice = _list_tools(body)
    return ModelPrompt(
        api="chat",
        model=model,
        instructions="\n\n".join(to_text(message.get("content")) for message in messages[:leading_count]),
        tools=tools,
        messages=_read_messages(messages[leading_count:]),
        tool_choice=tool_choice,
        allows_parallel_calls=body.get("parallel_tool_calls") is not False and not read_reply_options(body).uses_functions,
        has_reasoning=has_reasoning and body.get("reasoning_effort") != "none",
        output_schema=_read_output_schema(body),
        seed=(as_integer(body.get("seed")) or 0) + choice,
    )


def list_prompt_texts(body: dict[str, Any]) -> list[str]:
    """Return all texts that the model reads, for counting tokens."""
    texts = [encode_json_or_empty(body[key]) for key in ("tools", "functions", "response_format") if body.get(key)]
    for message in as_objects(body.get("messages")):
        texts.append(f"{as_string(message.get('role'))}\n{to_text(message.get('content'))}")
        texts.extend(encode_json_or_empty(message[key]) for key in ("tool_calls", "function_call") if message.get(key))
    return texts


def list_call_ids(body: dict[str, Any]) -> set[str]:
    """Return the ids of the conversation's calls."""
    return {as_string(call.get("id")) for message in as_objects(body.get("messages")) for call in as_objects(message.get("tool_calls"))}


def _read_messages(messages: list[dict[str, Any]]) -> tuple[PromptMessage, ...]:
    prompt_messages: list[PromptMessage] = []
    names: dict[str, str] = {}  # the names of tools by the ids of their calls
    for message in messages:
        if prompt_messages and prompt_messages[-1].role == "tool" and _continues_outputs(message):
            prompt_messages[-1] = replace(prompt_messages[-1], text=f"{prompt_messages[-1].text}\n{to_text(message.get('content'))}")
            continue
        role, text = message.get("role"), to_text(message.get("content"))
        if role in _SYSTEM_ROLES:
            prompt_messages.append(PromptMessage("system", text))
        elif role == "assistant":
            calls = tuple(_read_call(call) for call in as_objects(message.get("tool_calls")))
            if isinstance(message.get("function_call"), dict):
                calls = (*calls, _read_call({"function": message["function_call"]}))
            names.update((call.id, call.tool) for call in calls)
            prompt_messages.append(PromptMessage("assistant", text or as_string(message.get("refusal")), calls))
        elif role == "tool":
            call_id = as_string(message.get("tool_call_id"))
            prompt_messages.append(PromptMessage("tool", text, call_id=call_id, tool=names.get(call_id, "")))
        elif role == "function":
            prompt_messages.append(PromptMessage("tool", text, tool=as_string(message.get("name"))))
        else:
            prompt_messages.append(PromptMessage("user", text))
    return tuple(prompt_messages)


def _continues_outputs(message: dict[str, Any]) -> bool:
    """Return True if a user message behind tool outputs carries the tools' files, and no words of a user.

    The API takes only text in a tool's message. So clients send a tool's pictures and files in a user message behind the outputs, with
    at most labels before them ("Returned by take_photo:"). A message in which a user says something about a picture does not count.
    """
    parts = as_objects(message.get("content")) if message.get("role") == "user" else []
    texts = [as_string(part.get("text")).rstrip() for part in parts if part.get("type") == "text"]
    return len(texts) < len(parts) and all(not text or text.endswith(":") for text in texts)


def _read_call(call: dict[str, Any]) -> ReplyCall:
    called = as_object(call.get("function") or call.get("custom"))
    arguments = called.get("arguments", called.get("input"))
    return ReplyCall(
        as_string(called.get("name")),
        arguments if isinstance(arguments, str) else encode_json_or_empty(arguments),
        as_string(call.get("id")),
    )


def _list_tools(body: dict[str, Any]) -> tuple[tuple[PromptTool, ...], str]:
    """Return the tools that the model may call, and the tool choice."""
    declared = [_read_tool(tool) for tool in as_objects(body.get("tools"))]
    choice: Any = body.get("tool_choice")
    if not declared:
        declared = [_read_tool({"function": function}) for function in as_list(body.get("functions"))]
        choice = body.get("function_call")
    tools = tuple(tool for tool in declared if tool.name)
    if not isinstance(choice, dict):
        return tools, choice if choice in ("none", "required") else "auto"
    if choice.get("type") == "allowed_tools":
        return _restrict_tools(tools, as_object(choice.get("allowed_tools")))
    named_tool = as_object(choice.get("function") or choice.get("custom") or choice)
    return tools, as_string(named_tool.get("name")) or "auto"


def _restrict_tools(tools: tuple[PromptTool, ...], allowed: dict[str, Any]) -> tuple[tuple[PromptTool, ...], str]:
    """Return the tools that an `allowed_tools` choice allows, and the tool choice."""
    names = {_read_tool(tool).name for tool in as_objects(allowed.get("tools"))}
    return tuple(tool for tool in tools if tool.name in names), "required" if allowed.get("mode") == "required" else "auto"


def _read_tool(tool: dict[str, Any]) -> PromptTool:
    if "custom" in tool:
        custom = as_object(tool["custom"])
        return PromptTool(as_string(custom.get("name")), as_string(custom.get("description")), _FREE_TEXT_SCHEMA)
    function = as_object(tool.get("function"))
    return PromptTool(as_string(function.get("name")), as_string(function.get("description")), as_object(function.get("parameters")))


def _read_output_schema(body: dict[str, Any]) -> dict[str, Any] | None:
    response_format = as_object(body.get("response_format"))
    if response_format.get("type") == "json_object":
        return {"type": "object"}
    if response_format.get("type") == "json_schema":
        return as_object(as_object(response_format.get("json_schema")).get("schema")) or {"type": "object"}
    return None
