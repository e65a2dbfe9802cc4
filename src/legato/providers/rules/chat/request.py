"""The shape of a Chat Completions request. May know: `shapes.py`. Decides: which members there are, of which types, in which order.

Roles and parts as in the API's reference of 2026-11; everything that a reply's message carries may be sent back. The order of the
fields is the order of complaints; it was not measured (D), but the Responses API begins with its input too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from legato.providers.rules.chat.profile import Profile
from legato.providers.rules.chat.shapes import (
    EMPTY_ARRAY,
    Check,
    Found,
    anything,
    array,
    choice,
    either,
    flag,
    number,
    record,
    tagged,
    text,
    unsupported,
    wrong_type,
)
from legato.providers.rules.rule_set import Fault

TEXT = text()
CALL_ID = text(limit="id_limit", long="C5")
FUNCTION_NAME = text(limit="name_limit", long="C7", name=True)
STRING_OR_PARTS = "one of a string or array of objects"

PICTURES_AS_TEXT = ("gpt-4-vision-preview", "gpt-4-1106-vision-preview")
"""Models that took the address of a picture in place of an object with it, as seen in 2023-11."""

PICTURE = record({"url": TEXT}, {"detail": choice("auto", "low", "high", "original")})


def picture(profile: Profile, value: Any, path: str) -> Iterator[Found]:
    """A picture: an object with its address, or, where shapes need not be strict, the address itself."""
    return (TEXT if isinstance(value, str) and not profile.strict_shapes else PICTURE)(profile, value, path)


TEXT_PART = record({"type": TEXT, "text": TEXT}, {"prompt_cache_breakpoint": anything})
USER_PARTS = tagged(
    "type",
    {
        "text": TEXT_PART,
        "image_url": record(
            {"type": TEXT, "image_url": picture},
            {"prompt_cache_breakpoint": anything},
        ),
        "input_audio": record(
            {"type": TEXT, "input_audio": record({"data": TEXT, "format": choice("wav", "mp3")})}, {"prompt_cache_breakpoint": anything}
        ),
        "file": record(
            {"type": TEXT, "file": record({}, {"file_data": TEXT, "file_id": TEXT, "filename": TEXT})},
            {"prompt_cache_breakpoint": anything},
        ),
    },
)
TEXT_PARTS = tagged("type", {"text": TEXT_PART})
ASSISTANT_PARTS = tagged("type", {"text": TEXT_PART, "refusal": record({"type": TEXT, "refusal": TEXT})})


def content(parts: Check) -> Check:
    """A string or parts. A null is let through: C4 judges it, last of all."""
    return either(TEXT, array(parts, empty=EMPTY_ARRAY), STRING_OR_PARTS, null=True)


FUNCTION_CALL = record({"name": FUNCTION_NAME, "arguments": TEXT})
TOOL_CALLS = array(
    tagged(
        "type",
        {
            "function": record({"id": CALL_ID, "type": TEXT, "function": FUNCTION_CALL}, {"index": anything}),
            "custom": record({"id": CALL_ID, "type": TEXT, "custom": record({"name": FUNCTION_NAME, "input": TEXT})}, {"index": anything}),
        },
        default="function",
    ),
    empty="C3",
)


def tool_message(profile: Profile, value: Any, path: str) -> Iterator[Found]:
    """A tool's answer, which says in a text of its own that it lacks the id of its call."""
    if "tool_call_id" not in value or value["tool_call_id"] is None:
        # Here, and in C1, C2 and C4, the API writes a path with a dot before the bracket.
        at = path.replace("[", ".[") + ".tool_call_id"
        told = "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'."
        yield Found("CM1", Fault(told, param=at, path=f"{path}.tool_call_id"))
        return
    yield from TOOL_MESSAGE(profile, value, path)


TOOL_MESSAGE = record({"role": TEXT, "content": content(TEXT_PARTS), "tool_call_id": CALL_ID}, {"name": TEXT})
SYSTEM_MESSAGE = record({"role": TEXT, "content": content(TEXT_PARTS)}, {"name": FUNCTION_NAME})
MESSAGE = tagged(
    "role",
    {
        "system": SYSTEM_MESSAGE,
        "assistant": record(
            {"role": TEXT},
            {
                "content": content(ASSISTANT_PARTS),
                "name": FUNCTION_NAME,
                "refusal": TEXT,
                "audio": record({}, open=True),
                "function_call": FUNCTION_CALL,
                "tool_calls": TOOL_CALLS,
                "annotations": array(anything),
            },
        ),
        "user": record({"role": TEXT, "content": content(USER_PARTS)}, {"name": FUNCTION_NAME}),
        "function": record({"role": TEXT, "name": FUNCTION_NAME, "content": content(TEXT_PARTS)}),
        "tool": tool_message,
        "developer": SYSTEM_MESSAGE,
    },
    clause="C10",
)

FUNCTION = record({"name": FUNCTION_NAME}, {"description": TEXT, "parameters": record({}, open=True), "strict": flag})
CUSTOM = record({"name": FUNCTION_NAME}, {"description": TEXT, "format": record({"type": choice("text", "grammar")}, open=True)})
TOOL = tagged(
    "type",
    {"function": record({"type": TEXT, "function": FUNCTION}), "custom": record({"type": TEXT, "custom": CUSTOM})},
    default="function",
)
NAMED_TOOL = {
    "function": record({"type": TEXT, "function": record({"name": TEXT})}),
    "custom": record({"type": TEXT, "custom": record({"name": TEXT})}),
}
TOOL_CHOICE = tagged(
    "type",
    {
        **NAMED_TOOL,
        "allowed_tools": record(
            {"type": TEXT, "allowed_tools": record({"mode": choice("auto", "required"), "tools": array(record({}, open=True))})}
        ),
    },
    default="function",
)
TOOL_CHOICES = ("none", "auto", "required")


def tool_choice(profile: Profile, value: Any, path: str) -> Iterator[Found]:
    """A word, or an object that names the tool."""
    if isinstance(value, str):
        if value not in TOOL_CHOICES:
            yield unsupported(path, value, TOOL_CHOICES)
    elif isinstance(value, dict):
        yield from TOOL_CHOICE(profile, value, path)
    else:
        yield wrong_type(path, "one of a string or object", value)


NAMED_FUNCTION = record({"name": TEXT})
FUNCTION_CHOICE = choice("none", "auto")


def function_choice(profile: Profile, value: Any, path: str) -> Iterator[Found]:
    """The older way to force a function: a word, or an object with its name."""
    return (NAMED_FUNCTION if isinstance(value, dict) else FUNCTION_CHOICE)(profile, value, path)


RESPONSE_FORMAT = tagged(
    "type",
    {
        "json_object": record({"type": TEXT}),
        "json_schema": record(
            {
                "type": TEXT,
                "json_schema": record({"name": FUNCTION_NAME}, {"description": TEXT, "schema": record({}, open=True), "strict": flag}),
            }
        ),
        "text": record({"type": TEXT}),
    },
)
OPEN_OBJECT = record({}, open=True)

FIELDS: dict[str, Check] = {
    "messages": array(MESSAGE, empty="C11c", type_clause="C11b"),
    "model": TEXT,
    "tools": array(TOOL, limit="tool_limit", long="C8", empty="CT1"),
    "tool_choice": tool_choice,
    "parallel_tool_calls": flag,
    "functions": array(FUNCTION, limit="tool_limit", empty="CT1"),
    "function_call": function_choice,
    "response_format": RESPONSE_FORMAT,
    "stream": flag,
    "stream_options": record({}, {"include_usage": flag, "include_obfuscation": flag}),
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "n": number(1, 128, whole=True),
    "max_tokens": number(1, whole=True),
    "max_completion_tokens": number(1, whole=True),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "stop": either(TEXT, array(TEXT, "strings", limit="stop_limit"), "one of a string or array of strings"),
    "logprobs": flag,
    "top_logprobs": number(0, 20, whole=True),
    "logit_bias": OPEN_OBJECT,
    "seed": number(whole=True),
    "reasoning_effort": choice("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "verbosity": choice("low", "medium", "high"),
    "modalities": array(choice("text", "audio"), "strings"),
    "audio": OPEN_OBJECT,
    "prediction": OPEN_OBJECT,
    "metadata": OPEN_OBJECT,
    "store": flag,
    "user": TEXT,
    "safety_identifier": TEXT,
    "prompt_cache_key": TEXT,
    "prompt_cache_options": OPEN_OBJECT,
    "prompt_cache_retention": choice("in_memory", "24h"),
    "service_tier": choice("auto", "default", "flex", "scale", "priority", "fast"),
    "moderation": OPEN_OBJECT,
    "web_search_options": OPEN_OBJECT,
}


def differences(profile: Profile, request: dict[str, Any]) -> Iterator[Found]:
    """What is wrong with a request's fields, in order. Null means that a field was left out, except `messages`."""
    if request.get("model") in PICTURES_AS_TEXT:
        profile = replace(profile, strict_shapes=False)
    for field, check in FIELDS.items():
        if field in request and (request[field] is not None or field == "messages"):
            yield from check(profile, request[field], field)
