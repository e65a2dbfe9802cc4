"""What a Chat Completions request gives the model. May know: the request's fields. Decides: nothing; the law book did.

The law book does not look into every corner of a request, so nothing here takes a shape for granted that it did not check.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from legato.emulator.loose import as_text, listing, mapping, mappings, string, whole
from legato.emulator.minds.base import Heard, Prompt, Tool, Use

_SYSTEM = ("system", "developer")
_STAND_INS = {"image_url": "[image]", "input_audio": "[audio]", "file": "[file]"}  # parts that have no text
_FREE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_MOST_CHOICES = 128


class Terms(Struct, frozen=True):
    """What the request says about the form of the answer."""

    limit: int | None = None  # tokens
    stops: tuple[str, ...] = ()
    choices: int = 1
    functions: bool = False  # the deprecated way of declaring tools: the answer calls in the deprecated way too
    forced: bool = False  # one tool was named that must be called
    free_text: frozenset[str] = frozenset()  # tools that take text in place of arguments
    tier: str = "default"
    usage: bool = False  # asked for at the end of the stream
    obfuscated: bool = True


def text_of(content: Any) -> str:
    """The words of a message's content, with a stand-in for what is not text."""
    if isinstance(content, str):
        return content
    parts = mappings(content)
    return "\n".join(
        string(part.get("text")) or string(part.get("refusal")) or _STAND_INS.get(string(part.get("type")), "") for part in parts
    )


def terms(body: dict[str, Any]) -> Terms:
    """What the answer must keep to."""
    stop, options = body.get("stop"), mapping(body.get("stream_options"))
    limits = [limit for key in ("max_completion_tokens", "max_tokens") if (limit := whole(body.get(key))) is not None]
    tier = string(body.get("service_tier"))
    return Terms(
        limit=max(min(limits), 0) if limits else None,
        stops=(stop,) if isinstance(stop, str) else tuple(filter(None, map(string, listing(stop)))),
        choices=min(max(whole(body.get("n")) or 1, 1), _MOST_CHOICES),
        functions=bool(listing(body.get("functions"))) and not listing(body.get("tools")),
        forced=mapping(body.get("tool_choice")).get("type") in ("function", "custom"),
        free_text=frozenset(string(mapping(tool.get("custom")).get("name")) for tool in mappings(body.get("tools")) if "custom" in tool),
        tier={"flex": "flex", "scale": "scale", "priority": "priority", "fast": "priority"}.get(tier, "default"),
        usage=options.get("include_usage") is True,
        obfuscated=options.get("include_obfuscation") is not False,
    )


def prompt(body: dict[str, Any], model: str, reasons: bool, choice: int = 0) -> Prompt:
    """What the model is given for one of the choices: the same for all but for the seed."""
    messages = mappings(body.get("messages"))
    frame = 0
    while frame < len(messages) and messages[frame].get("role") in _SYSTEM:
        frame += 1
    offered, must = _offer(body)
    return Prompt(
        api="chat",
        model=model,
        instructions="\n\n".join(text_of(message.get("content")) for message in messages[:frame]),
        tools=offered,
        heard=_heard(messages[frame:]),
        choice=must,
        parallel=body.get("parallel_tool_calls") is not False and not terms(body).functions,
        thinks=reasons and body.get("reasoning_effort") != "none",
        schema=_schema(body),
        seed=(whole(body.get("seed")) or 0) + choice,
    )


def prompt_strings(body: dict[str, Any]) -> list[str]:
    """Everything the model has to read, for counting its tokens."""
    read = [as_text(body[key]) for key in ("tools", "functions", "response_format") if body.get(key)]
    for message in mappings(body.get("messages")):
        read.append(f"{string(message.get('role'))}\n{text_of(message.get('content'))}")
        read.extend(as_text(message[key]) for key in ("tool_calls", "function_call") if message.get(key))
    return read


def call_ids(body: dict[str, Any]) -> set[str]:
    """The ids of the calls that the conversation has already."""
    return {string(call.get("id")) for message in mappings(body.get("messages")) for call in mappings(message.get("tool_calls"))}


def _heard(messages: list[dict[str, Any]]) -> tuple[Heard, ...]:
    heard: list[Heard] = []
    names: dict[str, str] = {}  # of the tools, by the ids of their calls
    for message in messages:
        if heard and heard[-1].who == "tool" and _continues_outputs(message):
            heard[-1] = replace(heard[-1], text=f"{heard[-1].text}\n{text_of(message.get('content'))}")
            continue
        role, text = message.get("role"), text_of(message.get("content"))
        if role in _SYSTEM:
            heard.append(Heard("system", text))
        elif role == "assistant":
            uses = tuple(_use(call) for call in mappings(message.get("tool_calls")))
            if isinstance(message.get("function_call"), dict):
                uses = (*uses, _use({"function": message["function_call"]}))
            names.update((use.id, use.tool) for use in uses)
            heard.append(Heard("assistant", text or string(message.get("refusal")), uses))
        elif role == "tool":
            call = string(message.get("tool_call_id"))
            heard.append(Heard("tool", text, call=call, tool=names.get(call, "")))
        elif role == "function":
            heard.append(Heard("tool", text, tool=string(message.get("name"))))
        else:
            heard.append(Heard("user", text))
    return tuple(heard)


def _continues_outputs(message: dict[str, Any]) -> bool:
    """Whether a user message behind tool outputs carries what the tools returned besides text, so that no user said it.

    The API takes text only in a tool's message, so clients send its pictures and files in a user message behind the outputs, with at
    most labels before them ("Returned by take_photo:"). A message in which a user says something about a picture is not such a one.
    """
    parts = mappings(message.get("content")) if message.get("role") == "user" else []
    texts = [string(part.get("text")).rstrip() for part in parts if part.get("type") == "text"]
    return len(texts) < len(parts) and all(not text or text.endswith(":") for text in texts)


def _use(call: dict[str, Any]) -> Use:
    called = mapping(call.get("function") or call.get("custom"))
    given = called.get("arguments", called.get("input"))
    return Use(string(called.get("name")), given if isinstance(given, str) else as_text(given), string(call.get("id")))


def _offer(body: dict[str, Any]) -> tuple[tuple[Tool, ...], str]:
    """The tools the model may call, and which it must."""
    tools = [_tool(tool) for tool in mappings(body.get("tools"))]
    choice: Any = body.get("tool_choice")
    if not tools:
        tools = [_tool({"function": function}) for function in listing(body.get("functions"))]
        choice = body.get("function_call")
    offered = tuple(tool for tool in tools if tool.name)
    if not isinstance(choice, dict):
        return offered, choice if choice in ("none", "required") else "auto"
    if choice.get("type") == "allowed_tools":
        return _allowed(offered, mapping(choice.get("allowed_tools")))
    named = mapping(choice.get("function") or choice.get("custom") or choice)
    return offered, string(named.get("name")) or "auto"


def _allowed(offered: tuple[Tool, ...], allowed: dict[str, Any]) -> tuple[tuple[Tool, ...], str]:
    """The same where a request allows some of the tools that it declares."""
    names = {_tool(tool).name for tool in mappings(allowed.get("tools"))}
    return tuple(tool for tool in offered if tool.name in names), "required" if allowed.get("mode") == "required" else "auto"


def _tool(tool: dict[str, Any]) -> Tool:
    if "custom" in tool:
        custom = mapping(tool["custom"])
        return Tool(string(custom.get("name")), string(custom.get("description")), _FREE_TEXT)
    function = mapping(tool.get("function"))
    return Tool(string(function.get("name")), string(function.get("description")), mapping(function.get("parameters")))


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    wanted = mapping(body.get("response_format"))
    if wanted.get("type") == "json_object":
        return {"type": "object"}
    if wanted.get("type") == "json_schema":
        return mapping(mapping(wanted.get("json_schema")).get("schema")) or {"type": "object"}
    return None
