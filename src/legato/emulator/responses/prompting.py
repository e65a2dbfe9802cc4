"""The effective input as the model is given it. May know: items. Decides: nothing; the law book did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.emulator.loose import mapping, mappings, string
from legato.emulator.minds.base import Heard, Prompt, Tool, Use
from legato.emulator.responses.items import CALLS, OUTPUTS, text_of
from legato.emulator.responses.work import Work
from legato.providers.rules.responses.case import type_of

_SYSTEM = ("system", "developer")
_FREE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


def prompt_of(work: Work) -> Prompt:
    """What the model is given. The system messages that open the input are instructions; later ones stay where they are."""
    items, request = work.items, work.request
    frame = 0
    while frame < len(items) and items[frame].get("role") in _SYSTEM:
        frame += 1
    told = [string(request.get("instructions")), *(text_of(item.get("content")) for item in items[:frame])]
    tools, choice = _offer(request)
    return Prompt(
        api="responses",
        model=work.model.name,
        instructions="\n\n".join(filter(None, told)),
        tools=tools,
        heard=_heard(items[frame:]),
        choice=choice,
        parallel=parallel(request),
        thinks=thinks(work),
        schema=_schema(mapping(mapping(request.get("text")).get("format"))),
    )


def parallel(request: dict[str, Any]) -> bool:
    """Whether the model may call more than one tool at a time."""
    return request.get("parallel_tool_calls") is not False


def thinks(work: Work) -> bool:
    """Tell whether the model reasons before it speaks: because it does unless it is told not to, or because it was asked to."""
    asked = mapping(work.request.get("reasoning"))
    return bool(work.model.reasons or asked) and (asked.get("effort") or work.model.effort) != "none"


def free_text_tools(request: dict[str, Any]) -> frozenset[str]:
    """The tools that take text in place of arguments."""
    return frozenset(string(tool.get("name")) for tool, _ in _callable(request) if tool.get("type") == "custom")


def namespaces(request: dict[str, Any]) -> dict[str, str]:
    """The namespaces of the tools that are in none by default, by the tools' names."""
    found: dict[str, str] = {}
    for tool, namespace in _callable(request):
        found.setdefault(string(tool.get("name")), namespace)
    return {name: namespace for name, namespace in found.items() if namespace}


def _callable(request: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The tools that the caller runs, each with its namespace; those of the default one, which is empty, come first. A tool that is
    loaded later is in one of its own."""
    tools = mappings(request.get("tools"))
    own = [tool for tool in tools if tool.get("type") in ("function", "custom")]
    yield from ((tool, "") for tool in own if not tool.get("defer_loading"))
    yield from ((tool, string(tool.get("name"))) for tool in own if tool.get("defer_loading"))
    for group in tools:
        if group.get("type") == "namespace":
            yield from ((tool, string(group.get("name"))) for tool in mappings(group.get("tools")))


def _heard(items: list[dict[str, Any]]) -> tuple[Heard, ...]:
    heard: list[Heard] = []
    names: dict[str, str] = {}  # of the tools, by the ids of their calls
    for item in items:
        kind = type_of(item)
        if kind in CALLS:
            use = Use(string(item.get("name")), string(item.get(CALLS[kind])), string(item.get("call_id")))
            names[use.id] = use.tool
            if heard and heard[-1].who == "assistant":  # calls belong to the words before them
                heard[-1] = Heard("assistant", heard[-1].text, (*heard[-1].uses, use))
            else:
                heard.append(Heard("assistant", uses=(use,)))
        elif kind in OUTPUTS:
            call = string(item.get("call_id"))
            heard.append(Heard("tool", text_of(item.get("output")), call=call, tool=names.get(call) or string(item.get("name"))))
        elif kind == "message":
            text, role = text_of(item.get("content")), item.get("role")
            heard.append(Heard("system" if role in _SYSTEM else "assistant" if role == "assistant" else "user", text))
    return tuple(heard)


def _offer(request: dict[str, Any]) -> tuple[tuple[Tool, ...], str]:
    """The tools the model may call, and which it must. Tools that the provider runs itself are not offered: nobody would run them."""
    offered: dict[str, Tool] = {}
    for tool, _ in _callable(request):
        offered.setdefault(string(tool.get("name")), _tool(tool))
    tools = tuple(offered.values())
    choice: Any = request.get("tool_choice")
    if not isinstance(choice, dict):
        return tools, choice if choice in ("none", "required") else "auto"
    if choice.get("type") == "allowed_tools":
        names = {string(tool.get("name")) for tool in mappings(choice.get("tools"))}
        return tuple(tool for tool in tools if tool.name in names), "required" if choice.get("mode") == "required" else "auto"
    return tools, string(choice.get("name")) or "auto"


def _tool(tool: dict[str, Any]) -> Tool:
    schema = _FREE_TEXT if tool.get("type") == "custom" else mapping(tool.get("parameters"))
    return Tool(string(tool.get("name")), string(tool.get("description")), schema)


def _schema(wanted: dict[str, Any]) -> dict[str, Any] | None:
    if wanted.get("type") == "json_object":
        return {"type": "object"}
    return mapping(wanted.get("schema")) if wanted.get("type") == "json_schema" else None
