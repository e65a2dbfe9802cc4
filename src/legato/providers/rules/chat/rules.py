"""The rules of the OpenAI Chat Completions API, and the functions that check requests against them.

The API stores nothing between requests, so a request is checked on its own, with the properties of its model. This module has the rules
about presence, shapes, schemas, combinations and content. The others are in model_rules.py and call_rules.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from legato.providers.rules.chat import call_rules, model_rules
from legato.providers.rules.chat.check_order import (
    BODY,
    CALLS,
    CONTEXT_WINDOW,
    FIELD_SHAPES,
    FUNCTION_SCHEMAS,
    MESSAGE_CONTENT,
    PARAMETER_COMBINATIONS,
    REQUIRED_PARAMETERS,
    RULES,
    UNKNOWN_PARAMETERS,
)
from legato.providers.rules.chat.messages import join_text
from legato.providers.rules.chat.model_info import ChatModelInfo, FindChatModel, accept_any_model
from legato.providers.rules.chat.request_context import ChatContext
from legato.providers.rules.chat.request_shape import FIELD_CHECKS
from legato.providers.rules.chat.rule_switches import AZURE, LENIENT, OPENAI, ChatRuleSwitches
from legato.providers.rules.chat.shape_checks import describe_type
from legato.providers.rules.chat.strict_schemas import describe_strict_mode_problems
from legato.providers.rules.json_schemas import describe_non_object
from legato.providers.rules.rule_set import Finding, RuleViolation

__all__ = [
    "AZURE",
    "LENIENT",
    "OPENAI",
    "RULES",
    "RULE_MODULES",
    "ChatContext",
    "ChatRuleSwitches",
    "check_messages",
    "check_request",
    "render_error_body",
]

RULE_MODULES = (model_rules, call_rules)
"""The modules that add the other rules when they are imported."""


def check_request(
    request: Any, *, find_model: FindChatModel = accept_any_model, token_count: int = 0, switches: ChatRuleSwitches = OPENAI
) -> list[RuleViolation]:
    """Return the violations of a request in the API's order; it answers with the first. `token_count`: of the messages.

    >>> [str(violation) for violation in check_request({"model": "gpt-4o"})]
    ["[C11a] 400 Missing required parameter: 'messages'. at messages"]
    """
    name = request.get("model") if isinstance(request, dict) else None
    context = ChatContext(request, find_model(name if isinstance(name, str) else ""), token_count, switches)
    violations = list(RULES.check(context))
    if switches.null_code:
        violations = [each if each.code else msgspec.structs.replace(each, code=switches.null_code) for each in violations]
    return violations


MESSAGE_PHASES = (FIELD_SHAPES, CALLS, MESSAGE_CONTENT)
"""The phases about nothing but the messages and their order."""


def check_messages(messages: list[dict[str, Any]], switches: ChatRuleSwitches = OPENAI) -> list[RuleViolation]:
    """Return the violations of some messages with everything that belongs to them, as part of an otherwise legal request.

    >>> [violation.rule.id for violation in check_messages([{"role": "tool", "tool_call_id": "call_1", "content": "done"}])]
    ['C2']
    """
    return list(RULES.check(ChatContext({"model": "any", "messages": messages}, ChatModelInfo("any"), switches=switches), MESSAGE_PHASES))


def render_error_body(violation: RuleViolation) -> dict[str, Any]:
    """Return the response body with which the API reports a violation."""
    return {
        "error": {
            "message": _replace_surrogates(violation.message),
            "type": violation.type,
            "param": None if violation.param is None else _replace_surrogates(violation.param),
            "code": violation.code,
        }
    }


def _replace_surrogates(text: str) -> str:
    # A request may hold half a surrogate pair, which no response can carry.
    return text.encode("utf-8", "replace").decode()


# -- presence ----------------------------------------------------------------------------------------------------------


@RULES.rule("CB1", "The body is an object.", BODY, grade="D", as_of="2026-11", code="invalid_type")
def body_is_an_object(context: ChatContext) -> Iterator[Finding]:
    if not isinstance(context.request, dict):
        yield Finding(f"Invalid type for request body: expected an object, but got {describe_type(context.request)} instead.")


@RULES.rule("CP1", "A model is named.", REQUIRED_PARAMETERS, grade="B", as_of="2025-09", switch="requires_model")
def model_is_named(context: ChatContext) -> Iterator[Finding]:
    if context.request.get("model") in (None, ""):
        yield Finding("you must provide a model parameter", path="model")


@RULES.rule("C11a", "There are messages.", REQUIRED_PARAMETERS, grade="A", as_of="2026-11", code="missing_required_parameter")
def messages_are_present(context: ChatContext) -> Iterator[Finding]:
    if "messages" not in context.request:
        yield Finding("Missing required parameter: 'messages'.", param="messages")


@RULES.rule("CP2", "Every parameter is known.", UNKNOWN_PARAMETERS, grade="B", as_of="2026-06", switch="unknown_parameter")
def parameters_are_known(context: ChatContext) -> Iterator[Finding]:
    unknown = [name for name in context.request if name not in FIELD_CHECKS]
    if unknown and context.switches.unknown_parameter == "unrecognized":
        word = "argument" if len(unknown) == 1 else "arguments"
        yield Finding(f"Unrecognized request {word} supplied: {', '.join(unknown)}", path=unknown[0])
    elif unknown:
        for name in unknown:
            yield Finding(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")


# -- the shape of every field: request_shape.py finds them broken -------------------------------------------------------

shape_rule = partial(RULES.add_shape_rule, FIELD_SHAPES)

shape_rule("C11b", "`messages` is an array.", grade="A", as_of="2026-11", code="invalid_type")
shape_rule("C11c", "`messages` is not empty.", grade="A", as_of="2026-11", code="empty_array")
shape_rule("C10", "A message's role is one of the six.", grade="A", as_of="2026-11", code="invalid_value")
shape_rule("CM1", "A tool message names the call it answers.", grade="B", as_of="2024-10")
shape_rule("C3", "`tool_calls` is absent rather than empty.", grade="A", as_of="2026-11", code="empty_array", switch="refuses_empty_arrays")
shape_rule("C5", "A call id has at most 64 characters.", grade="B", as_of="2026-11", code="string_above_max_length", switch="id_limit")
shape_rule("C6", "A name has letters, digits, _ and - only.", grade="A", as_of="2026-11", code="invalid_value", switch="name_pattern")
shape_rule("C7", "A name has at most 64 characters.", grade="B", as_of="2026-11", code="string_above_max_length", switch="name_limit")
shape_rule("C8", "There are at most 128 tools.", grade="B", as_of="2026-11", code="array_above_max_length", switch="tool_limit")
shape_rule("CT1", "`tools` is absent rather than empty.", grade="C", as_of="2025-11", code="empty_array", switch="refuses_empty_arrays")
shape_rule("CS1", "A required member is present.", grade="B", as_of="2026-11", code="missing_required_parameter")
shape_rule("CS2", "A value has its type.", grade="B", as_of="2025-07", code="invalid_type")
shape_rule("CS3", "A value is one of those supported.", grade="B", as_of="2025-02", code="invalid_value", switch="supported_values")
shape_rule("CS4", "A number is not below its minimum.", grade="B", as_of="2025-09", switch="ranges")
shape_rule("CS5", "A number is not above its maximum.", grade="B", as_of="2025-09", switch="ranges")
shape_rule("CS6", "`content` has a part.", grade="D", as_of="2026-11", code="empty_array", switch="refuses_empty_arrays")
shape_rule("CS7", "An array is not too long.", grade="C", as_of="2026-11", code="array_above_max_length")
shape_rule("CS8", "A name is not empty.", grade="C", as_of="2026-11", code="empty_string", switch="name_pattern")
shape_rule("CS9", "Every member is known.", grade="C", as_of="2024-04", code="unknown_parameter", switch="unknown_members")

# -- schemas -----------------------------------------------------------------------------------------------------------


@RULES.rule(
    "CT2", "A function's parameters are an object.", FUNCTION_SCHEMAS, grade="B", as_of="2025-11", code="invalid_function_parameters"
)
def parameters_are_an_object(context: ChatContext) -> Iterator[Finding]:
    for path, function in context.function_tools:
        if problem := describe_non_object(function.get("parameters") or {}):
            yield _invalid_function_schema(path, function, problem)


@RULES.rule(
    "CT3",
    "The schema of a strict function is closed and requires all its properties.",
    FUNCTION_SCHEMAS,
    grade="A",
    as_of="2026-11",
    code="invalid_function_parameters",
    switch="strict_schemas",
)
def strict_functions_are_closed(context: ChatContext) -> Iterator[Finding]:
    for path, function in context.function_tools:
        if function.get("strict") is True:
            for problem in islice(describe_strict_mode_problems(function.get("parameters") or {}), 1):  # the API reports one per schema
                yield _invalid_function_schema(path, function, problem)


def _invalid_function_schema(path: str, function: dict[str, Any], problem: str) -> Finding:
    return Finding(f"Invalid schema for function '{function['name']}': {problem}", param=f"{path}.parameters")


@RULES.rule(
    "CT4",
    "The schema of strict structured output is closed and requires all its properties.",
    FUNCTION_SCHEMAS,
    grade="B",
    as_of="2025-11",
    switch="strict_schemas",
)
def strict_output_is_closed(context: ChatContext) -> Iterator[Finding]:
    output_format = _get_output_format(context)
    if output_format.get("strict") is True:
        for problem in islice(describe_strict_mode_problems(output_format.get("schema") or {}), 1):
            yield _invalid_output_schema(output_format, problem)


@RULES.rule("CT7", "Structured output is an object.", FUNCTION_SCHEMAS, grade="B", as_of="2025-04", switch="strict_schemas")
def output_is_an_object(context: ChatContext) -> Iterator[Finding]:
    output_format = _get_output_format(context)
    if problem := describe_non_object(output_format.get("schema") or {}):
        yield _invalid_output_schema(output_format, problem)


def _get_output_format(context: ChatContext) -> dict[str, Any]:
    """Return the name, the schema and the strictness of structured output; empty if the request wants none."""
    response_format = context.request.get("response_format") or {}
    output_format: dict[str, Any] = response_format["json_schema"] if response_format.get("type") == "json_schema" else {}
    return output_format


def _invalid_output_schema(output_format: dict[str, Any], problem: str) -> Finding:
    return Finding(f"Invalid schema for response_format '{output_format['name']}': {problem}", param="response_format")


# -- parameters that need one another ----------------------------------------------------------------------------------


@RULES.rule("C9", "`tool_choice` comes with tools.", PARAMETER_COMBINATIONS, grade="A", as_of="2026-11", switch="combinations")
def choice_has_tools(context: ChatContext) -> Iterator[Finding]:
    if context.has_field("tool_choice") and not context.request.get("tools"):
        message = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        yield Finding(message, param="tool_choice")


@RULES.rule("CT5", "`parallel_tool_calls` comes with tools.", PARAMETER_COMBINATIONS, grade="B", as_of="2026-11", switch="combinations")
def parallel_tool_calls_have_tools(context: ChatContext) -> Iterator[Finding]:
    if context.has_field("parallel_tool_calls") and not context.request.get("tools"):
        message = "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified."
        yield Finding(message, param="parallel_tool_calls")


@RULES.rule(
    "CT6", "The tool that `tool_choice` names is declared.", PARAMETER_COMBINATIONS, grade="D", as_of="2026-11", switch="combinations"
)
def chosen_tool_is_declared(context: ChatContext) -> Iterator[Finding]:
    choice, tools = context.request.get("tool_choice"), context.request.get("tools")
    type = choice.get("type", "function") if isinstance(choice, dict) else ""
    if type in ("function", "custom") and tools:
        name = choice[type]["name"]
        if not any(tool.get("type", "function") == type and tool[type]["name"] == name for tool in tools):
            yield Finding(f"Tool choice '{name}' not found in 'tools' parameter.", param="tool_choice")


@RULES.rule(
    "CP17",
    "The token limit is set once.",
    PARAMETER_COMBINATIONS,
    grade="B",
    as_of="2025-08",
    code="invalid_parameter_combination",
    switch="combinations",
)
def limit_is_set_once(context: ChatContext) -> Iterator[Finding]:
    if context.has_field("max_tokens") and context.has_field("max_completion_tokens"):
        yield Finding("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", param="max_tokens")


@RULES.rule("CP7", "`stream_options` comes with `stream`.", PARAMETER_COMBINATIONS, grade="B", as_of="2026-11", switch="combinations")
def stream_options_have_a_stream(context: ChatContext) -> Iterator[Finding]:
    if context.has_field("stream_options") and context.request.get("stream") is not True:
        yield Finding("The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options")


@RULES.rule(
    "CP8",
    "A request for a JSON object has the word JSON in a message.",
    PARAMETER_COMBINATIONS,
    grade="B",
    as_of="2026-05",
    switch="combinations",
)
def json_object_is_mentioned(context: ChatContext) -> Iterator[Finding]:
    wants_json = (context.request.get("response_format") or {}).get("type") == "json_object"
    if wants_json and not any("json" in join_text(message).lower() for message in context.request["messages"]):
        message = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        yield Finding(message, param="messages")


# -- the context window, and last of all empty messages ----------------------------------------------------------------


@RULES.rule("C12", "The messages fit the model's window.", CONTEXT_WINDOW, grade="A", as_of="2026-11", code="context_length_exceeded")
def messages_fit_the_window(context: ChatContext) -> Iterator[Finding]:
    window = context.model.context_window
    if 0 < window < context.token_count:
        message = (
            f"This model's maximum context length is {window} tokens. However, your messages resulted in {context.token_count} tokens."
        )
        yield Finding(f"{message} Please reduce the length of the messages.", param="messages")


@RULES.rule("C4", "A message has content or calls.", MESSAGE_CONTENT, grade="A", as_of="2026-11")
def message_has_content_or_calls(context: ChatContext) -> Iterator[Finding]:
    for index, message in enumerate(context.request["messages"]):
        alternatives = ("tool_calls", "function_call", "refusal", "audio") if message["role"] == "assistant" else ()
        if message["role"] == "function" or any(message.get(member) is not None for member in alternatives):
            continue
        if message.get("content") is None:
            problem = "Invalid value for 'content': expected a string, got null."
            yield Finding(problem, param=f"messages.[{index}].content", path=f"messages[{index}].content")


# -- permissions -------------------------------------------------------------------------------------------------------

RULES.add_permission("CA2", "Null counts as absent, except for `messages`.", grade="D", as_of="2026-11", phase=FIELD_SHAPES)
RULES.add_permission("CA3", "Roles need not alternate, and instructions may be anywhere.", grade="B", as_of="2026-11", phase=FIELD_SHAPES)
RULES.add_permission("CA4", "An assistant message may have calls and no content.", grade="A", as_of="2026-11", phase=MESSAGE_CONTENT)
RULES.add_permission("CA5", "For `gpt-4-vision-preview` an image may be its URL alone.", grade="A", as_of="2023-11", phase=FIELD_SHAPES)
