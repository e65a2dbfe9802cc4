"""The rules about the value of one field, in the order in which the server checks the fields.

A null field counts as absent. The rules about `tools` and `tool_choice`, which the server checks in between, are in tool_rules.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from legato.providers.rules.json_schemas import describe_non_object
from legato.providers.rules.responses.check_order import EARLY_FIELDS, LATE_FIELDS, RULES
from legato.providers.rules.responses.error_messages import (
    AS_OF,
    describe_type,
    format_number,
    join_quoted,
    missing_member,
    string_too_long,
    unknown_member,
    unsupported_value,
    wrong_type,
)
from legato.providers.rules.responses.request_context import ResponsesContext, as_text
from legato.providers.rules.responses.shape_checks import (
    ShapeCheck,
    an_object,
    array_of_objects,
    array_of_values,
    boolean,
    decimal,
    integer,
    object_of,
    object_with_id,
    one_of,
    string,
)
from legato.providers.rules.responses.strict_schemas import describe_open_objects
from legato.providers.rules.rule_set import EvidenceGrade, Finding, Phase

INCLUDE_VALUES = (
    "file_search_call.results", "web_search_call.results", "web_search_call.action.sources", "message.input_image.image_url",
    "computer_call_output.output.image_url", "code_interpreter_call.outputs", "reasoning.encrypted_content",
    "message.output_text.logprobs",
)  # fmt: skip
EFFORT_VALUES = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
TEXT_FORMAT_TYPES = ("json_object", "text", "json_schema")
ID_PATTERN = re.compile(r"[a-zA-Z0-9_-]*", re.ASCII)


# -- the shapes of some fields -----------------------------------------------------------------------------------------


SUMMARY = one_of("concise", "detailed", "auto")


def conversation(name: str, value: Any) -> Iterator[Finding]:
    """An id, or an object that has one."""
    if not isinstance(value, str):
        yield from object_with_id("one of a string or object")(name, value)


def metadata(name: str, value: Any) -> Iterator[Finding]:
    """An object whose values are strings."""
    if not isinstance(value, dict):
        yield wrong_type(name, "a metadata object", value)
        return
    for key, inner in value.items():
        yield from string(f"{name}.{key}", inner)


def effort(name: str, value: Any) -> Iterator[Finding]:
    """A reasoning effort. The server words a wrong type in two ways."""
    if isinstance(value, str):
        if value not in EFFORT_VALUES:
            yield unsupported_value(name, value, EFFORT_VALUES)
    elif describe_type(value) == "an integer":
        yield wrong_type(name, "one of 'minimal', 'low', 'medium', or 'high'", value)
    else:
        yield wrong_type(name, f"one of one of {join_quoted(EFFORT_VALUES, 'or')} or integer", value)


def text_format(name: str, value: Any) -> Iterator[Finding]:
    """Plain text, JSON, or JSON with a named schema."""
    if not isinstance(value, dict):
        yield wrong_type(name, "an object", value)
    elif as_text(value.get("type")) not in TEXT_FORMAT_TYPES:
        yield unsupported_value(f"{name}.type", value.get("type"), TEXT_FORMAT_TYPES)
    elif value["type"] == "json_schema":
        for member, check in (("name", string), ("schema", an_object)):
            if value.get(member) is None:
                yield missing_member(f"{name}.{member}")
            else:
                yield from check(f"{name}.{member}", value[member])


# -- the fields, in the server's order ---------------------------------------------------------------------------------


def add_field_rule(id: str, name: str, expectation: str, check: ShapeCheck, grade: EvidenceGrade = "A", phase: Phase = LATE_FIELDS) -> None:
    """Add a rule about the shape of a field."""

    @RULES.rule(id, f"`{name}` is {expectation}.", phase, grade=grade, as_of=AS_OF)
    def find(context: ResponsesContext) -> Iterator[Finding]:
        value = context.get_field(name)
        if value is not None:
            yield from check(name, value)


add_field_rule("V1", "previous_response_id", "a string", string, phase=EARLY_FIELDS)


@RULES.rule("S4", "`previous_response_id` has only letters, digits, _ and -.", EARLY_FIELDS, grade="C", as_of=AS_OF, code="invalid_value")
def a_response_id_matches_the_pattern(context: ResponsesContext) -> Iterator[Finding]:
    id = context.previous_response_id
    if id is not None and not ID_PATTERN.fullmatch(id):
        yield Finding(
            f"Invalid 'previous_response_id': '{id}'. Expected an ID that contains letters, numbers, underscores, "
            "or dashes, but this value contained additional characters.",
            "previous_response_id",
        )


add_field_rule("V2", "prompt", "an object with the id of a stored prompt", object_with_id("an object"), phase=EARLY_FIELDS)
add_field_rule("V3", "moderation", "an object", an_object, phase=EARLY_FIELDS)
add_field_rule("V4", "include", "an array of values that can be included", array_of_values(INCLUDE_VALUES), phase=EARLY_FIELDS)

add_field_rule("V7", "metadata", "an object of strings", metadata)


@RULES.rule("O3", "`metadata` has at most 16 keys.", LATE_FIELDS, grade="A", as_of=AS_OF, code="object_above_max_properties")
def metadata_has_few_keys(context: ResponsesContext) -> Iterator[Finding]:
    value = context.get_field("metadata")
    if isinstance(value, dict) and len(value) > 16:
        yield Finding(
            "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, "
            f"but got an object with {len(value)} properties instead.",
            "metadata",
        )


@RULES.rule(
    "O4", "A key of `metadata` has at most 64 characters.", LATE_FIELDS, grade="A", as_of=AS_OF, code="property_name_above_max_length"
)
def metadata_keys_are_short(context: ResponsesContext) -> Iterator[Finding]:
    value = context.get_field("metadata")
    for key in value if isinstance(value, dict) else ():
        if len(key) > 64:
            yield Finding(
                f"Invalid property name in 'metadata': '{key}' is too long. Expected a string with maximum length 64, "
                f"but got a string with length {len(key)} instead.",
                f"metadata.{key}",
            )


@RULES.rule("O5", "A value of `metadata` has at most 512 characters.", LATE_FIELDS, grade="A", as_of=AS_OF)
def metadata_values_are_short(context: ResponsesContext) -> Iterator[Finding]:
    value = context.get_field("metadata")
    for key, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, str) and len(inner) > 512:
            yield string_too_long(f"metadata.{key}", 512, inner)


add_field_rule(
    "V8", "text", "an object with format and verbosity", object_of(format=text_format, verbosity=one_of("low", "medium", "high"))
)


def _get_text_format(context: ResponsesContext) -> dict[str, Any]:
    value = context.get_field("text")
    output_format = value.get("format") if isinstance(value, dict) else None
    return output_format if isinstance(output_format, dict) else {}


def _invalid_output_schema(output_format: dict[str, Any], problem: str) -> Finding:
    return Finding(f"Invalid schema for response_format '{as_text(output_format.get('name'))}': {problem}", "text.format.schema")


@RULES.rule("O13", "A strict output schema is closed.", LATE_FIELDS, grade="D", as_of=AS_OF, code="invalid_json_schema")
def a_strict_format_is_closed(context: ResponsesContext) -> Iterator[Finding]:
    output_format = _get_text_format(context)
    if output_format.get("strict") is True:
        for problem in describe_open_objects(output_format.get("schema")):
            yield _invalid_output_schema(output_format, problem)


@RULES.rule("O17", "An output schema is of an object.", LATE_FIELDS, grade="D", as_of=AS_OF, code="invalid_json_schema")
def a_format_is_of_an_object(context: ResponsesContext) -> Iterator[Finding]:
    output_format = _get_text_format(context)
    schema = output_format.get("schema")
    if isinstance(schema, dict) and (problem := describe_non_object(schema)):
        yield _invalid_output_schema(output_format, problem)


# The type of these fields was measured. The bounds are quoted for temperature elsewhere, and documented for the rest.
add_field_rule("V9", "temperature", "a number from 0 to 2", decimal(0, 2), "B")
add_field_rule("V10", "top_p", "a number from 0 to 1", decimal(0, 1), "C")
add_field_rule("V11", "presence_penalty", "a number from -2 to 2", decimal(-2, 2), "C")
add_field_rule("V12", "frequency_penalty", "a number from -2 to 2", decimal(-2, 2), "C")
add_field_rule("V13", "parallel_tool_calls", "true or false", boolean)
add_field_rule("V14", "stream", "true or false", boolean)
add_field_rule(
    "V15", "stream_options", "an object that may have include_obfuscation", object_of(include_obfuscation=boolean, include_usage=None)
)


@RULES.rule("O8", "`stream_options` has no include_usage: usage is always sent.", LATE_FIELDS, grade="A", as_of=AS_OF)
def stream_options_have_no_include_usage(context: ResponsesContext) -> Iterator[Finding]:
    value = context.get_field("stream_options")
    if isinstance(value, dict) and "include_usage" in value:
        yield unknown_member("stream_options.include_usage")


add_field_rule("V16", "background", "true or false", boolean)
add_field_rule("V17", "max_output_tokens", "an integer", integer())


def _add_minimum_rule(id: str, name: str, low: int) -> None:
    @RULES.rule(id, f"`{name}` is at least {low}.", LATE_FIELDS, grade="A", as_of=AS_OF, code="integer_below_min_value")
    def find(context: ResponsesContext) -> Iterator[Finding]:
        value = context.get_field(name)
        if isinstance(value, int) and not isinstance(value, bool) and value < low:
            yield Finding(
                f"Invalid '{name}': integer below minimum value. Expected a value >= {low}, but got {format_number(value)} instead.", name
            )


_add_minimum_rule("O1", "max_output_tokens", 16)
add_field_rule("V18", "max_tool_calls", "an integer", integer())
_add_minimum_rule("O2", "max_tool_calls", 1)
add_field_rule(
    "V19",
    "reasoning",
    "an object with effort, summary (earlier: generate_summary), context and mode",
    object_of(effort=effort, summary=SUMMARY, generate_summary=SUMMARY, context=string, mode=string),
)


@RULES.rule(
    "O19",
    "`reasoning.summary` is not called `generate_summary`, its earlier name.",
    LATE_FIELDS,
    grade="C",
    as_of="2026-10",
    switch="refuses_generate_summary",
)
def a_summary_has_its_current_name(context: ResponsesContext) -> Iterator[Finding]:
    value = context.get_field("reasoning")
    if isinstance(value, dict) and "generate_summary" in value:
        yield unknown_member("reasoning.generate_summary")


add_field_rule("V20", "user", "a string", string)
add_field_rule("V21", "safety_identifier", "a string", string)
add_field_rule(
    "V22",
    "prompt_cache_options",
    "an object with mode, time to live and prewarm",
    object_of(mode=one_of("implicit", "explicit"), ttl=string, prewarm=boolean, comparison_response_id=string),
    "C",
)
add_field_rule("V23", "prompt_cache_key", "a string", string)


@RULES.rule("O6", "`prompt_cache_key` has at most 64 characters.", LATE_FIELDS, grade="A", as_of=AS_OF)
def a_cache_key_is_short(context: ResponsesContext) -> Iterator[Finding]:
    value = context.get_field("prompt_cache_key")
    if isinstance(value, str) and len(value) > 64:
        yield string_too_long("prompt_cache_key", 64, value)


add_field_rule("V24", "prompt_cache_retention", "'in_memory' or '24h'", one_of("in_memory", "24h"))
add_field_rule("O7", "truncation", "'auto' or 'disabled'", one_of("auto", "disabled"))
add_field_rule("V25", "instructions", "a string", string)
add_field_rule("V26", "store", "true or false", boolean)
add_field_rule(
    "V27", "service_tier", "the name of a tier", one_of("auto", "default", "fast", "flex", "priority", unlisted=("scale", "ultrafast"))
)
add_field_rule("V28", "top_logprobs", "an integer from 0 to 20", integer(0, 20), "C")
add_field_rule("V29", "context_management", "an array of objects", array_of_objects)
add_field_rule("V30", "conversation", "the id of a conversation, or an object that has it", conversation, "D")
add_field_rule("V31", "access_programs", "an object", an_object, "D")
add_field_rule("V32", "image", "an object", an_object, "D")
add_field_rule("V34", "client_metadata", "an object", an_object, "D")
