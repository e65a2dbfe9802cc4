"""The model's prompt from the effective input of a Responses request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.emulator.fake_models.base import ModelPrompt, PromptMessage, PromptTool, ReplyCall
from legato.emulator.lenient_json import as_object, as_objects, as_string
from legato.emulator.responses.accepted_request import AcceptedRequest
from legato.emulator.responses.items import CALL_TEXT_MEMBERS, OUTPUT_TYPES, to_text
from legato.providers.rules.responses.request_context import infer_item_type

_SYSTEM_ROLES = ("system", "developer")
_FREE_TEXT_SCHEMA = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


def build_prompt(accepted: AcceptedRequest) -> ModelPrompt:
    """Return the model's prompt. Leading system messages become instructions; later ones stay in their place."""
    items, body = accepted.items, accepted.body
    leading_count = 0
    while leading_count < len(items) and items[leading_count].get("role") in _SYSTEM_ROLES:
        leading_count += 1
    instructions = [as_string(body.get("instructions")), *(to_text(item.get("content")) for item in items[:leading_count])]
    tools, choice = _list_tools(body)
    return ModelPrompt(
        api="responses",
        model=accepted.model.name,
        instructions="\n\n".join(filter(None, instructions)),
        tools=tools,
        messages=_read_messages(items[leading_count:]),
        tool_choice=choice,
        allows_parallel_calls=allows_parallel_calls(body),
        has_reasoning=has_reasoning(accepted),
        output_schema=_read_output_schema(as_object(as_object(body.get("text")).get("format"))),
    )


def allows_parallel_calls(body: dict[str, Any]) -> bool:
    """Return True if the model may make several calls in one reply."""
    return body.get("parallel_tool_calls") is not False


def has_reasoning(accepted: AcceptedRequest) -> bool:
    """Return True if the model reasons: by default, or because the request asks for it."""
    reasoning = as_object(accepted.body.get("reasoning"))
    return bool(accepted.model.has_reasoning or reasoning) and (reasoning.get("effort") or accepted.model.default_effort) != "none"


def find_free_text_tools(body: dict[str, Any]) -> frozenset[str]:
    """Return the names of the tools that take text instead of arguments."""
    return frozenset(as_string(tool.get("name")) for tool, _ in _list_client_tools(body) if tool.get("type") == "custom")


def find_namespaces(body: dict[str, Any]) -> dict[str, str]:
    """Return the namespaces of the tools outside the default one, by tool name."""
    namespaces: dict[str, str] = {}
    for tool, namespace in _list_client_tools(body):
        namespaces.setdefault(as_string(tool.get("name")), namespace)
    return {name: namespace for name, namespace in namespaces.items() if namespace}


def _list_client_tools(body: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the tools that the client runs, with their namespaces.

    The default namespace is empty, and its tools come first. A tool with `defer_loading` has a namespace of its own.
    """
    tools = as_objects(body.get("tools"))
    client_tools = [tool for tool in tools if tool.get("type") in ("function", "custom")]
    yield from ((tool, "") for tool in client_tools if not tool.get("defer_loading"))
    yield from ((tool, as_string(tool.get("name"))) for tool in client_tools if tool.get("defer_loading"))
    for group in tools:
        if group.get("type") == "namespace":
            yield from ((tool, as_string(group.get("name"))) for tool in as_objects(group.get("tools")))


def _read_messages(items: list[dict[str, Any]]) -> tuple[PromptMessage, ...]:
    prompt_messages: list[PromptMessage] = []
    names: dict[str, str] = {}  # the names of tools by the ids of their calls
    for item in items:
        kind = infer_item_type(item)
        if kind in CALL_TEXT_MEMBERS:
            call = ReplyCall(as_string(item.get("name")), as_string(item.get(CALL_TEXT_MEMBERS[kind])), as_string(item.get("call_id")))
            names[call.id] = call.tool
            if prompt_messages and prompt_messages[-1].role == "assistant":  # calls belong to the text before them
                prompt_messages[-1] = PromptMessage("assistant", prompt_messages[-1].text, (*prompt_messages[-1].calls, call))
            else:
                prompt_messages.append(PromptMessage("assistant", calls=(call,)))
        elif kind in OUTPUT_TYPES:
            call_id = as_string(item.get("call_id"))
            prompt_messages.append(
                PromptMessage("tool", to_text(item.get("output")), call_id=call_id, tool=names.get(call_id) or as_string(item.get("name")))
            )
        elif kind == "message":
            text, role = to_text(item.get("content")), item.get("role")
            prompt_messages.append(
                PromptMessage("system" if role in _SYSTEM_ROLES else "assistant" if role == "assistant" else "user", text)
            )
    return tuple(prompt_messages)


def _list_tools(body: dict[str, Any]) -> tuple[tuple[PromptTool, ...], str]:
    """Return the tools that the model may call, and the tool choice. Tools that the provider runs are left out: nothing would run them."""
    tools_by_name: dict[str, PromptTool] = {}
    for tool, _ in _list_client_tools(body):
        tools_by_name.setdefault(as_string(tool.get("name")), _read_tool(tool))
    tools = tuple(tools_by_name.values())
    choice: Any = body.get("tool_choice")
    if not isinstance(choice, dict):
        return tools, choice if choice in ("none", "required") else "auto"
    if choice.get("type") == "allowed_tools":
        names = {as_string(tool.get("name")) for tool in as_objects(choice.get("tools"))}
        return tuple(tool for tool in tools if tool.name in names), "required" if choice.get("mode") == "required" else "auto"
    return tools, as_string(choice.get("name")) or "auto"


def _read_tool(tool: dict[str, Any]) -> PromptTool:
    schema = _FREE_TEXT_SCHEMA if tool.get("type") == "custom" else as_object(tool.get("parameters"))
    return PromptTool(as_string(tool.get("name")), as_string(tool.get("description")), schema)


def _read_output_schema(format: dict[str, Any]) -> dict[str, Any] | None:
    if format.get("type") == "json_object":
        return {"type": "object"}
    return as_object(format.get("schema")) if format.get("type") == "json_schema" else None
