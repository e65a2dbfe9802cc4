"""The shape of a Chat Completions request: its members, their types, and the order in which they are checked.

Roles and parts as in the API's reference of 2026-11; everything that a reply's message has may be sent back. The order of the fields was
not measured (D), but the Responses API begins with its input too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from legato.providers.rules.chat.rule_switches import ChatRuleSwitches
from legato.providers.rules.chat.shape_checks import (
    EMPTY_ARRAY,
    ShapeCheck,
    any_value,
    array,
    boolean,
    number,
    object_of,
    one_of,
    string,
    string_or_array,
    tagged_union,
    unsupported_value,
    wrong_type,
)
from legato.providers.rules.rule_set import Finding, ShapeFinding

TEXT = string()
CALL_ID = string(limit_switch="id_limit", too_long_rule="C5")
FUNCTION_NAME = string(limit_switch="name_limit", too_long_rule="C7", is_name=True)
EXPECTED_STRING_OR_PARTS = "one of a string or array of objects"

IMAGE_AS_URL_MODELS = ("gpt-4-vision-preview", "gpt-4-1106-vision-preview")
"""Models that accepted the URL of an image in place of an object with it, as seen in 2023-11."""

IMAGE = object_of({"url": TEXT}, {"detail": one_of("auto", "low", "high", "original")})


def image(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
    """An image: an object with its URL, or, where shapes need not be strict, the URL itself."""
    return (TEXT if isinstance(value, str) and not switches.strict_shapes else IMAGE)(switches, value, path)


TEXT_PART = object_of({"type": TEXT, "text": TEXT}, {"prompt_cache_breakpoint": any_value})
USER_PARTS = tagged_union(
    "type",
    {
        "text": TEXT_PART,
        "image_url": object_of(
            {"type": TEXT, "image_url": image},
            {"prompt_cache_breakpoint": any_value},
        ),
        "input_audio": object_of(
            {"type": TEXT, "input_audio": object_of({"data": TEXT, "format": one_of("wav", "mp3")})}, {"prompt_cache_breakpoint": any_value}
        ),
        "file": object_of(
            {"type": TEXT, "file": object_of({}, {"file_data": TEXT, "file_id": TEXT, "filename": TEXT})},
            {"prompt_cache_breakpoint": any_value},
        ),
    },
)
TEXT_PARTS = tagged_union("type", {"text": TEXT_PART})
ASSISTANT_PARTS = tagged_union("type", {"text": TEXT_PART, "refusal": object_of({"type": TEXT, "refusal": TEXT})})


def content(parts: ShapeCheck) -> ShapeCheck:
    """A string or parts. Null passes: rule C4 checks for it, last of all."""
    return string_or_array(TEXT, array(parts, empty_rule=EMPTY_ARRAY), EXPECTED_STRING_OR_PARTS, is_nullable=True)


FUNCTION_CALL = object_of({"name": FUNCTION_NAME, "arguments": TEXT})
TOOL_CALLS = array(
    tagged_union(
        "type",
        {
            "function": object_of({"id": CALL_ID, "type": TEXT, "function": FUNCTION_CALL}, {"index": any_value}),
            "custom": object_of(
                {"id": CALL_ID, "type": TEXT, "custom": object_of({"name": FUNCTION_NAME, "input": TEXT})}, {"index": any_value}
            ),
        },
        default_tag="function",
    ),
    empty_rule="C3",
)


def tool_message(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
    """A tool message. The API has an error message of its own for one without the id of its call."""
    if "tool_call_id" not in value or value["tool_call_id"] is None:
        # Here, and in C1, C2 and C4, the API writes a path with a dot before the bracket.
        param = path.replace("[", ".[") + ".tool_call_id"
        message = "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'."
        yield ShapeFinding("CM1", Finding(message, param=param, path=f"{path}.tool_call_id"))
        return
    yield from TOOL_MESSAGE(switches, value, path)


TOOL_MESSAGE = object_of({"role": TEXT, "content": content(TEXT_PARTS), "tool_call_id": CALL_ID}, {"name": TEXT})
SYSTEM_MESSAGE = object_of({"role": TEXT, "content": content(TEXT_PARTS)}, {"name": FUNCTION_NAME})
MESSAGE = tagged_union(
    "role",
    {
        "system": SYSTEM_MESSAGE,
        "assistant": object_of(
            {"role": TEXT},
            {
                "content": content(ASSISTANT_PARTS),
                "name": FUNCTION_NAME,
                "refusal": TEXT,
                "audio": object_of({}, is_open=True),
                "function_call": FUNCTION_CALL,
                "tool_calls": TOOL_CALLS,
                "annotations": array(any_value),
            },
        ),
        "user": object_of({"role": TEXT, "content": content(USER_PARTS)}, {"name": FUNCTION_NAME}),
        "function": object_of({"role": TEXT, "name": FUNCTION_NAME, "content": content(TEXT_PARTS)}),
        "tool": tool_message,
        "developer": SYSTEM_MESSAGE,
    },
    rule_id="C10",
)

FUNCTION = object_of({"name": FUNCTION_NAME}, {"description": TEXT, "parameters": object_of({}, is_open=True), "strict": boolean})
CUSTOM = object_of({"name": FUNCTION_NAME}, {"description": TEXT, "format": object_of({"type": one_of("text", "grammar")}, is_open=True)})
TOOL = tagged_union(
    "type",
    {"function": object_of({"type": TEXT, "function": FUNCTION}), "custom": object_of({"type": TEXT, "custom": CUSTOM})},
    default_tag="function",
)
NAMED_TOOL_SHAPES = {
    "function": object_of({"type": TEXT, "function": object_of({"name": TEXT})}),
    "custom": object_of({"type": TEXT, "custom": object_of({"name": TEXT})}),
}
TOOL_CHOICE_OBJECT = tagged_union(
    "type",
    {
        **NAMED_TOOL_SHAPES,
        "allowed_tools": object_of(
            {"type": TEXT, "allowed_tools": object_of({"mode": one_of("auto", "required"), "tools": array(object_of({}, is_open=True))})}
        ),
    },
    default_tag="function",
)
TOOL_CHOICE_WORDS = ("none", "auto", "required")


def tool_choice(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
    """A word, or an object that names the tool."""
    if isinstance(value, str):
        if value not in TOOL_CHOICE_WORDS:
            yield unsupported_value(path, value, TOOL_CHOICE_WORDS)
    elif isinstance(value, dict):
        yield from TOOL_CHOICE_OBJECT(switches, value, path)
    else:
        yield wrong_type(path, "one of a string or object", value)


NAMED_FUNCTION = object_of({"name": TEXT})
FUNCTION_CHOICE_WORD = one_of("none", "auto")


def function_call_choice(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
    """The deprecated way to force a function: a word, or an object with its name."""
    return (NAMED_FUNCTION if isinstance(value, dict) else FUNCTION_CHOICE_WORD)(switches, value, path)


RESPONSE_FORMAT = tagged_union(
    "type",
    {
        "json_object": object_of({"type": TEXT}),
        "json_schema": object_of(
            {
                "type": TEXT,
                "json_schema": object_of(
                    {"name": FUNCTION_NAME}, {"description": TEXT, "schema": object_of({}, is_open=True), "strict": boolean}
                ),
            }
        ),
        "text": object_of({"type": TEXT}),
    },
)
OPEN_OBJECT = object_of({}, is_open=True)

FIELD_CHECKS: dict[str, ShapeCheck] = {
    "messages": array(MESSAGE, empty_rule="C11c", type_rule="C11b"),
    "model": TEXT,
    "tools": array(TOOL, limit_switch="tool_limit", too_long_rule="C8", empty_rule="CT1"),
    "tool_choice": tool_choice,
    "parallel_tool_calls": boolean,
    "functions": array(FUNCTION, limit_switch="tool_limit", empty_rule="CT1"),
    "function_call": function_call_choice,
    "response_format": RESPONSE_FORMAT,
    "stream": boolean,
    "stream_options": object_of({}, {"include_usage": boolean, "include_obfuscation": boolean}),
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "n": number(1, 128, is_integer=True),
    "max_tokens": number(1, is_integer=True),
    "max_completion_tokens": number(1, is_integer=True),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "stop": string_or_array(TEXT, array(TEXT, "strings", limit_switch="stop_limit"), "one of a string or array of strings"),
    "logprobs": boolean,
    "top_logprobs": number(0, 20, is_integer=True),
    "logit_bias": OPEN_OBJECT,
    "seed": number(is_integer=True),
    "reasoning_effort": one_of("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "verbosity": one_of("low", "medium", "high"),
    "modalities": array(one_of("text", "audio"), "strings"),
    "audio": OPEN_OBJECT,
    "prediction": OPEN_OBJECT,
    "metadata": OPEN_OBJECT,
    "store": boolean,
    "user": TEXT,
    "safety_identifier": TEXT,
    "prompt_cache_key": TEXT,
    "prompt_cache_options": OPEN_OBJECT,
    "prompt_cache_retention": one_of("in_memory", "24h"),
    "service_tier": one_of("auto", "default", "flex", "scale", "priority", "fast"),
    "moderation": OPEN_OBJECT,
    "web_search_options": OPEN_OBJECT,
}


def check_fields(switches: ChatRuleSwitches, request: dict[str, Any]) -> Iterator[ShapeFinding]:
    """Yield what is wrong with a request's fields, in order. A null field counts as absent, except `messages`."""
    if request.get("model") in IMAGE_AS_URL_MODELS:
        switches = replace(switches, strict_shapes=False)
    for field, check in FIELD_CHECKS.items():
        if field in request and (request[field] is not None or field == "messages"):
            yield from check(switches, request[field], field)
