"""The shape of a Messages request. May know: `shapes.py`. Decides: which members there are, of which types, in which order.

Members as in the SDK of 2026-11. Blocks that only the provider writes are taken as they come: whatever it sent may be sent back. A
block's path has its type in it (`messages.0.content.0.text.text`), as the paths of all recorded answers do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from legato.providers.rules.anthropic.betas import opened_by
from legato.providers.rules.anthropic.generations import EFFORTS
from legato.providers.rules.anthropic.shapes import (
    MISSING,
    TYPE,
    Check,
    Found,
    anything,
    array,
    choice,
    either,
    flag,
    found,
    free,
    number,
    record,
    tagged,
    text,
    text_or,
    unless_unset,
)
from legato.providers.rules.rule_set import Fault

WITHOUT_SAMPLING = "2026-10-21"
"""The version of the API that takes no options of sampling. Versions are dates."""

TEXT = text()
TYPED: dict[str, Check] = {"type": TEXT}
TOOL_NAME = text(pattern="^[a-zA-Z0-9_-]{1,128}$", mismatch="M19")
ID = text(pattern="^[a-zA-Z0-9_-]+$")
CACHE: dict[str, Check] = {"cache_control": tagged({"ephemeral": record(TYPED, {"ttl": choice("5m", "1h")})})}
CALLER: dict[str, Check] = {"caller": free}
SET: dict[str, Check] = {"toolset_name": TEXT}

TEXT_BLOCK = record({**TYPED, "text": TEXT}, {**CACHE, "citations": array(free)})
SYSTEM_BLOCK = record({"type": choice("text"), "text": TEXT}, {**CACHE, "citations": array(free)})
IMAGE = record(
    {
        **TYPED,
        "source": tagged(
            {
                "base64": record(
                    {**TYPED, "media_type": choice("image/jpeg", "image/png", "image/gif", "image/webp"), "data": TEXT},
                ),
                "url": record({**TYPED, "url": TEXT}),
                "file": record({**TYPED, "file_id": TEXT}),
            }
        ),
    },
    {**CACHE, "transformations": free},
)
DOCUMENT = record(
    {**TYPED, "source": tagged({kind: record(TYPED, open=True) for kind in ("base64", "text", "content", "url", "file")})},
    {**CACHE, "citations": free, "context": TEXT, "title": TEXT},
)
SEARCH_RESULT = record({**TYPED, "source": TEXT, "title": TEXT, "content": array(free)}, {**CACHE, "citations": free})
RESULT_CONTENT = tagged(
    {
        "text": TEXT_BLOCK,
        "image": IMAGE,
        "search_result": SEARCH_RESULT,
        "document": DOCUMENT,
        "tool_reference": record({**TYPED, "tool_name": TEXT}, CACHE),
        "browser_state": record(TYPED, open=True),
    }
)
TOOL_RESULT = record(
    {**TYPED, "tool_use_id": ID},
    {**CACHE, **SET, "content": either(TEXT, array(RESULT_CONTENT)), "is_error": flag},
)
TOOL_USE = record(
    {**TYPED, "id": ID, "name": text(most=200), "input": free},
    {**CACHE, **CALLER, **SET},
)
SERVER_USES = ("server_tool_use", "mcp_tool_use")
SERVER_RESULTS = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "advisor_tool_result",
    "mcp_tool_result",
)
BLOCKS: dict[str, Check] = {
    "text": TEXT_BLOCK,
    "image": IMAGE,
    "document": DOCUMENT,
    "search_result": SEARCH_RESULT,
    "thinking": record({**TYPED, "thinking": TEXT, "signature": TEXT}),
    "redacted_thinking": record({**TYPED, "data": TEXT}),
    "tool_use": TOOL_USE,
    "tool_result": TOOL_RESULT,
    "server_tool_use": record({**TYPED, "id": ID, "name": TEXT, "input": free}, {**CACHE, **CALLER}),
    "mcp_tool_use": record({**TYPED, "id": ID, "name": TEXT, "server_name": TEXT, "input": free}, CACHE),
    **{kind: record({**TYPED, "tool_use_id": ID}, open=True) for kind in SERVER_RESULTS},
    **{
        kind: record(TYPED, CACHE, open=True)
        for kind in ("container_upload", "compaction", "tool_addition", "tool_removal", "mcp_tool_listing", "fallback")
    },
}
CONTENT = either(TEXT, array(tagged(BLOCKS)))
ROLES = ("user", "assistant", "system")


def role(value: Any, path: str) -> Iterator[Found]:
    """A role. One that is not known is told of in words of its own, without the message's place."""
    if not isinstance(value, str):
        yield found(TYPE, path, "Input should be a valid string")
    elif value not in ROLES:
        yield Found("M12", Fault(f'messages: Unexpected role "{value}". Allowed roles are "user" or "assistant"', path=path))


EFFORT = choice(*EFFORTS)
MESSAGE = record({"role": role, "content": CONTENT}, lacks={"content": "M13b"})
OF_SYSTEM_MESSAGES: dict[str, Check] = {
    "clear_at": choice("next_user_message", "never"),
    "output_config": record({}, {"effort": EFFORT}),
}


@lru_cache(maxsize=16)
def messages(opened: frozenset[str]) -> Check:
    """The messages, with what betas open: the system may also say how long its words stay and how hard the model tries."""
    more = {name: check for name, check in OF_SYSTEM_MESSAGES.items() if f"messages.{name}" in opened}
    system = record({"role": role}, {"content": CONTENT, **more})

    def message(value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, dict):
            yield Found("MS3b", Fault(f"{path}: Input does not match the expected shape.", path=path))
        elif not more or value.get("role") != "system":
            yield from MESSAGE(value, path)
        else:
            yield from system(value, path)
            if value.get("content") is None and not ("output_config" in more and value.get("output_config")):
                yield found("M13b", f"{path}.content", "Field required")

    return array(message)


SERVER_TOOLS = (
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
CUSTOM_TOOL = record(
    {"name": TOOL_NAME, "input_schema": record({"type": choice("object")}, open=True)},
    {
        **CACHE,
        "type": TEXT,
        "description": TEXT,
        "strict": flag,
        "defer_loading": flag,
        "eager_input_streaming": flag,
        "input_examples": array(free),
        "allowed_callers": array(TEXT),
    },
    lacks={"name": "M19b"},
)
TOOL = tagged({"custom": CUSTOM_TOOL, **{kind: record(TYPED, CACHE, open=True) for kind in SERVER_TOOLS}}, default="custom")

PARALLEL: dict[str, Check] = {"disable_parallel_tool_use": flag}
TOOL_CHOICE = tagged(
    {
        "auto": record(TYPED, PARALLEL),
        "any": record(TYPED, PARALLEL),
        "tool": record({**TYPED, "name": TEXT}, PARALLEL),
        "none": record(TYPED),
    }
)

DISPLAY: dict[str, Check] = {"display": choice("summarized", "omitted", "updates")}
BINDING: dict[str, Check] = {
    "block_binding": record({}, {"prefix_mismatch_behavior": choice("error", "drop_block")}),
}


def thinking(more: dict[str, Check]) -> Check:
    """How the model is to think. `more` is what a beta adds."""
    return tagged(
        {
            "enabled": record({**TYPED, "budget_tokens": number(1024, whole=True)}, {**DISPLAY, **more}),
            "adaptive": record(TYPED, {**DISPLAY, **more}),
            "disabled": record(TYPED),
            "between_tools": record(TYPED),
        }
    )


THINKING, BOUND_THINKING = thinking({}), thinking(BINDING)


def temperature(value: Any, path: str) -> Iterator[Found]:
    """A number from 0 to 1, which has words of its own for what is not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield found(TYPE, path, "Input should be a valid number")
    elif not 0 <= value <= 1:
        yield found("MP1", path, "range: 0..1")


JSON_FORMAT = record({"type": choice("json_schema"), "schema": free})
TASK_BUDGET = record({"type": choice("tokens"), "total": number(0, whole=True)}, {"remaining": number(0, whole=True)})


@lru_cache(maxsize=4)
def output_config(task_budget: bool) -> Check:
    """How the model is to answer. `task_budget` is what a beta adds."""
    more: dict[str, Check] = {"task_budget": TASK_BUDGET} if task_budget else {}
    return record({}, {"effort": EFFORT, "format": JSON_FORMAT, **more})


def _amount(*types: str) -> Check:
    return tagged({type: record({**TYPED, "value": number(0, whole=True)}) for type in types})


CONTEXT_EDITS: dict[str, Check] = {
    "clear_tool_uses_20250919": record(
        TYPED,
        {
            "clear_at_least": _amount("input_tokens"),
            "clear_tool_inputs": anything,
            "exclude_tools": array(TEXT),
            "keep": _amount("tool_uses"),
            "trigger": _amount("input_tokens", "tool_uses"),
        },
    ),
    "clear_thinking_20251015": record(
        TYPED, {"keep": text_or(tagged({"thinking_turns": record({**TYPED, "value": number(1, whole=True)}), "all": record(TYPED)}))}
    ),
    "compact_20260112": record(TYPED, {"instructions": TEXT, "pause_after_compaction": flag, "trigger": _amount("input_tokens")}),
}
MCP_SERVER = record(
    {"name": TEXT, "type": choice("url"), "url": TEXT},
    {"authorization_token": TEXT, "tool_configuration": record({}, {"allowed_tools": array(TEXT), "enabled": flag})},
)
CONTAINER = text_or(record({}, {"id": TEXT, "skills": array(record({**TYPED, "skill_id": TEXT}, {"version": TEXT}))}))

# In the order in which the API validates them (measured); those after `inference_geo` are newer and were not measured.
FIELDS: dict[str, Check] = {
    "model": TEXT,
    "tool_choice": TOOL_CHOICE,
    "tools": array(TOOL),
    "messages": messages(frozenset()),
    "system": either(TEXT, array(SYSTEM_BLOCK)),
    "thinking": THINKING,
    "output_config": output_config(False),
    "cache_control": CACHE["cache_control"],
    "max_tokens": number(0, whole=True),
    "metadata": record({}, {"user_id": TEXT}),
    "stop_sequences": array(TEXT),
    "temperature": temperature,
    "service_tier": choice("auto", "standard_only"),
    "top_k": unless_unset(number(0, whole=True)),
    "top_p": unless_unset(number(0, 1)),
    "stream": flag,
    "container": CONTAINER,
    "inference_geo": TEXT,
    "speed": choice("standard", "fast"),
    "diagnostics": record({}, {"previous_message_id": TEXT}),
    "user_profile_id": TEXT,
    "workspace_id": TEXT,
}
# The shapes of fields that need a beta, as in the SDK of 2026-11.
BETA_FIELDS: dict[str, Check] = {
    "billing_policy": record({"type": choice("billing_policy")}, {"bill_to": choice("self", "user_profile")}),
    "compaction": record({"type": choice("summarize")}, {"instructions": TEXT}),
    "context_management": record({}, {"edits": array(tagged(CONTEXT_EDITS))}),
    "fallback_credit_token": text_or(record({"token": TEXT}, {"mode": choice("strict", "best_effort")})),
    "fallbacks": text_or(
        array(
            record(
                {"model": TEXT},
                {
                    "max_tokens": number(0, whole=True),
                    "output_config": output_config(True),
                    "speed": choice("standard", "fast"),
                    "thinking": BOUND_THINKING,
                },
            )
        )
    ),
    "mcp_servers": array(MCP_SERVER),
    "output_format": JSON_FORMAT,
    "thread": tagged({"create": record(TYPED), "continue": record({**TYPED, "previous_message_id": TEXT})}),
}
REQUIRED = ("model", "messages", "max_tokens")
SAMPLING = ("temperature", "top_p", "top_k")
"""The fields that version 2026-10-21 of the API took out."""


@lru_cache(maxsize=16)
def checks(opened: frozenset[str]) -> dict[str, Check]:
    """The shapes of the fields in the API's order, with what betas open."""
    fields = {**FIELDS, "messages": messages(opened)}
    if "thinking.block_binding" in opened:
        fields["thinking"] = BOUND_THINKING
    if "output_config.task_budget" in opened:
        fields["output_config"] = output_config(True)
    return fields | {field: check for field, check in BETA_FIELDS.items() if field in opened}


def differences(request: dict[str, Any], betas: frozenset[str], removed: Sequence[str] = ()) -> Iterator[Found]:
    """What is wrong with a request's fields, in the API's order. Null counts as left out, except for what must be there (D).

    `removed`: fields that the version of the API does not have any more.
    """
    opened = opened_by(betas)
    for field, check in checks(opened).items():
        if field in removed:
            continue
        if field in request and (request[field] is not None or field in REQUIRED):
            yield from check(request[field], field)
        elif field in REQUIRED:
            yield found(MISSING, field, "Field required")
    for field in request:
        if field in removed:
            yield found("MV1", field, "Extra inputs are not permitted")
        elif field not in FIELDS and field not in opened:
            yield found("M20", field, "Extra inputs are not permitted")
