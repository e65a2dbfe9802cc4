"""The rules about tools and the choice among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.providers.rules.json_schemas import describe_non_object
from legato.providers.rules.responses.check_order import EACH_TOOL, RULES, TOOL_CHOICE, TOOL_LIST
from legato.providers.rules.responses.error_messages import (
    AS_OF,
    array_too_long,
    empty_string,
    missing_member,
    pattern_mismatch,
    string_too_long,
    unknown_member,
    unsupported_value,
    wrong_type,
)
from legato.providers.rules.responses.item_rules import NAME, NAME_PATTERN
from legato.providers.rules.responses.request_context import DeclaredTool, ResponsesContext, as_text
from legato.providers.rules.responses.strict_schemas import describe_open_objects, describe_optional_properties
from legato.providers.rules.responses.type_shapes import MEMBER_TYPES, TOOL_SHAPES, has_member_type
from legato.providers.rules.rule_set import Finding

CHOICE_WORDS = ("none", "auto", "required")
NAME_MEMBERS = {"function": "name", "custom": "name", "mcp": "server_label"}  # tools of these types are chosen by name
CHOICE_TYPES = tuple(sorted((*TOOL_SHAPES, "allowed_tools")))


# -- the list ----------------------------------------------------------------------------------------------------------


@RULES.rule("V5", "`tools` is an array.", TOOL_LIST, grade="A", as_of=AS_OF)
def tools_are_an_array(context: ResponsesContext) -> Iterator[Finding]:
    value = context.get_field("tools")
    if value is not None and not isinstance(value, list):
        yield wrong_type("tools", "an array of tools", value)


@RULES.rule("T16", "There are at most 128 tools.", TOOL_LIST, grade="D", as_of=AS_OF, switch="tools_limit")
def tools_are_not_too_many(context: ResponsesContext) -> Iterator[Finding]:
    if len(context.tools) > context.switches.tools_limit:
        yield array_too_long("tools", context.switches.tools_limit, len(context.tools))


@RULES.rule("T17", "No two tools have the same name.", TOOL_LIST, grade="D", as_of=AS_OF, switch="unique_tool_names", code="invalid_value")
def tool_names_are_unique(context: ResponsesContext) -> Iterator[Finding]:
    names: set[str] = set()
    for tool in context.tools:
        name = as_text(tool.members.get("name"))
        if name and name in names:
            yield Finding(f"Invalid '{tool.path}.name': another tool is already named '{name}'.", f"{tool.path}.name")
        names.add(name)


# -- one tool ----------------------------------------------------------------------------------------------------------


@RULES.rule("T26", "A tool is an object of a known type.", EACH_TOOL, grade="D", as_of=AS_OF)
def a_tool_has_a_known_type(context: ResponsesContext, tool: DeclaredTool) -> Iterator[Finding]:
    if tool.members is not tool.raw:
        yield wrong_type(tool.path, "an object", tool.raw)
    elif tool.members.get("type") is not None and tool.type not in TOOL_SHAPES:
        yield unsupported_value(f"{tool.path}.type", tool.type, tuple(sorted(TOOL_SHAPES)))


@RULES.rule("T12", "A tool has a type, and a function a name, at its top level.", EACH_TOOL, grade="A", as_of=AS_OF)
def a_tool_has_type_and_name(context: ResponsesContext, tool: DeclaredTool) -> Iterator[Finding]:
    if tool.members is tool.raw and tool.members.get("type") is None:
        yield missing_member(f"{tool.path}.type")
    elif tool.type == "function" and "name" not in tool.members:
        yield missing_member(f"{tool.path}.name")


@RULES.rule("T30", "A tool of any other type has the members that its type requires.", EACH_TOOL, grade="C", as_of=AS_OF)
def a_tool_has_required_members(context: ResponsesContext, tool: DeclaredTool) -> Iterator[Finding]:
    if tool.type != "function":
        yield from (missing_member(f"{tool.path}.{name}") for name in tool.shape.required if name not in tool.members)


@RULES.rule("T29", "The members of a tool have their types.", EACH_TOOL, grade="D", as_of=AS_OF)
def the_members_of_a_tool_have_their_types(context: ResponsesContext, tool: DeclaredTool) -> Iterator[Finding]:
    for name, type in tool.shape.member_types.items():
        value = tool.members.get(name)
        if name in tool.members and not has_member_type(type, value) and (value is not None or name in tool.shape.required):
            yield wrong_type(f"{tool.path}.{name}", MEMBER_TYPES[type][0], value)


@RULES.rule("T27", "A function or a custom tool has no unknown members.", EACH_TOOL, grade="D", as_of=AS_OF)
def a_tool_has_no_unknown_members(context: ResponsesContext, tool: DeclaredTool) -> Iterator[Finding]:
    if tool.shape.is_closed:
        yield from (unknown_member(f"{tool.path}.{name}") for name in tool.members if name not in tool.shape.member_types)


def _get_name(tool: DeclaredTool) -> str | None:
    name = tool.members.get("name") if "name" in tool.shape.member_types else None
    return name if isinstance(name, str) else None


@RULES.rule("T10", "A tool's name is not empty.", EACH_TOOL, grade="A", as_of=AS_OF)
def a_tool_name_is_not_empty(context: ResponsesContext, tool: DeclaredTool) -> Iterator[Finding]:
    if _get_name(tool) == "":
        yield empty_string(f"{tool.path}.name")


@RULES.rule("T9", "A tool's name has only letters, digits, _ and -.", EACH_TOOL, grade="A", as_of=AS_OF)
def a_tool_name_matches_the_pattern(context: ResponsesContext, tool: DeclaredTool) -> Iterator[Finding]:
    if (name := _get_name(tool)) and not NAME.fullmatch(name):
        yield pattern_mismatch(f"{tool.path}.name", NAME_PATTERN)


@RULES.rule("T11", "A tool's name is not too long.", EACH_TOOL, grade="B", as_of=AS_OF, switch="tool_name_limit")
def a_tool_name_is_not_too_long(context: ResponsesContext, tool: DeclaredTool) -> Iterator[Finding]:
    if (name := _get_name(tool)) and len(name) > context.switches.tool_name_limit:
        yield string_too_long(f"{tool.path}.name", context.switches.tool_name_limit, name)


@RULES.rule("T31", "A function's parameters are an object.", EACH_TOOL, grade="A", as_of="2025-08", code="invalid_function_parameters")
def parameters_are_an_object(context: ResponsesContext, tool: DeclaredTool) -> Iterator[Finding]:
    parameters = tool.members.get("parameters")
    if tool.type == "function" and isinstance(parameters, dict) and (problem := describe_non_object(parameters)):
        yield Finding(f"Invalid schema for function '{_get_name(tool)}': {problem}", f"{tool.path}.parameters")


@RULES.rule("T15", "The schema of a strict function is closed.", EACH_TOOL, grade="A", as_of=AS_OF, code="invalid_function_parameters")
def a_strict_function_is_closed(context: ResponsesContext, tool: DeclaredTool) -> Iterator[Finding]:
    if tool.type == "function" and tool.members.get("strict") is True:
        for problem in describe_open_objects(tool.members.get("parameters")):
            yield Finding(f"Invalid schema for function '{_get_name(tool)}': {problem}", f"{tool.path}.parameters")


@RULES.rule(
    "T28", "The schema of a strict function requires every property.", EACH_TOOL, grade="B", as_of=AS_OF, code="invalid_function_parameters"
)
def a_strict_function_requires_all_properties(context: ResponsesContext, tool: DeclaredTool) -> Iterator[Finding]:
    if tool.type == "function" and tool.members.get("strict") is True:
        for problem in describe_optional_properties(tool.members.get("parameters")):
            yield Finding(f"Invalid schema for function '{_get_name(tool)}': {problem}", f"{tool.path}.parameters")


# -- the choice --------------------------------------------------------------------------------------------------------


@RULES.rule("V6", "`tool_choice` is 'none', 'auto', 'required', or an object that names a tool.", TOOL_CHOICE, grade="A", as_of=AS_OF)
def a_choice_is_a_word_or_a_tool(context: ResponsesContext) -> Iterator[Finding]:
    value = context.get_field("tool_choice")
    if isinstance(value, dict):
        type = as_text(value.get("type"))
        if type and type not in CHOICE_TYPES:
            yield unsupported_value("tool_choice.type", type, CHOICE_TYPES)
        name = NAME_MEMBERS.get(type, "type")
        if value.get(name) is None:
            yield missing_member(f"tool_choice.{name}")
        elif not isinstance(value[name], str):
            yield wrong_type(f"tool_choice.{name}", "a string", value[name])
    elif isinstance(value, str):
        if value not in CHOICE_WORDS:
            yield unsupported_value("tool_choice", value, CHOICE_WORDS)
    elif value is not None:
        yield wrong_type("tool_choice", "one of an object or 'none', 'auto', or 'required'", value)


def _has_other_tools(context: ResponsesContext) -> bool:
    """Return True if tools may come from elsewhere than `tools`."""
    return context.prompt_id is not None or any(item.type in ("additional_tools", "tool_search_output") for item in context.items)


@RULES.rule("T14", "A tool is forced only where there are tools.", TOOL_CHOICE, grade="A", as_of=AS_OF)
def a_choice_needs_tools(context: ResponsesContext) -> Iterator[Finding]:
    value = context.get_field("tool_choice")
    if context.tools or _has_other_tools(context):
        return
    if value == "required":
        yield Finding("Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice")
    elif isinstance(value, dict) and (type := as_text(value.get("type"))) != "allowed_tools":
        yield Finding(f"Tool choice '{type}' not found in 'tools' parameter.", "tool_choice")


@RULES.rule("T13", "A forced tool is among the tools.", TOOL_CHOICE, grade="A", as_of=AS_OF)
def a_choice_is_among_the_tools(context: ResponsesContext) -> Iterator[Finding]:
    value = context.get_field("tool_choice")
    if not isinstance(value, dict) or not context.tools or _has_other_tools(context):
        return
    type = as_text(value.get("type"))
    name = as_text(value.get(NAME_MEMBERS[type])) if type in NAME_MEMBERS else type
    choice = (_normalize_tool_type(type), _normalize_tool_type(name) if name == type else name)
    if type != "allowed_tools" and choice not in _list_choices(context):
        yield Finding(f"Tool choice '{name}' not found in 'tools' parameter.", "tool_choice")


def _normalize_tool_type(type: str) -> str:
    """Return one name for the dated and preview variants of a hosted tool."""
    return next((family for family in ("web_search", "computer") if type.startswith(family)), type)


def _list_choices(context: ResponsesContext) -> set[tuple[str, str]]:
    """Return the type and name of every tool that may be chosen, those in namespaces included. A hosted tool's name is its type."""
    choices = set()
    pending: list[dict[str, Any]] = [tool.members for tool in context.tools]
    for tool in pending:
        type = as_text(tool.get("type"))
        if type == "namespace" and isinstance(inner := tool.get("tools"), list):
            pending += [each for each in inner if isinstance(each, dict)]
        name = as_text(tool.get(NAME_MEMBERS[type])) if type in NAME_MEMBERS else _normalize_tool_type(type)
        choices.add((_normalize_tool_type(type), name))
    return choices
