"""Tools and the choice among them. May know: the table of shapes. Decides: what is wrong with a tool, and whether the choice is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.providers.rules.json_schemas import not_an_object
from legato.providers.rules.responses.book import BOOK, EACH_TOOL, TOOL_CHOICE, TOOL_LIST
from legato.providers.rules.responses.case import Case, Tool, text
from legato.providers.rules.responses.items import NAME, NAME_PATTERN
from legato.providers.rules.responses.schemas import not_closed, not_required
from legato.providers.rules.responses.shapes import TOOL_SHAPES, TYPES, fits
from legato.providers.rules.responses.texts import (
    SEEN,
    array_too_long,
    empty,
    missing,
    not_one_of,
    off_pattern,
    too_long,
    unknown,
    wrong_type,
)
from legato.providers.rules.rule_set import Fault

CHOICES = ("none", "auto", "required")
NAMED_BY = {"function": "name", "custom": "name", "mcp": "server_label"}  # tools of these types are chosen by name
CHOICE_TYPES = tuple(sorted((*TOOL_SHAPES, "allowed_tools")))


# -- the list ----------------------------------------------------------------------------------------------------------


@BOOK.law("V5", "`tools` is an array.", TOOL_LIST, grade="A", seen=SEEN)
def tools_are_an_array(case: Case) -> Iterator[Fault]:
    value = case.sent("tools")
    if value is not None and not isinstance(value, list):
        yield wrong_type("tools", "an array of tools", value)


@BOOK.law("T16", "There are at most 128 tools.", TOOL_LIST, grade="D", seen=SEEN, switch="tools_limit")
def tools_are_few(case: Case) -> Iterator[Fault]:
    if len(case.tools) > case.profile.tools_limit:
        yield array_too_long("tools", case.profile.tools_limit, len(case.tools))


@BOOK.law("T17", "No two tools have the same name.", TOOL_LIST, grade="D", seen=SEEN, switch="unique_tool_names", code="invalid_value")
def tools_have_names_of_their_own(case: Case) -> Iterator[Fault]:
    names: set[str] = set()
    for at in case.tools:
        name = text(at.tool.get("name"))
        if name and name in names:
            yield Fault(f"Invalid '{at.path}.name': another tool is already named '{name}'.", f"{at.path}.name")
        names.add(name)


# -- one tool ----------------------------------------------------------------------------------------------------------


@BOOK.law("T26", "A tool is an object of a known type.", EACH_TOOL, grade="D", seen=SEEN)
def a_tool_has_a_known_type(case: Case, at: Tool) -> Iterator[Fault]:
    if at.tool is not at.sent:
        yield wrong_type(at.path, "an object", at.sent)
    elif at.tool.get("type") is not None and at.type not in TOOL_SHAPES:
        yield not_one_of(f"{at.path}.type", at.type, tuple(sorted(TOOL_SHAPES)))


@BOOK.law("T12", "A tool says its type, and a function its name, right there.", EACH_TOOL, grade="A", seen=SEEN)
def a_tool_says_what_it_is(case: Case, at: Tool) -> Iterator[Fault]:
    if at.tool is at.sent and at.tool.get("type") is None:
        yield missing(f"{at.path}.type")
    elif at.type == "function" and "name" not in at.tool:
        yield missing(f"{at.path}.name")


@BOOK.law("T30", "A tool of any other type has what its type requires.", EACH_TOOL, grade="C", seen=SEEN)
def a_tool_is_whole(case: Case, at: Tool) -> Iterator[Fault]:
    if at.type != "function":
        yield from (missing(f"{at.path}.{name}") for name in at.shape.required if name not in at.tool)


@BOOK.law("T29", "The members of a tool have their types.", EACH_TOOL, grade="D", seen=SEEN)
def a_tool_has_proper_members(case: Case, at: Tool) -> Iterator[Fault]:
    for name, kind in at.shape.kinds.items():
        value = at.tool.get(name)
        if name in at.tool and not fits(kind, value) and (value is not None or name in at.shape.required):
            yield wrong_type(f"{at.path}.{name}", TYPES[kind][0], value)


@BOOK.law("T27", "A function or a custom tool has no unknown members.", EACH_TOOL, grade="D", seen=SEEN)
def a_tool_has_no_unknown_members(case: Case, at: Tool) -> Iterator[Fault]:
    if at.shape.closed:
        yield from (unknown(f"{at.path}.{name}") for name in at.tool if name not in at.shape.kinds)


def _name(at: Tool) -> str | None:
    name = at.tool.get("name") if "name" in at.shape.kinds else None
    return name if isinstance(name, str) else None


@BOOK.law("T10", "A tool's name is not empty.", EACH_TOOL, grade="A", seen=SEEN)
def a_tool_has_a_name(case: Case, at: Tool) -> Iterator[Fault]:
    if _name(at) == "":
        yield empty(f"{at.path}.name")


@BOOK.law("T9", "A tool's name has only letters, digits, _ and -.", EACH_TOOL, grade="A", seen=SEEN)
def a_tool_has_a_proper_name(case: Case, at: Tool) -> Iterator[Fault]:
    if (name := _name(at)) and not NAME.fullmatch(name):
        yield off_pattern(f"{at.path}.name", NAME_PATTERN)


@BOOK.law("T11", "A tool's name is not too long.", EACH_TOOL, grade="B", seen=SEEN, switch="tool_name_limit")
def a_tool_has_a_short_name(case: Case, at: Tool) -> Iterator[Fault]:
    if (name := _name(at)) and len(name) > case.profile.tool_name_limit:
        yield too_long(f"{at.path}.name", case.profile.tool_name_limit, name)


@BOOK.law("T31", "A function's parameters are an object.", EACH_TOOL, grade="A", seen="2025-08", code="invalid_function_parameters")
def parameters_are_an_object(case: Case, at: Tool) -> Iterator[Fault]:
    parameters = at.tool.get("parameters")
    if at.type == "function" and isinstance(parameters, dict) and (given := not_an_object(parameters)):
        told = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {given}'."
        yield Fault(f"Invalid schema for function '{_name(at)}': {told}", f"{at.path}.parameters")


@BOOK.law("T15", "The schema of a strict function is closed.", EACH_TOOL, grade="A", seen=SEEN, code="invalid_function_parameters")
def a_strict_function_is_closed(case: Case, at: Tool) -> Iterator[Fault]:
    if at.type == "function" and at.tool.get("strict") is True:
        for problem in not_closed(at.tool.get("parameters")):
            yield Fault(f"Invalid schema for function '{_name(at)}': {problem}", f"{at.path}.parameters")


@BOOK.law(
    "T28", "The schema of a strict function requires every property.", EACH_TOOL, grade="B", seen=SEEN, code="invalid_function_parameters"
)
def a_strict_function_requires_everything(case: Case, at: Tool) -> Iterator[Fault]:
    if at.type == "function" and at.tool.get("strict") is True:
        for problem in not_required(at.tool.get("parameters")):
            yield Fault(f"Invalid schema for function '{_name(at)}': {problem}", f"{at.path}.parameters")


# -- the choice --------------------------------------------------------------------------------------------------------


@BOOK.law("V6", "`tool_choice` is 'none', 'auto', 'required', or an object that names a tool.", TOOL_CHOICE, grade="A", seen=SEEN)
def a_choice_is_a_word_or_a_tool(case: Case) -> Iterator[Fault]:
    value = case.sent("tool_choice")
    if isinstance(value, dict):
        kind = text(value.get("type"))
        if kind and kind not in CHOICE_TYPES:
            yield not_one_of("tool_choice.type", kind, CHOICE_TYPES)
        name = NAMED_BY.get(kind, "type")
        if value.get(name) is None:
            yield missing(f"tool_choice.{name}")
        elif not isinstance(value[name], str):
            yield wrong_type(f"tool_choice.{name}", "a string", value[name])
    elif isinstance(value, str):
        if value not in CHOICES:
            yield not_one_of("tool_choice", value, CHOICES)
    elif value is not None:
        yield wrong_type("tool_choice", "one of an object or 'none', 'auto', or 'required'", value)


def _elsewhere(case: Case) -> bool:
    """Whether tools may come from somewhere else than `tools`."""
    return case.prompt is not None or any(at.type in ("additional_tools", "tool_search_output") for at in case.items)


@BOOK.law("T14", "A tool is forced only where there are tools.", TOOL_CHOICE, grade="A", seen=SEEN)
def a_choice_needs_tools(case: Case) -> Iterator[Fault]:
    value = case.sent("tool_choice")
    if case.tools or _elsewhere(case):
        return
    if value == "required":
        yield Fault("Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice")
    elif isinstance(value, dict) and (kind := text(value.get("type"))) != "allowed_tools":
        yield Fault(f"Tool choice '{kind}' not found in 'tools' parameter.", "tool_choice")


@BOOK.law("T13", "A forced tool is among the tools.", TOOL_CHOICE, grade="A", seen=SEEN)
def a_choice_is_among_the_tools(case: Case) -> Iterator[Fault]:
    value = case.sent("tool_choice")
    if not isinstance(value, dict) or not case.tools or _elsewhere(case):
        return
    kind = text(value.get("type"))
    name = text(value.get(NAMED_BY[kind])) if kind in NAMED_BY else kind
    if kind != "allowed_tools" and (_family(kind), _family(name) if name == kind else name) not in _declared(case):
        yield Fault(f"Tool choice '{name}' not found in 'tools' parameter.", "tool_choice")


def _family(kind: str) -> str:
    """Dated and preview variants of a hosted tool go by one name."""
    return next((family for family in ("web_search", "computer") if kind.startswith(family)), kind)


def _declared(case: Case) -> set[tuple[str, str]]:
    """What may be chosen: type and name of every tool, those of namespaces included; a hosted tool's name is its type."""
    declared = set()
    waiting: list[dict[str, Any]] = [at.tool for at in case.tools]
    for tool in waiting:
        kind = text(tool.get("type"))
        if kind == "namespace" and isinstance(inner := tool.get("tools"), list):
            waiting += [each for each in inner if isinstance(each, dict)]
        declared.add((_family(kind), text(tool.get(NAMED_BY[kind])) if kind in NAMED_BY else _family(kind)))
    return declared
