"""Test cases of the rules about headers, fields and settings of the Messages API."""

from __future__ import annotations

from typing import Any

from tests.providers.rules.anthropic.sample_requests import (
    HELLO,
    NEWEST_VERSION_HEADER,
    make_assistant_message,
    make_request,
    make_text_block,
    make_tool,
    make_tool_result,
    make_tool_use,
    make_user_message,
)
from tests.providers.rules.rule_cases import RuleCase

ADAPTIVE_THINKING = {"type": "adaptive"}
ENABLED_THINKING = {"type": "enabled", "budget_tokens": 1024}
DROP_BLOCK_THINKING = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
MID_CONVERSATION_HEADER = {"anthropic-beta": "mid-conversation-system-clear-at-2026-08-21, mid-conversation-output-config-2026-07-01"}
CACHE_CONTROL = {"cache_control": {"type": "ephemeral"}}
TOOL_RESULT_REQUEST = make_request(HELLO, make_assistant_message(make_tool_use()), make_user_message(make_tool_result()))
BLOCK_TYPES = (
    "'advisor_tool_result', 'bash_code_execution_tool_result', 'code_execution_tool_result', 'compaction', 'container_upload', "
    "'document', 'fallback', 'image', 'mcp_tool_listing', 'mcp_tool_result', 'mcp_tool_use', 'redacted_thinking', 'search_result', "
    "'server_tool_use', 'text', 'text_editor_code_execution_tool_result', 'thinking', 'tool_addition', 'tool_removal', 'tool_result', "
    "'tool_search_tool_result', 'tool_use', 'web_fetch_tool_result', 'web_search_tool_result'"
)


def make_error_body(message: str, type: str = "invalid_request_error") -> dict[str, Any]:
    """Return the body of an error response, without its request id."""
    return {"type": "error", "error": {"type": type, "message": message}}


MCP_SERVER = {"type": "url", "url": "https://orders.example/mcp", "name": "orders"}
CONTEXT_EDITS = {
    "edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 9_000}}, {"type": "compact_20260112"}]
}

CASES: list[RuleCase] = [
    # -- before the body is read
    RuleCase(
        "M21",
        make_request(),
        make_error_body("anthropic-version: header is required"),
        legal=make_request(),
        omitted_headers=("anthropic-version",),
    ),
    RuleCase(
        "M22b",
        make_request({"role": "user", "content": "x" * 1_000}),
        make_error_body("Request exceeds the maximum size", "request_too_large"),
        status=413,
        legal=make_request(),
        switches={"size_limit": 1_000},
    ),
    RuleCase("MB1", [HELLO], make_error_body("Input should be a valid dictionary or object to extract fields from"), legal=make_request()),
    # -- the shape of the fields
    RuleCase(
        "M12",
        make_request({"role": "developer", "content": "Be brief."}),
        make_error_body('messages: Unexpected role "developer". Allowed roles are "user" or "assistant"'),
        legal=make_request(),
    ),
    RuleCase("M13b", make_request({"role": "user"}), make_error_body("messages.0.content: Field required"), legal=make_request()),
    RuleCase(
        "M13b",
        make_request(HELLO, {"role": "system", "clear_at": "never", "output_config": {}}),
        make_error_body("messages.1.content: Field required"),
        legal=make_request(HELLO, {"role": "system", "clear_at": "never", "output_config": {"effort": "low"}}),
        headers=MID_CONVERSATION_HEADER,
    ),
    RuleCase(
        "M20b",
        make_request(HELLO, {"role": "system", "content": "Be brief.", "clear_at": "next_user_message"}),
        make_error_body("messages.1.clear_at: Extra inputs are not permitted"),
        legal=make_request(HELLO, {"role": "system", "content": "Be brief."}),
    ),
    RuleCase(
        "MS4",
        make_request(HELLO, {"role": "system", "content": "Be brief.", "clear_at": "soon"}),
        make_error_body("messages.1.clear_at: Input should be 'next_user_message' or 'never'"),
        legal=make_request(HELLO, {"role": "system", "content": "Be brief.", "clear_at": "next_user_message", "output_config": {}}),
        headers=MID_CONVERSATION_HEADER,
    ),
    RuleCase(
        "M19",
        make_request(tools=[make_tool("find order")]),
        make_error_body("tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
        legal=make_request(tools=[make_tool("find_order")]),
    ),
    RuleCase(
        "M19",
        make_request(tools=[make_tool("x" * 129)]),
        make_error_body("tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
        legal=make_request(tools=[make_tool("x" * 128)]),
    ),
    RuleCase(
        "M19b",
        make_request(tools=[{"input_schema": {"type": "object"}}]),
        make_error_body("tools.0.custom.name: Field required"),
        legal=make_request(tools=[{"name": "f", "input_schema": {"type": "object"}}]),
    ),
    RuleCase(
        "M20", make_request(bogus_field=1), make_error_body("bogus_field: Extra inputs are not permitted"), legal=make_request(metadata={})
    ),
    RuleCase(
        "M20",
        make_request(context_management={}),
        make_error_body("context_management: Extra inputs are not permitted"),
        legal=make_request(),
    ),
    RuleCase(
        "M20",
        make_request(mcp_servers=[MCP_SERVER], context_management={}),
        make_error_body("context_management: Extra inputs are not permitted"),
        legal=make_request(mcp_servers=[MCP_SERVER]),
        headers={"anthropic-beta": "mcp-client-2025-11-20, no-such-beta-2026-11-01"},
    ),
    RuleCase(
        "M20b",
        make_request({**HELLO, "bogus": 1}),
        make_error_body("messages.0.bogus: Extra inputs are not permitted"),
        legal=make_request(),
    ),
    RuleCase(
        "M20b",
        make_request(HELLO, make_assistant_message(make_tool_use(text="")), make_user_message(make_tool_result())),
        make_error_body("messages.1.content.0.tool_use.text: Extra inputs are not permitted"),
        legal=TOOL_RESULT_REQUEST,
    ),
    RuleCase(
        "M20b",
        make_request(thinking=DROP_BLOCK_THINKING),
        make_error_body("thinking.adaptive.block_binding: Extra inputs are not permitted"),
        legal=make_request(thinking=ADAPTIVE_THINKING),
    ),
    RuleCase("MS1", {"model": "claude-sonnet-5", "messages": [HELLO]}, make_error_body("max_tokens: Field required"), legal=make_request()),
    RuleCase("MS1", {"max_tokens": 9, "messages": [HELLO]}, make_error_body("model: Field required"), legal=make_request()),
    RuleCase("MS1", {"model": "claude-sonnet-5", "max_tokens": 9}, make_error_body("messages: Field required"), legal=make_request()),
    RuleCase("MS1", make_request({"content": "Hello"}), make_error_body("messages.0.role: Field required"), legal=make_request()),
    RuleCase(
        "MS1",
        make_request(make_user_message({"type": "text"})),
        make_error_body("messages.0.content.0.text.text: Field required"),
        legal=make_request(make_user_message(make_text_block("Hello"))),
    ),
    RuleCase(
        "MS1",
        make_request(HELLO, make_assistant_message({"type": "thinking", "thinking": "Hm."}, make_text_block("Well.")), HELLO),
        make_error_body("messages.1.content.0.thinking.signature: Field required"),
        legal=make_request(HELLO, make_assistant_message(make_text_block("Well.")), HELLO),
    ),
    RuleCase(
        "MS1",
        make_request(output_format={"type": "json_schema"}),
        make_error_body("output_format.schema: Field required"),
        legal=make_request(output_format={"type": "json_schema", "schema": {"type": "object"}}),
        headers={"anthropic-beta": "structured-outputs-2025-11-13"},
    ),
    RuleCase(
        "MS1",
        make_request(mcp_servers=[{"type": "url", "name": "orders"}]),
        make_error_body("mcp_servers.0.url: Field required"),
        legal=make_request(mcp_servers=[{**MCP_SERVER, "tool_configuration": {"allowed_tools": ["look_up"]}}]),
        headers={"anthropic-beta": "mcp-client-2025-04-04"},
    ),
    RuleCase(
        "MS2",
        make_request(max_tokens="many"),
        make_error_body("max_tokens: Input should be a valid integer"),
        legal=make_request(max_tokens=9),
    ),
    RuleCase(
        "MS2", make_request() | {"messages": "Hello"}, make_error_body("messages: Input should be a valid list"), legal=make_request()
    ),
    RuleCase(
        "MS2",
        make_request({"role": "user", "content": None}),
        make_error_body("messages.0.content: Input should be a valid list"),
        legal=make_request({"role": "user", "content": "Hello"}),
    ),
    RuleCase(
        "MS2",
        make_request(HELLO, make_assistant_message(make_tool_use(input="{}")), make_user_message(make_tool_result())),
        make_error_body("messages.1.content.0.tool_use.input: Input should be a valid dictionary"),
        legal=TOOL_RESULT_REQUEST,
    ),
    RuleCase(
        "MS3",
        make_request(metadata="u-7"),
        make_error_body("metadata: Input should be a valid dictionary or object to extract fields from"),
        legal=make_request(metadata={"user_id": "u-7"}),
    ),
    RuleCase("MS3b", make_request("Hello"), make_error_body("messages.0: Input does not match the expected shape."), legal=make_request()),
    RuleCase(
        "MS4",
        make_request(service_tier="best"),
        make_error_body("service_tier: Input should be 'auto' or 'standard_only'"),
        legal=make_request(service_tier="auto"),
    ),
    RuleCase(
        "MS5",
        make_request(make_user_message({"type": "song"})),
        make_error_body(
            f"messages.0.content.0: Input tag 'song' found using 'type' does not match any of the expected tags: {BLOCK_TYPES}"
        ),
        legal=make_request(make_user_message(make_text_block("la la"))),
    ),
    RuleCase(
        "MS6",
        make_request(thinking={"type": "enabled", "budget_tokens": 512}),
        make_error_body("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"),
        legal=make_request(thinking=ENABLED_THINKING),
    ),
    RuleCase(
        "MS6", make_request(top_k=-2), make_error_body("top_k: Input should be greater than or equal to 0"), legal=make_request(top_k=-1)
    ),
    RuleCase(
        "MS5",
        make_request(context_management={"edits": [{"type": "forget"}]}),
        make_error_body(
            "context_management.edits.0: Input tag 'forget' found using 'type' does not match any of the expected tags: "
            "'clear_thinking_20251015', 'clear_tool_uses_20250919', 'compact_20260112'"
        ),
        legal=make_request(context_management=CONTEXT_EDITS),
        headers={"anthropic-beta": "context-management-2025-06-27"},
    ),
    RuleCase(
        "MS7",
        make_request(HELLO, make_assistant_message(make_tool_use("find:1")), make_user_message(make_tool_result("find1"))),
        make_error_body("messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
        legal=make_request(HELLO, make_assistant_message(make_tool_use("find1")), make_user_message(make_tool_result("find1"))),
    ),
    RuleCase(
        "MS8",
        make_request(HELLO, make_assistant_message(make_tool_use(name="x" * 201)), make_user_message(make_tool_result())),
        make_error_body("messages.1.content.0.tool_use.name: String should have at most 200 characters"),
        legal=make_request(HELLO, make_assistant_message(make_tool_use(name="x" * 200)), make_user_message(make_tool_result())),
    ),
    RuleCase("MP1", make_request(temperature=1.2), make_error_body("temperature: range: 0..1"), legal=make_request(temperature=1)),
    *(
        RuleCase(
            "MV1",
            make_request(model="claude-haiku-4-5", **{name: value}),
            make_error_body(f"{name}: Extra inputs are not permitted"),
            legal=make_request(model="claude-haiku-4-5"),
            headers=NEWEST_VERSION_HEADER,
        )
        for name, value in (("temperature", 1), ("top_p", 0.9), ("top_k", 5))
    ),
    # -- the model, and settings that do not go together
    RuleCase(
        "M23",
        make_request(model="no-such-model"),
        make_error_body("model: no-such-model", "not_found_error"),
        status=404,
        legal=make_request(model="claude-sonnet-5"),
    ),
    RuleCase(
        "MP2",
        make_request(model="claude-haiku-4-5", max_tokens=204_096),
        make_error_body("max_tokens: 204096 > 64000, which is the maximum allowed number of output tokens for claude-haiku-4-5"),
        legal=make_request(model="claude-haiku-4-5", max_tokens=64_000),
    ),
    RuleCase(
        "MP3",
        make_request(thinking=ENABLED_THINKING, max_tokens=1024),
        make_error_body(
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at "
            "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size"
        ),
        legal=make_request(thinking=ENABLED_THINKING, max_tokens=1025),
    ),
    RuleCase(
        "MP4",
        make_request(thinking=ENABLED_THINKING, temperature=0.5, model="claude-haiku-4-5"),
        make_error_body("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode."),
        legal=make_request(thinking={"type": "disabled"}, temperature=0.5, model="claude-haiku-4-5"),
    ),
    RuleCase(
        "MP6",
        make_request(temperature=0),
        make_error_body("`temperature` is deprecated for this model."),
        legal=make_request(temperature=0, model="claude-opus-4-6"),
    ),
    RuleCase(
        "MP6",
        make_request(top_k=5),
        make_error_body("`top_k` is deprecated for this model."),
        legal=make_request(temperature=1, top_p=1, top_k=-1),
    ),
    RuleCase(
        "MP7",
        make_request(temperature=0.5, top_p=0.5, model="claude-haiku-4-5"),
        make_error_body("`temperature` and `top_p` cannot both be specified for this model. Please use only one."),
        legal=make_request(temperature=0.5, top_p=0.5, model="claude-3-opus-20240229"),
    ),
    RuleCase(
        "MP8",
        make_request(output_config={"effort": "low"}, model="claude-haiku-4-5"),
        make_error_body("This model does not support the effort parameter."),
        legal=make_request(output_config={"effort": "low"}),
    ),
    RuleCase(
        "MP9",
        make_request(output_config={"effort": "xhigh"}, model="claude-opus-4-6"),
        make_error_body("This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium."),
        legal=make_request(output_config={"effort": "max"}, model="claude-opus-4-6"),
    ),
    RuleCase(
        "MP5",
        make_request(thinking=ENABLED_THINKING, tools=[make_tool()], tool_choice={"type": "any"}),
        make_error_body("Thinking may not be enabled when tool_choice forces tool use."),
        legal=make_request(thinking=ENABLED_THINKING, tools=[make_tool()], tool_choice={"type": "auto"}),
    ),
    RuleCase(
        "M19c",
        make_request(tool_choice={"type": "any"}),
        make_error_body("tool_choice.any may only be specified while providing tools"),
        legal=make_request(tool_choice={"type": "any"}, tools=[make_tool()]),
    ),
    RuleCase(
        "M19d",
        make_request(tool_choice={"type": "tool", "name": "refund"}, tools=[make_tool()]),
        make_error_body("Tool 'refund' not found in provided tools"),
        legal=make_request(tool_choice={"type": "tool", "name": "find_order"}, tools=[make_tool()]),
    ),
    RuleCase(
        "MT1",
        make_request(tools=[make_tool(), make_tool()]),
        make_error_body("tools: Tool names must be unique."),
        legal=make_request(tools=[make_tool(), make_tool("b")]),
    ),
]
