"""The shape of a Messages request. May know: `shapes.py`. Decides: which members there are, of which types, in which order.

Members as in the SDK of 2026-11. Blocks that only the provider writes are taken as they come: whatever it sent may be sent back. A
block's path has its type in it (`messages.0.content.0.text.text`), as the paths of all recorded answers do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.wire.anthropic.shapes import (
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
)
from legato.wire.law import Fault

BINDING_CONTROLS = "thinking-binding-controls-2026-08-01"

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


EFFORT = choice("low", "medium", "high", "xhigh", "max")
MESSAGE = record({"role": role, "content": CONTENT}, lacks={"content": "M13b"})
SYSTEM_MESSAGE = record(
    {"role": role},
    {"content": CONTENT, "clear_at": choice("next_user_message", "never"), "output_config": record({}, {"effort": EFFORT})},
)


def beta_message(value: Any, path: str) -> Iterator[Found]:
    """A message as the beta has it: the system may also say how long its words stay and how hard the model tries, instead of words."""
    if not isinstance(value, dict) or value.get("role") != "system":
        yield from MESSAGE(value, path)
        return
    yield from SYSTEM_MESSAGE(value, path)
    if value.get("content") is None and not value.get("output_config"):
        yield found("M13b", f"{path}.content", "Field required")


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


# In the order in which the API validates them (measured); those after `inference_geo` are newer and were not measured.
FIELDS: dict[str, Check] = {
    "model": TEXT,
    "tool_choice": TOOL_CHOICE,
    "tools": array(TOOL),
    "messages": array(MESSAGE),
    "system": either(TEXT, array(SYSTEM_BLOCK)),
    "thinking": THINKING,
    "output_config": record(
        {},
        {
            "effort": EFFORT,
            "format": record({"type": choice("json_schema"), "schema": free}),
        },
        open=True,
    ),
    "cache_control": CACHE["cache_control"],
    "max_tokens": number(0, whole=True),
    "metadata": record({}, {"user_id": TEXT}),
    "stop_sequences": array(TEXT),
    "temperature": temperature,
    "service_tier": choice("auto", "standard_only"),
    "top_k": number(0, whole=True),
    "top_p": number(0, 1),
    "stream": flag,
    "container": anything,
    "inference_geo": TEXT,
    "speed": choice("standard", "fast"),
    "diagnostics": free,
    "user_profile_id": TEXT,
    "workspace_id": TEXT,
}
BETA_MESSAGES = array(beta_message)
REQUIRED = ("model", "messages", "max_tokens")
BETA_FIELDS = frozenset(
    ("compaction", "context_management", "fallback_credit_token", "fallbacks", "mcp_servers", "output_format", "thread")
)


def differences(request: dict[str, Any], betas: frozenset[str]) -> Iterator[Found]:
    """What is wrong with a request's fields, in the API's order. Null counts as left out, except for what must be there (D)."""
    for field, check in FIELDS.items():
        if field in request and (request[field] is not None or field in REQUIRED):
            if field == "thinking" and BINDING_CONTROLS in betas:
                check = BOUND_THINKING
            elif field == "messages" and betas:
                check = BETA_MESSAGES
            yield from check(request[field], field)
        elif field in REQUIRED:
            yield found(MISSING, field, "Field required")
    for field in request:
        if field not in FIELDS and not (betas and field in BETA_FIELDS):
            yield found("M20", field, "Extra inputs are not permitted")
