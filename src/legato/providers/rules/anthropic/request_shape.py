"""The shape of a Messages request: its members, their types, and the order in which they are checked.

Members as in the SDK of 2026-11. Blocks that only the provider writes are accepted as they are: everything that it sent may be sent back. A
block's path contains its type (`messages.0.content.0.text.text`), as the paths in all recorded responses do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from legato.providers.rules.anthropic.betas import list_opened_fields
from legato.providers.rules.anthropic.model_generations import EFFORT_LEVELS
from legato.providers.rules.anthropic.shape_checks import (
    MISSING_MEMBER,
    WRONG_TYPE,
    ShapeCheck,
    any_object,
    any_value,
    array,
    boolean,
    number,
    number_or_unset,
    object_of,
    one_of,
    shape_finding,
    string,
    string_or,
    string_or_array,
    tagged_union,
)
from legato.providers.rules.rule_set import Finding, ShapeFinding

NO_SAMPLING_VERSION = "2026-10-21"
"""The first version of the API without sampling options. Versions are dates."""

TEXT = string()
TYPED: dict[str, ShapeCheck] = {"type": TEXT}
TOOL_NAME = string(pattern="^[a-zA-Z0-9_-]{1,128}$", mismatch_rule="M19")
ID = string(pattern="^[a-zA-Z0-9_-]+$")
CACHE: dict[str, ShapeCheck] = {"cache_control": tagged_union({"ephemeral": object_of(TYPED, {"ttl": one_of("5m", "1h")})})}
CALLER: dict[str, ShapeCheck] = {"caller": any_object}
TOOLSET: dict[str, ShapeCheck] = {"toolset_name": TEXT}

TEXT_BLOCK = object_of({**TYPED, "text": TEXT}, {**CACHE, "citations": array(any_object)})
SYSTEM_BLOCK = object_of({"type": one_of("text"), "text": TEXT}, {**CACHE, "citations": array(any_object)})
IMAGE = object_of(
    {
        **TYPED,
        "source": tagged_union(
            {
                "base64": object_of(
                    {**TYPED, "media_type": one_of("image/jpeg", "image/png", "image/gif", "image/webp"), "data": TEXT},
                ),
                "url": object_of({**TYPED, "url": TEXT}),
                "file": object_of({**TYPED, "file_id": TEXT}),
            }
        ),
    },
    {**CACHE, "transformations": any_object},
)
DOCUMENT = object_of(
    {**TYPED, "source": tagged_union({kind: object_of(TYPED, is_open=True) for kind in ("base64", "text", "content", "url", "file")})},
    {**CACHE, "citations": any_object, "context": TEXT, "title": TEXT},
)
SEARCH_RESULT = object_of({**TYPED, "source": TEXT, "title": TEXT, "content": array(any_object)}, {**CACHE, "citations": any_object})
RESULT_CONTENT = tagged_union(
    {
        "text": TEXT_BLOCK,
        "image": IMAGE,
        "search_result": SEARCH_RESULT,
        "document": DOCUMENT,
        "tool_reference": object_of({**TYPED, "tool_name": TEXT}, CACHE),
        "browser_state": object_of(TYPED, is_open=True),
    }
)
TOOL_RESULT = object_of(
    {**TYPED, "tool_use_id": ID},
    {**CACHE, **TOOLSET, "content": string_or_array(TEXT, array(RESULT_CONTENT)), "is_error": boolean},
)
TOOL_USE = object_of(
    {**TYPED, "id": ID, "name": string(max_chars=200), "input": any_object},
    {**CACHE, **CALLER, **TOOLSET},
)
SERVER_TOOL_USE_TYPES = ("server_tool_use", "mcp_tool_use")
SERVER_RESULT_TYPES = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "advisor_tool_result",
    "mcp_tool_result",
)
BLOCK_CHECKS: dict[str, ShapeCheck] = {
    "text": TEXT_BLOCK,
    "image": IMAGE,
    "document": DOCUMENT,
    "search_result": SEARCH_RESULT,
    "thinking": object_of({**TYPED, "thinking": TEXT, "signature": TEXT}),
    "redacted_thinking": object_of({**TYPED, "data": TEXT}),
    "tool_use": TOOL_USE,
    "tool_result": TOOL_RESULT,
    "server_tool_use": object_of({**TYPED, "id": ID, "name": TEXT, "input": any_object}, {**CACHE, **CALLER}),
    "mcp_tool_use": object_of({**TYPED, "id": ID, "name": TEXT, "server_name": TEXT, "input": any_object}, CACHE),
    **{kind: object_of({**TYPED, "tool_use_id": ID}, is_open=True) for kind in SERVER_RESULT_TYPES},
    **{
        kind: object_of(TYPED, CACHE, is_open=True)
        for kind in ("container_upload", "compaction", "tool_addition", "tool_removal", "mcp_tool_listing", "fallback")
    },
}
CONTENT = string_or_array(TEXT, array(tagged_union(BLOCK_CHECKS)))
ROLES = ("user", "assistant", "system")


def role(value: Any, path: str) -> Iterator[ShapeFinding]:
    """A role. The error about an unknown one does not name the message."""
    if not isinstance(value, str):
        yield shape_finding(WRONG_TYPE, path, "Input should be a valid string")
    elif value not in ROLES:
        yield ShapeFinding("M12", Finding(f'messages: Unexpected role "{value}". Allowed roles are "user" or "assistant"', path=path))


EFFORT = one_of(*EFFORT_LEVELS)
MESSAGE = object_of({"role": role, "content": CONTENT}, absence_rules={"content": "M13b"})
SYSTEM_MESSAGE_BETA_MEMBERS: dict[str, ShapeCheck] = {
    "clear_at": one_of("next_user_message", "never"),
    "output_config": object_of({}, {"effort": EFFORT}),
}


@lru_cache(maxsize=16)
def build_messages_check(opened_fields: frozenset[str]) -> ShapeCheck:
    """Return the check of the messages. Betas open further members of system messages: their lifetime, and the model's effort."""
    beta_members = {name: check for name, check in SYSTEM_MESSAGE_BETA_MEMBERS.items() if f"messages.{name}" in opened_fields}
    system = object_of({"role": role}, {"content": CONTENT, **beta_members})

    def message(value: Any, path: str) -> Iterator[ShapeFinding]:
        if not isinstance(value, dict):
            yield ShapeFinding("MS3b", Finding(f"{path}: Input does not match the expected shape.", path=path))
        elif not beta_members or value.get("role") != "system":
            yield from MESSAGE(value, path)
        else:
            yield from system(value, path)
            if value.get("content") is None and not ("output_config" in beta_members and value.get("output_config")):
                yield shape_finding("M13b", f"{path}.content", "Field required")

    return array(message)


SERVER_TOOL_TYPES = (
    "advisor_20260301",
    "bash_20241022",
    "bash_20250124",
    "browser_toolset_20260801",
    "code_execution_20250522",
    "code_execution_20250825",
    "code_execution_20260120",
    "code_execution_20260521",
    "computer_20241022",
    "computer_20250124",
    "computer_20251124",
    "computer_toolset_20260801",
    "mcp_toolset",
    "memory_20250818",
    "text_editor_20241022",
    "text_editor_20250124",
    "text_editor_20250429",
    "text_editor_20250728",
    "tool_search_tool_bm25",
    "tool_search_tool_bm25_20251119",
    "tool_search_tool_regex",
    "tool_search_tool_regex_20251119",
    "web_fetch_20250910",
    "web_fetch_20260209",
    "web_fetch_20260309",
    "web_fetch_20260318",
    "web_search_20250305",
    "web_search_20260209",
    "web_search_20260318",
)
CUSTOM_TOOL = object_of(
    {"name": TOOL_NAME, "input_schema": object_of({"type": one_of("object")}, is_open=True)},
    {
        **CACHE,
        "type": TEXT,
        "description": TEXT,
        "strict": boolean,
        "defer_loading": boolean,
        "eager_input_streaming": boolean,
        "input_examples": array(any_object),
        "allowed_callers": array(TEXT),
    },
    absence_rules={"name": "M19b"},
)
TOOL = tagged_union(
    {"custom": CUSTOM_TOOL, **{kind: object_of(TYPED, CACHE, is_open=True) for kind in SERVER_TOOL_TYPES}}, default_tag="custom"
)

PARALLEL_OPTION: dict[str, ShapeCheck] = {"disable_parallel_tool_use": boolean}
TOOL_CHOICE = tagged_union(
    {
        "auto": object_of(TYPED, PARALLEL_OPTION),
        "any": object_of(TYPED, PARALLEL_OPTION),
        "tool": object_of({**TYPED, "name": TEXT}, PARALLEL_OPTION),
        "none": object_of(TYPED),
    }
)

DISPLAY_OPTION: dict[str, ShapeCheck] = {"display": one_of("summarized", "omitted", "updates")}
BINDING_OPTION: dict[str, ShapeCheck] = {
    "block_binding": object_of({}, {"prefix_mismatch_behavior": one_of("error", "drop_block")}),
}


def build_thinking_check(beta_members: dict[str, ShapeCheck]) -> ShapeCheck:
    """Return the check of the thinking setting, with the members that a beta adds."""
    return tagged_union(
        {
            "enabled": object_of({**TYPED, "budget_tokens": number(1024, is_integer=True)}, {**DISPLAY_OPTION, **beta_members}),
            "adaptive": object_of(TYPED, {**DISPLAY_OPTION, **beta_members}),
            "disabled": object_of(TYPED),
            "between_tools": object_of(TYPED),
        }
    )


THINKING, THINKING_WITH_BINDING = build_thinking_check({}), build_thinking_check(BINDING_OPTION)


def temperature(value: Any, path: str) -> Iterator[ShapeFinding]:
    """A number from 0 to 1. The API has an error message of its own for other numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield shape_finding(WRONG_TYPE, path, "Input should be a valid number")
    elif not 0 <= value <= 1:
        yield shape_finding("MP1", path, "range: 0..1")


JSON_FORMAT = object_of({"type": one_of("json_schema"), "schema": any_object})
TASK_BUDGET = object_of({"type": one_of("tokens"), "total": number(0, is_integer=True)}, {"remaining": number(0, is_integer=True)})


@lru_cache(maxsize=4)
def build_output_config_check(has_task_budget: bool) -> ShapeCheck:
    """Return the check of the output configuration. A beta adds the task budget."""
    beta_members: dict[str, ShapeCheck] = {"task_budget": TASK_BUDGET} if has_task_budget else {}
    return object_of({}, {"effort": EFFORT, "format": JSON_FORMAT, **beta_members})


def _amount(*types: str) -> ShapeCheck:
    return tagged_union({type: object_of({**TYPED, "value": number(0, is_integer=True)}) for type in types})


CONTEXT_EDITS: dict[str, ShapeCheck] = {
    "clear_tool_uses_20250919": object_of(
        TYPED,
        {
            "clear_at_least": _amount("input_tokens"),
            "clear_tool_inputs": any_value,
            "exclude_tools": array(TEXT),
            "keep": _amount("tool_uses"),
            "trigger": _amount("input_tokens", "tool_uses"),
        },
    ),
    "clear_thinking_20251015": object_of(
        TYPED,
        {
            "keep": string_or(
                tagged_union({"thinking_turns": object_of({**TYPED, "value": number(1, is_integer=True)}), "all": object_of(TYPED)})
            )
        },
    ),
    "compact_20260112": object_of(TYPED, {"instructions": TEXT, "pause_after_compaction": boolean, "trigger": _amount("input_tokens")}),
}
MCP_SERVER = object_of(
    {"name": TEXT, "type": one_of("url"), "url": TEXT},
    {"authorization_token": TEXT, "tool_configuration": object_of({}, {"allowed_tools": array(TEXT), "enabled": boolean})},
)
CONTAINER = string_or(object_of({}, {"id": TEXT, "skills": array(object_of({**TYPED, "skill_id": TEXT}, {"version": TEXT}))}))

# In the order in which the API validates them (measured); those after `inference_geo` are newer and were not measured.
FIELD_CHECKS: dict[str, ShapeCheck] = {
    "model": TEXT,
    "tool_choice": TOOL_CHOICE,
    "tools": array(TOOL),
    "messages": build_messages_check(frozenset()),
    "system": string_or_array(TEXT, array(SYSTEM_BLOCK)),
    "thinking": THINKING,
    "output_config": build_output_config_check(False),
    "cache_control": CACHE["cache_control"],
    "max_tokens": number(0, is_integer=True),
    "metadata": object_of({}, {"user_id": TEXT}),
    "stop_sequences": array(TEXT),
    "temperature": temperature,
    "service_tier": one_of("auto", "standard_only"),
    "top_k": number_or_unset(number(0, is_integer=True)),
    "top_p": number_or_unset(number(0, 1)),
    "stream": boolean,
    "container": CONTAINER,
    "inference_geo": TEXT,
    "speed": one_of("standard", "fast"),
    "diagnostics": object_of({}, {"previous_message_id": TEXT}),
    "user_profile_id": TEXT,
    "workspace_id": TEXT,
}
# The shapes of fields that need a beta, as in the SDK of 2026-11.
BETA_FIELD_CHECKS: dict[str, ShapeCheck] = {
    "billing_policy": object_of({"type": one_of("billing_policy")}, {"bill_to": one_of("self", "user_profile")}),
    "compaction": object_of({"type": one_of("summarize")}, {"instructions": TEXT}),
    "context_management": object_of({}, {"edits": array(tagged_union(CONTEXT_EDITS))}),
    "fallback_credit_token": string_or(object_of({"token": TEXT}, {"mode": one_of("strict", "best_effort")})),
    "fallbacks": string_or(
        array(
            object_of(
                {"model": TEXT},
                {
                    "max_tokens": number(0, is_integer=True),
                    "output_config": build_output_config_check(True),
                    "speed": one_of("standard", "fast"),
                    "thinking": THINKING_WITH_BINDING,
                },
            )
        )
    ),
    "mcp_servers": array(MCP_SERVER),
    "output_format": JSON_FORMAT,
    "thread": tagged_union({"create": object_of(TYPED), "continue": object_of({**TYPED, "previous_message_id": TEXT})}),
}
REQUIRED_FIELDS = ("model", "messages", "max_tokens")
SAMPLING_FIELDS = ("temperature", "top_p", "top_k")
"""The fields that version 2026-10-21 of the API removed."""


@lru_cache(maxsize=16)
def build_field_checks(opened_fields: frozenset[str]) -> dict[str, ShapeCheck]:
    """Return the checks of the fields in the API's order, with those that betas open."""
    fields = {**FIELD_CHECKS, "messages": build_messages_check(opened_fields)}
    if "thinking.block_binding" in opened_fields:
        fields["thinking"] = THINKING_WITH_BINDING
    if "output_config.task_budget" in opened_fields:
        fields["output_config"] = build_output_config_check(True)
    return fields | {field: check for field, check in BETA_FIELD_CHECKS.items() if field in opened_fields}


def check_fields(request: dict[str, Any], betas: frozenset[str], removed_fields: Sequence[str] = ()) -> Iterator[ShapeFinding]:
    """Yield what is wrong with a request's fields, in the API's order. A null field counts as absent unless it is required (D).

    `removed_fields`: fields that this version of the API does not have any more.
    """
    opened_fields = list_opened_fields(betas)
    for field, check in build_field_checks(opened_fields).items():
        if field in removed_fields:
            continue
        if field in request and (request[field] is not None or field in REQUIRED_FIELDS):
            yield from check(request[field], field)
        elif field in REQUIRED_FIELDS:
            yield shape_finding(MISSING_MEMBER, field, "Field required")
    for field in request:
        if field in removed_fields:
            yield shape_finding("MV1", field, "Extra inputs are not permitted")
        elif field not in FIELD_CHECKS and field not in opened_fields:
            yield shape_finding("M20", field, "Extra inputs are not permitted")
