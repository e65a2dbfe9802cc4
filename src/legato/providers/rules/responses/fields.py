"""The schemas of the other fields. May know: what was sent. Decides: what is wrong with one field's value.

The rows stand in the order in which the server looks at the fields; `tools` and `tool_choice` come between, in tools.py. A field
that is null counts as left out. One row, one clause: what the field is, and the check that finds out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from legato.providers.rules.json_schemas import not_an_object
from legato.providers.rules.responses.book import BOOK, EARLY_FIELDS, LATE_FIELDS
from legato.providers.rules.responses.case import Case, text
from legato.providers.rules.responses.schemas import not_closed
from legato.providers.rules.responses.texts import (
    SEEN,
    listed,
    missing,
    named,
    not_one_of,
    out_of_range,
    shown,
    too_long,
    unknown,
    wrong_type,
)
from legato.providers.rules.rule_set import Fault, Grade, Phase

Check: TypeAlias = Callable[[str, Any], Iterator[Fault]]

INCLUDABLE = (
    "file_search_call.results", "web_search_call.results", "web_search_call.action.sources", "message.input_image.image_url",
    "computer_call_output.output.image_url", "code_interpreter_call.outputs", "reasoning.encrypted_content",
    "message.output_text.logprobs",
)  # fmt: skip
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
FORMATS = ("json_object", "text", "json_schema")
ID = re.compile(r"[a-zA-Z0-9_-]*", re.ASCII)


# -- checks ------------------------------------------------------------------------------------------------------------


def of(kind: type, expected: str) -> Check:
    """The value has a type, said in the server's words."""

    def check(name: str, value: Any) -> Iterator[Fault]:
        if not isinstance(value, kind):
            yield wrong_type(name, expected, value)

    return check


def integer(low: int | None = None, high: int | None = None) -> Check:
    """A whole number within bounds."""

    def check(name: str, value: Any) -> Iterator[Fault]:
        if not isinstance(value, int) or isinstance(value, bool):
            yield wrong_type(name, "an integer", value)
        elif fault := out_of_range(name, value, low, high, "integer"):
            yield fault

    return check


def decimal(low: int, high: int) -> Check:
    """A number within bounds."""

    def check(name: str, value: Any) -> Iterator[Fault]:
        if not isinstance(value, int | float) or isinstance(value, bool):
            yield wrong_type(name, "a decimal", value)
        elif fault := out_of_range(name, value, low, high, "decimal"):
            yield fault

    return check


def one_of(*values: str, also: Sequence[str] = ()) -> Check:
    """One of the values that are printed, or one that is accepted although it is not."""

    def check(name: str, value: Any) -> Iterator[Fault]:
        if not isinstance(value, str):
            yield wrong_type(name, f"one of {listed(values, 'or')}", value)
        elif value not in values and value not in also:
            yield not_one_of(name, value, values)

    return check


def object_of(**members: Check | None) -> Check:
    """An object with these members and no others; null members count as left out."""

    def check(name: str, value: Any) -> Iterator[Fault]:
        if not isinstance(value, dict):
            yield wrong_type(name, "an object", value)
            return
        for member, inner in value.items():
            if member not in members:
                yield unknown(f"{name}.{member}")
            elif inner is not None and (find := members[member]) is not None:
                yield from find(f"{name}.{member}", inner)

    return check


SUMMARY = one_of("concise", "detailed", "auto")
string = of(str, "a string")
boolean = of(bool, "a boolean")
an_object = of(dict, "an object")


def strings(values: Sequence[str]) -> Check:
    """An array of some of the values. The refusal of something else shortens their names."""
    short = listed([f"{value[:3]}...{value[-3:]}" for value in values], "or")

    def check(name: str, value: Any) -> Iterator[Fault]:
        if not isinstance(value, list):
            yield wrong_type(name, f"an array of one of {short}", value)
            return
        for index, element in enumerate(value):
            if not isinstance(element, str):
                yield wrong_type(f"{name}[{index}]", f"one of {short}", element)
            elif element not in values:
                yield not_one_of(f"{name}[{index}]", element, values)

    return check


def identified(expected: str) -> Check:
    """An object with an id."""

    def check(name: str, value: Any) -> Iterator[Fault]:
        if not isinstance(value, dict):
            yield wrong_type(name, expected, value)
        elif "id" not in value:
            yield missing(f"{name}.id")
        else:
            yield from string(f"{name}.id", value["id"])

    return check


def conversation(name: str, value: Any) -> Iterator[Fault]:
    """An id, or an object that has one."""
    if not isinstance(value, str):
        yield from identified("one of a string or object")(name, value)


def metadata(name: str, value: Any) -> Iterator[Fault]:
    """An object whose values are strings."""
    if not isinstance(value, dict):
        yield wrong_type(name, "a metadata object", value)
        return
    for key, inner in value.items():
        yield from string(f"{name}.{key}", inner)


def effort(name: str, value: Any) -> Iterator[Fault]:
    """How hard to think. The server words a wrong type in two ways."""
    if isinstance(value, str):
        if value not in EFFORTS:
            yield not_one_of(name, value, EFFORTS)
    elif named(value) == "an integer":
        yield wrong_type(name, "one of 'minimal', 'low', 'medium', or 'high'", value)
    else:
        yield wrong_type(name, f"one of one of {listed(EFFORTS, 'or')} or integer", value)


def text_format(name: str, value: Any) -> Iterator[Fault]:
    """Plain text, JSON, or JSON of a schema that has a name."""
    if not isinstance(value, dict):
        yield wrong_type(name, "an object", value)
    elif text(value.get("type")) not in FORMATS:
        yield not_one_of(f"{name}.type", value.get("type"), FORMATS)
    elif value["type"] == "json_schema":
        for member, kind in (("name", string), ("schema", an_object)):
            if value.get(member) is None:
                yield missing(f"{name}.{member}")
            else:
                yield from kind(f"{name}.{member}", value[member])


def objects(name: str, value: Any) -> Iterator[Fault]:
    """An array of objects."""
    if not isinstance(value, list):
        yield wrong_type(name, "an array of objects", value)
        return
    for index, element in enumerate(value):
        yield from an_object(f"{name}[{index}]", element)


# -- the fields, in the server's order ---------------------------------------------------------------------------------


def field(id: str, name: str, rule: str, check: Check, grade: Grade = "A", phase: Phase = LATE_FIELDS) -> None:
    """Write down what a field is."""

    @BOOK.law(id, f"`{name}` is {rule}.", phase, grade=grade, seen=SEEN)
    def find(case: Case) -> Iterator[Fault]:
        value = case.sent(name)
        if value is not None:
            yield from check(name, value)


field("V1", "previous_response_id", "a string", string, phase=EARLY_FIELDS)


@BOOK.law("S4", "`previous_response_id` has only letters, digits, _ and -.", EARLY_FIELDS, grade="C", seen=SEEN, code="invalid_value")
def a_response_id_has_proper_characters(case: Case) -> Iterator[Fault]:
    if case.previous is not None and not ID.fullmatch(case.previous):
        yield Fault(
            f"Invalid 'previous_response_id': '{case.previous}'. Expected an ID that contains letters, numbers, underscores, "
            "or dashes, but this value contained additional characters.",
            "previous_response_id",
        )


field("V2", "prompt", "an object with the id of a stored prompt", identified("an object"), phase=EARLY_FIELDS)
field("V3", "moderation", "an object", an_object, phase=EARLY_FIELDS)
field("V4", "include", "an array of what may be included", strings(INCLUDABLE), phase=EARLY_FIELDS)

field("V7", "metadata", "an object of strings", metadata)


@BOOK.law("O3", "`metadata` has at most 16 keys.", LATE_FIELDS, grade="A", seen=SEEN, code="object_above_max_properties")
def metadata_is_small(case: Case) -> Iterator[Fault]:
    value = case.sent("metadata")
    if isinstance(value, dict) and len(value) > 16:
        yield Fault(
            "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, "
            f"but got an object with {len(value)} properties instead.",
            "metadata",
        )


@BOOK.law("O4", "A key of `metadata` has at most 64 characters.", LATE_FIELDS, grade="A", seen=SEEN, code="property_name_above_max_length")
def metadata_keys_are_short(case: Case) -> Iterator[Fault]:
    value = case.sent("metadata")
    for key in value if isinstance(value, dict) else ():
        if len(key) > 64:
            yield Fault(
                f"Invalid property name in 'metadata': '{key}' is too long. Expected a string with maximum length 64, "
                f"but got a string with length {len(key)} instead.",
                f"metadata.{key}",
            )


@BOOK.law("O5", "A value of `metadata` has at most 512 characters.", LATE_FIELDS, grade="A", seen=SEEN)
def metadata_values_are_short(case: Case) -> Iterator[Fault]:
    value = case.sent("metadata")
    for key, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, str) and len(inner) > 512:
            yield too_long(f"metadata.{key}", 512, inner)


field("V8", "text", "an object that says format and verbosity", object_of(format=text_format, verbosity=one_of("low", "medium", "high")))


@BOOK.law("O13", "A strict output schema is closed.", LATE_FIELDS, grade="D", seen=SEEN, code="invalid_json_schema")
def a_strict_format_is_closed(case: Case) -> Iterator[Fault]:
    value = case.sent("text")
    form = value.get("format") if isinstance(value, dict) else None
    if isinstance(form, dict) and form.get("strict") is True:
        for problem in not_closed(form.get("schema")):
            yield Fault(f"Invalid schema for response_format '{text(form.get('name'))}': {problem}", "text.format.schema")


@BOOK.law("O17", "An output schema is of an object.", LATE_FIELDS, grade="D", seen=SEEN, code="invalid_json_schema")
def a_format_is_of_an_object(case: Case) -> Iterator[Fault]:
    value = case.sent("text")
    form = value.get("format") if isinstance(value, dict) else None
    schema = form.get("schema") if isinstance(form, dict) else None
    if isinstance(form, dict) and isinstance(schema, dict) and (given := not_an_object(schema)):
        told = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {given}'."
        yield Fault(f"Invalid schema for response_format '{text(form.get('name'))}': {told}", "text.format.schema")


# That these are numbers was measured; the bounds are quoted for temperature elsewhere, and documented for the rest.
field("V9", "temperature", "a number from 0 to 2", decimal(0, 2), "B")
field("V10", "top_p", "a number from 0 to 1", decimal(0, 1), "C")
field("V11", "presence_penalty", "a number from -2 to 2", decimal(-2, 2), "C")
field("V12", "frequency_penalty", "a number from -2 to 2", decimal(-2, 2), "C")
field("V13", "parallel_tool_calls", "true or false", boolean)
field("V14", "stream", "true or false", boolean)
field("V15", "stream_options", "an object that may say include_obfuscation", object_of(include_obfuscation=boolean, include_usage=None))


@BOOK.law("O8", "`stream_options` knows no include_usage: usage always comes.", LATE_FIELDS, grade="A", seen=SEEN)
def usage_need_not_be_included(case: Case) -> Iterator[Fault]:
    value = case.sent("stream_options")
    if isinstance(value, dict) and "include_usage" in value:
        yield unknown("stream_options.include_usage")


field("V16", "background", "true or false", boolean)
field("V17", "max_output_tokens", "an integer", integer())


def _at_least(id: str, name: str, low: int) -> None:
    @BOOK.law(id, f"`{name}` is at least {low}.", LATE_FIELDS, grade="A", seen=SEEN, code="integer_below_min_value")
    def find(case: Case) -> Iterator[Fault]:
        value = case.sent(name)
        if isinstance(value, int) and not isinstance(value, bool) and value < low:
            yield Fault(f"Invalid '{name}': integer below minimum value. Expected a value >= {low}, but got {shown(value)} instead.", name)


_at_least("O1", "max_output_tokens", 16)
field("V18", "max_tool_calls", "an integer", integer())
_at_least("O2", "max_tool_calls", 1)
field(
    "V19",
    "reasoning",
    "an object that says effort, summary (once `generate_summary`), context and mode",
    object_of(effort=effort, summary=SUMMARY, generate_summary=SUMMARY, context=string, mode=string),
)


@BOOK.law(
    "O19",
    "`reasoning.summary` goes by its new name.",
    LATE_FIELDS,
    grade="C",
    seen="2026-10",
    switch="refuses_generate_summary",
)
def a_summary_goes_by_its_new_name(case: Case) -> Iterator[Fault]:
    value = case.sent("reasoning")
    if isinstance(value, dict) and "generate_summary" in value:
        yield unknown("reasoning.generate_summary")


field("V20", "user", "a string", string)
field("V21", "safety_identifier", "a string", string)
field(
    "V22",
    "prompt_cache_options",
    "an object that says mode, time to live and whether to warm up",
    object_of(mode=one_of("implicit", "explicit"), ttl=string, prewarm=boolean, comparison_response_id=string),
    "C",
)
field("V23", "prompt_cache_key", "a string", string)


@BOOK.law("O6", "`prompt_cache_key` has at most 64 characters.", LATE_FIELDS, grade="A", seen=SEEN)
def a_cache_key_is_short(case: Case) -> Iterator[Fault]:
    value = case.sent("prompt_cache_key")
    if isinstance(value, str) and len(value) > 64:
        yield too_long("prompt_cache_key", 64, value)


field("V24", "prompt_cache_retention", "'in_memory' or '24h'", one_of("in_memory", "24h"))
field("O7", "truncation", "'auto' or 'disabled'", one_of("auto", "disabled"))
field("V25", "instructions", "a string", string)
field("V26", "store", "true or false", boolean)
field("V27", "service_tier", "the name of a tier", one_of("auto", "default", "fast", "flex", "priority", also=("scale", "ultrafast")))
field("V28", "top_logprobs", "an integer from 0 to 20", integer(0, 20), "C")
field("V29", "context_management", "an array of objects", objects)
field("V30", "conversation", "the id of a conversation, or an object that has it", conversation, "D")
field("V31", "access_programs", "an object", an_object, "D")
field("V32", "image", "an object", an_object, "D")
field("V34", "client_metadata", "an object", an_object, "D")
