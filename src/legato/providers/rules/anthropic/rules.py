"""The rules of the Anthropic Messages API, and the functions that check requests against them.

`RULES` is the whole rule set; check_order.py has its order. This module has the rules about headers, shapes, the model and settings.
Those about messages, tools and thinking are in conversation_rules.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from legato.providers.rules.anthropic import conversation_rules
from legato.providers.rules.anthropic.check_order import (
    BODY,
    FIELD_SHAPES,
    HEADERS,
    MODEL_EXISTS,
    RULES,
    SETTINGS,
    TOOL_RESULTS,
    TURNS,
)
from legato.providers.rules.anthropic.provider_state import AnthropicState, EmptyAnthropicState
from legato.providers.rules.anthropic.request_context import AnthropicContext
from legato.providers.rules.anthropic.rule_switches import AnthropicRuleSwitches
from legato.providers.rules.anthropic.shape_checks import UNSET_NUMBER
from legato.providers.rules.anthropic.thinking_blocks import list_dropped_thinking
from legato.providers.rules.rule_set import Finding, RuleViolation

__all__ = [
    "RULES",
    "RULE_MODULES",
    "AnthropicContext",
    "AnthropicRuleSwitches",
    "check_messages",
    "check_request",
    "list_dropped_thinking",
    "render_error_body",
]

RULE_MODULES = (conversation_rules,)
"""The modules that add the other rules when they are imported."""

_EMPTY_STATE = EmptyAnthropicState()


def check_request(
    request: Any,
    headers: Mapping[str, str] | None = None,
    state: AnthropicState | None = None,
    switches: AnthropicRuleSwitches | None = None,
    *,
    token_count: int = 0,
    body_bytes: int = 0,
) -> list[RuleViolation]:
    """Return the violations of a request in the API's order; it answers with the first. `token_count`: of the prompt.

    >>> version = {"anthropic-version": "2023-06-01"}
    >>> [str(violation) for violation in check_request({"model": "claude-sonnet-5", "max_tokens": 9}, version)]
    ['[MS1] 400 messages: Field required at messages']
    """
    context = AnthropicContext(request, headers or {}, state or _EMPTY_STATE, token_count, switches or AnthropicRuleSwitches(), body_bytes)
    return list(RULES.check(context))


MESSAGE_PHASES = (FIELD_SHAPES, TURNS, TOOL_RESULTS)
"""The phases about the messages and their order that need no provider state."""


def check_messages(messages: list[dict[str, Any]], headers: Mapping[str, str]) -> list[RuleViolation]:
    """Return the violations of some messages with everything that belongs to them, as part of an otherwise legal request.

    >>> result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]}
    >>> [violation.rule.id for violation in check_messages([result], {"anthropic-version": "2023-06-01"})]
    ['M2']
    """
    context = AnthropicContext({"model": "any", "max_tokens": 1, "messages": messages}, headers, _EMPTY_STATE)
    return list(RULES.check(context, MESSAGE_PHASES))


def render_error_body(violation: RuleViolation, request_id: str | None = None) -> dict[str, Any]:
    """Return the response body with which the API reports a violation."""
    # A request may hold half a surrogate pair, which no response can carry.
    message = violation.message.encode("utf-8", "replace").decode()
    return {"type": "error", "error": {"type": violation.type, "message": message}, "request_id": request_id}


# -- before the body is read -------------------------------------------------------------------------------------------


@RULES.rule("M22b", "The body has at most 32 MB.", HEADERS, grade="B", as_of="2026-11", status=413, switch="size_limit")
def body_is_not_too_large(context: AnthropicContext) -> Iterator[Finding]:
    if context.body_bytes > context.switches.size_limit:
        yield Finding("Request exceeds the maximum size", type="request_too_large")


@RULES.rule("M21", "The header `anthropic-version` is present.", HEADERS, grade="A", as_of="2026-11", switch="version_header")
def version_header_is_present(context: AnthropicContext) -> Iterator[Finding]:
    if not context.version:
        yield Finding("anthropic-version: header is required", path="anthropic-version")


@RULES.rule("MB1", "The body is an object.", BODY, grade="D", as_of="2026-11")
def body_is_an_object(context: AnthropicContext) -> Iterator[Finding]:
    if not isinstance(context.request, dict):
        yield Finding("Input should be a valid dictionary or object to extract fields from")


# -- the shape of every field: request_shape.py finds them broken -------------------------------------------------------

shape_rule = partial(RULES.add_shape_rule, FIELD_SHAPES)

shape_rule("M12", "A message's role is `user` or `assistant` (or `system`).", grade="A", as_of="2026-11")
shape_rule("M13b", "A message has content.", grade="A", as_of="2026-11")
shape_rule("M19", "A tool's name has letters, digits, _ and - only, at most 128.", grade="A", as_of="2026-11")
shape_rule("M19b", "A tool has a name.", grade="A", as_of="2026-11")
shape_rule("M20", "Every field is known.", grade="A", as_of="2026-11")
shape_rule("M20b", "Every member is known.", grade="A", as_of="2026-11")
shape_rule("MS1", "A required member is present.", grade="B", as_of="2026-11")
shape_rule("MS2", "A value has its type.", grade="B", as_of="2026-03")
shape_rule("MS3", "A value that must be an object is one.", grade="D", as_of="2026-11")
shape_rule("MS3b", "A message is an object.", grade="A", as_of="2024-06")
shape_rule("MS4", "A value is one of the known ones.", grade="C", as_of="2026-11")
shape_rule("MS5", "A block's or tool's type is known.", grade="B", as_of="2026-10")
shape_rule("MS6", "A number is within its range.", grade="B", as_of="2026-08")
shape_rule("MS7", "An id has letters, digits, _ and - only.", grade="B", as_of="2026-11")
shape_rule("MS8", "The tool name in a tool use has at most 200 characters.", grade="B", as_of="2026-11")
shape_rule("MV1", "From version 2026-10-21 on there is no `temperature`, `top_p` or `top_k`.", grade="B", as_of="2026-10")
shape_rule("MP1", "`temperature` is from 0 to 1.", grade="B", as_of="2026-10")

# -- the model, and settings that exclude one another ------------------------------------------------------------------


@RULES.rule("M23", "The model exists.", MODEL_EXISTS, grade="A", as_of="2026-11", status=404)
def model_exists(context: AnthropicContext) -> Iterator[Finding]:
    # The position of this phase was not measured: the API validates a body before it looks for the model.
    if context.model_info is None:
        yield Finding(f"model: {context.request['model']}", path="model", type="not_found_error")


@RULES.rule("MP2", "`max_tokens` is within the model's limit.", SETTINGS, grade="B", as_of="2025-10")
def output_is_within_the_models_limit(context: AnthropicContext) -> Iterator[Finding]:
    max_tokens, limit = context.request["max_tokens"], context.model.max_output_tokens
    if 0 < limit < max_tokens:
        problem = f"{max_tokens} > {limit}, which is the maximum allowed number of output tokens for {context.model.name}"
        yield Finding(f"max_tokens: {problem}", path="max_tokens")


@RULES.rule("MP3", "`max_tokens` is greater than the thinking budget.", SETTINGS, grade="B", as_of="2026-02")
def thinking_budget_is_below_max_tokens(context: AnthropicContext) -> Iterator[Finding]:
    if context.thinking_type == "enabled" and context.request["max_tokens"] <= context.request["thinking"]["budget_tokens"]:
        url = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size"
        problem = f"`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at {url}"
        yield Finding(problem, path="max_tokens")


@RULES.rule("MP4", "With thinking `temperature` is 1.", SETTINGS, grade="B", as_of="2026-11", switch="temperature_with_thinking")
def temperature_is_the_default(context: AnthropicContext) -> Iterator[Finding]:
    if context.thinking_type in ("enabled", "adaptive") and context.request.get("temperature") not in (None, 1):
        yield Finding("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.", path="temperature")


@RULES.rule("MP5", "With thinking no tool is forced.", SETTINGS, grade="B", as_of="2026-07", switch="forced_tool_without_thinking")
def no_tool_is_forced(context: AnthropicContext) -> Iterator[Finding]:
    # The model may skip adaptive thinking, so a forced tool may be accepted with it.
    if context.thinking_type == "enabled" and (context.request.get("tool_choice") or {}).get("type") in ("any", "tool"):
        yield Finding("Thinking may not be enabled when tool_choice forces tool use.", path="tool_choice")


@RULES.rule("MP6", "A model with fixed sampling gets only the defaults.", SETTINGS, grade="B", as_of="2026-06")
def sampling_is_the_default(context: AnthropicContext) -> Iterator[Finding]:
    # The message was seen for `temperature`; the documents say that the others are refused likewise.
    if context.model.accepts_sampling:
        return
    for name, default in (("temperature", (1,)), ("top_p", (1, 0.99, UNSET_NUMBER)), ("top_k", (UNSET_NUMBER,))):
        if context.request.get(name) is not None and context.request[name] not in default:
            yield Finding(f"`{name}` is deprecated for this model.", path=name)


@RULES.rule("MP7", "A newer model gets `temperature` or `top_p`, not both.", SETTINGS, grade="B", as_of="2026-05")
def only_one_sampling_option_is_set(context: AnthropicContext) -> Iterator[Finding]:
    has_both = all(context.request.get(name) not in (None, UNSET_NUMBER) for name in ("temperature", "top_p"))
    if context.model.accepts_sampling and context.model.accepts_one_sampling_option and has_both:
        problem = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        yield Finding(problem, path="top_p")


@RULES.rule("MP8", "A model without efforts gets none.", SETTINGS, grade="B", as_of="2026-06")
def effort_is_supported(context: AnthropicContext) -> Iterator[Finding]:
    if context.effort and context.model.efforts == ():
        yield Finding("This model does not support the effort parameter.", path="output_config.effort")


@RULES.rule("MP9", "The effort is one that the model supports.", SETTINGS, grade="A", as_of="2026-04")
def effort_level_is_supported(context: AnthropicContext) -> Iterator[Finding]:
    levels = context.model.efforts
    if levels and context.effort and context.effort not in levels:
        problem = f"This model does not support effort level '{context.effort}'. Supported levels: {', '.join(sorted(levels))}."
        yield Finding(problem, path="output_config.effort")


@RULES.rule("M19c", "`tool_choice` comes with tools.", SETTINGS, grade="A", as_of="2026-11")
def choice_has_tools(context: AnthropicContext) -> Iterator[Finding]:
    choice = context.request.get("tool_choice")
    if choice and not context.request.get("tools"):
        yield Finding(f"tool_choice.{choice['type']} may only be specified while providing tools", path="tool_choice")


@RULES.rule("M19d", "A forced tool is declared.", SETTINGS, grade="A", as_of="2026-11")
def forced_tool_is_declared(context: AnthropicContext) -> Iterator[Finding]:
    choice = context.request.get("tool_choice") or {}
    if choice.get("type") == "tool" and context.request.get("tools") and choice["name"] not in context.tool_names:
        yield Finding(f"Tool '{choice['name']}' not found in provided tools", path="tool_choice.name")


@RULES.rule("MT1", "No two tools share a name.", SETTINGS, grade="B", as_of="2026-05", switch="unique_tool_names")
def tool_names_are_unique(context: AnthropicContext) -> Iterator[Finding]:
    if len(set(context.tool_names)) < len(context.tool_names):
        yield Finding("tools: Tool names must be unique.", path="tools")
