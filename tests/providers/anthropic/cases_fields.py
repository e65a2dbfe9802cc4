"""Cases about headers, fields and settings of the Messages API."""

from __future__ import annotations

from typing import Any

from tests.providers.anthropic.world import HELLO, NEWEST, ask, assistant, result, text, tool, use, user
from tests.providers.lawcase import LawCase

ADAPTIVE = {"type": "adaptive"}
ENABLED = {"type": "enabled", "budget_tokens": 1024}
DROPS = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
MID_CONVERSATION = {"anthropic-beta": "mid-conversation-system-clear-at-2026-08-21, mid-conversation-output-config-2026-07-01"}
CACHED = {"cache_control": {"type": "ephemeral"}}
ANSWERED = ask(HELLO, assistant(use()), user(result()))
BLOCK_TYPES = (
    "'advisor_tool_result', 'bash_code_execution_tool_result', 'code_execution_tool_result', 'compaction', 'container_upload', "
    "'document', 'fallback', 'image', 'mcp_tool_listing', 'mcp_tool_result', 'mcp_tool_use', 'redacted_thinking', 'search_result', "
    "'server_tool_use', 'text', 'text_editor_code_execution_tool_result', 'thinking', 'tool_addition', 'tool_removal', 'tool_result', "
    "'tool_search_tool_result', 'tool_use', 'web_fetch_tool_result', 'web_search_tool_result'"
)


def error(message: str, type: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message}}


MCP_SERVER = {"type": "url", "url": "https://orders.example/mcp", "name": "orders"}
EDITS = {"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 9_000}}, {"type": "compact_20260112"}]}

CASES: list[LawCase] = [
    # -- before the body is read
    LawCase("M21", ask(), error("anthropic-version: header is required"), obeys=ask(), omits=("anthropic-version",)),
    LawCase(
        "M22b",
        ask({"role": "user", "content": "x" * 1_000}),
        error("Request exceeds the maximum size", "request_too_large"),
        status=413,
        obeys=ask(),
        profile={"size_limit": 1_000},
    ),
    LawCase("MB1", [HELLO], error("Input should be a valid dictionary or object to extract fields from"), obeys=ask()),
    # -- the shape of the fields
    LawCase(
        "M12",
        ask({"role": "developer", "content": "Be brief."}),
        error('messages: Unexpected role "developer". Allowed roles are "user" or "assistant"'),
        obeys=ask(),
    ),
    LawCase("M13b", ask({"role": "user"}), error("messages.0.content: Field required"), obeys=ask()),
    LawCase(
        "M13b",
        ask(HELLO, {"role": "system", "clear_at": "never", "output_config": {}}),
        error("messages.1.content: Field required"),
        obeys=ask(HELLO, {"role": "system", "clear_at": "never", "output_config": {"effort": "low"}}),
        headers=MID_CONVERSATION,
    ),
    LawCase(
        "M20b",
        ask(HELLO, {"role": "system", "content": "Be brief.", "clear_at": "next_user_message"}),
        error("messages.1.clear_at: Extra inputs are not permitted"),
        obeys=ask(HELLO, {"role": "system", "content": "Be brief."}),
    ),
    LawCase(
        "MS4",
        ask(HELLO, {"role": "system", "content": "Be brief.", "clear_at": "soon"}),
        error("messages.1.clear_at: Input should be 'next_user_message' or 'never'"),
        obeys=ask(HELLO, {"role": "system", "content": "Be brief.", "clear_at": "next_user_message", "output_config": {}}),
        headers=MID_CONVERSATION,
    ),
    LawCase(
        "M19",
        ask(tools=[tool("find order")]),
        error("tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
        obeys=ask(tools=[tool("find_order")]),
    ),
    LawCase(
        "M19",
        ask(tools=[tool("x" * 129)]),
        error("tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
        obeys=ask(tools=[tool("x" * 128)]),
    ),
    LawCase(
        "M19b",
        ask(tools=[{"input_schema": {"type": "object"}}]),
        error("tools.0.custom.name: Field required"),
        obeys=ask(tools=[{"name": "f", "input_schema": {"type": "object"}}]),
    ),
    LawCase("M20", ask(bogus_field=1), error("bogus_field: Extra inputs are not permitted"), obeys=ask(metadata={})),
    LawCase("M20", ask(context_management={}), error("context_management: Extra inputs are not permitted"), obeys=ask()),
    LawCase(
        "M20",
        ask(mcp_servers=[MCP_SERVER], context_management={}),
        error("context_management: Extra inputs are not permitted"),
        obeys=ask(mcp_servers=[MCP_SERVER]),
        headers={"anthropic-beta": "mcp-client-2025-11-20, no-such-beta-2026-11-01"},
    ),
    LawCase(
        "M20b",
        ask({**HELLO, "bogus": 1}),
        error("messages.0.bogus: Extra inputs are not permitted"),
        obeys=ask(),
    ),
    LawCase(
        "M20b",
        ask(HELLO, assistant(use(text="")), user(result())),
        error("messages.1.content.0.tool_use.text: Extra inputs are not permitted"),
        obeys=ANSWERED,
    ),
    LawCase(
        "M20b",
        ask(thinking=DROPS),
        error("thinking.adaptive.block_binding: Extra inputs are not permitted"),
        obeys=ask(thinking=ADAPTIVE),
    ),
    LawCase("MS1", {"model": "claude-sonnet-5", "messages": [HELLO]}, error("max_tokens: Field required"), obeys=ask()),
    LawCase("MS1", {"max_tokens": 9, "messages": [HELLO]}, error("model: Field required"), obeys=ask()),
    LawCase("MS1", {"model": "claude-sonnet-5", "max_tokens": 9}, error("messages: Field required"), obeys=ask()),
    LawCase("MS1", ask({"content": "Hello"}), error("messages.0.role: Field required"), obeys=ask()),
    LawCase("MS1", ask(user({"type": "text"})), error("messages.0.content.0.text.text: Field required"), obeys=ask(user(text("Hello")))),
    LawCase(
        "MS1",
        ask(HELLO, assistant({"type": "thinking", "thinking": "Hm."}, text("Well.")), HELLO),
        error("messages.1.content.0.thinking.signature: Field required"),
        obeys=ask(HELLO, assistant(text("Well.")), HELLO),
    ),
    LawCase(
        "MS1",
        ask(output_format={"type": "json_schema"}),
        error("output_format.schema: Field required"),
        obeys=ask(output_format={"type": "json_schema", "schema": {"type": "object"}}),
        headers={"anthropic-beta": "structured-outputs-2025-11-13"},
    ),
    LawCase(
        "MS1",
        ask(mcp_servers=[{"type": "url", "name": "orders"}]),
        error("mcp_servers.0.url: Field required"),
        obeys=ask(mcp_servers=[{**MCP_SERVER, "tool_configuration": {"allowed_tools": ["look_up"]}}]),
        headers={"anthropic-beta": "mcp-client-2025-04-04"},
    ),
    LawCase("MS2", ask(max_tokens="many"), error("max_tokens: Input should be a valid integer"), obeys=ask(max_tokens=9)),
    LawCase("MS2", ask() | {"messages": "Hello"}, error("messages: Input should be a valid list"), obeys=ask()),
    LawCase(
        "MS2",
        ask({"role": "user", "content": None}),
        error("messages.0.content: Input should be a valid list"),
        obeys=ask({"role": "user", "content": "Hello"}),
    ),
    LawCase(
        "MS2",
        ask(HELLO, assistant(use(input="{}")), user(result())),
        error("messages.1.content.0.tool_use.input: Input should be a valid dictionary"),
        obeys=ANSWERED,
    ),
    LawCase(
        "MS3",
        ask(metadata="u-7"),
        error("metadata: Input should be a valid dictionary or object to extract fields from"),
        obeys=ask(metadata={"user_id": "u-7"}),
    ),
    LawCase("MS3b", ask("Hello"), error("messages.0: Input does not match the expected shape."), obeys=ask()),
    LawCase(
        "MS4",
        ask(service_tier="best"),
        error("service_tier: Input should be 'auto' or 'standard_only'"),
        obeys=ask(service_tier="auto"),
    ),
    LawCase(
        "MS5",
        ask(user({"type": "song"})),
        error(f"messages.0.content.0: Input tag 'song' found using 'type' does not match any of the expected tags: {BLOCK_TYPES}"),
        obeys=ask(user(text("la la"))),
    ),
    LawCase(
        "MS6",
        ask(thinking={"type": "enabled", "budget_tokens": 512}),
        error("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"),
        obeys=ask(thinking=ENABLED),
    ),
    LawCase("MS6", ask(top_k=-2), error("top_k: Input should be greater than or equal to 0"), obeys=ask(top_k=-1)),
    LawCase(
        "MS5",
        ask(context_management={"edits": [{"type": "forget"}]}),
        error(
            "context_management.edits.0: Input tag 'forget' found using 'type' does not match any of the expected tags: "
            "'clear_thinking_20251015', 'clear_tool_uses_20250919', 'compact_20260112'"
        ),
        obeys=ask(context_management=EDITS),
        headers={"anthropic-beta": "context-management-2025-06-27"},
    ),
    LawCase(
        "MS7",
        ask(HELLO, assistant(use("find:1")), user(result("find1"))),
        error("messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
        obeys=ask(HELLO, assistant(use("find1")), user(result("find1"))),
    ),
    LawCase(
        "MS8",
        ask(HELLO, assistant(use(name="x" * 201)), user(result())),
        error("messages.1.content.0.tool_use.name: String should have at most 200 characters"),
        obeys=ask(HELLO, assistant(use(name="x" * 200)), user(result())),
    ),
    LawCase("MP1", ask(temperature=1.2), error("temperature: range: 0..1"), obeys=ask(temperature=1)),
    *(
        LawCase(
            "MV1",
            ask(model="claude-haiku-4-5", **{name: value}),
            error(f"{name}: Extra inputs are not permitted"),
            obeys=ask(model="claude-haiku-4-5"),
            headers=NEWEST,
        )
        for name, value in (("temperature", 1), ("top_p", 0.9), ("top_k", 5))
    ),
    # -- the model, and settings that do not go together
    LawCase(
        "M23",
        ask(model="no-such-model"),
        error("model: no-such-model", "not_found_error"),
        status=404,
        obeys=ask(model="claude-sonnet-5"),
    ),
    LawCase(
        "MP2",
        ask(model="claude-haiku-4-5", max_tokens=204_096),
        error("max_tokens: 204096 > 64000, which is the maximum allowed number of output tokens for claude-haiku-4-5"),
        obeys=ask(model="claude-haiku-4-5", max_tokens=64_000),
    ),
    LawCase(
        "MP3",
        ask(thinking=ENABLED, max_tokens=1024),
        error(
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at "
            "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size"
        ),
        obeys=ask(thinking=ENABLED, max_tokens=1025),
    ),
    LawCase(
        "MP4",
        ask(thinking=ENABLED, temperature=0.5, model="claude-haiku-4-5"),
        error("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode."),
        obeys=ask(thinking={"type": "disabled"}, temperature=0.5, model="claude-haiku-4-5"),
    ),
    LawCase(
        "MP6", ask(temperature=0), error("`temperature` is deprecated for this model."), obeys=ask(temperature=0, model="claude-opus-4-6")
    ),
    LawCase("MP6", ask(top_k=5), error("`top_k` is deprecated for this model."), obeys=ask(temperature=1, top_p=1, top_k=-1)),
    LawCase(
        "MP7",
        ask(temperature=0.5, top_p=0.5, model="claude-haiku-4-5"),
        error("`temperature` and `top_p` cannot both be specified for this model. Please use only one."),
        obeys=ask(temperature=0.5, top_p=0.5, model="claude-3-opus-20240229"),
    ),
    LawCase(
        "MP8",
        ask(output_config={"effort": "low"}, model="claude-haiku-4-5"),
        error("This model does not support the effort parameter."),
        obeys=ask(output_config={"effort": "low"}),
    ),
    LawCase(
        "MP9",
        ask(output_config={"effort": "xhigh"}, model="claude-opus-4-6"),
        error("This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium."),
        obeys=ask(output_config={"effort": "max"}, model="claude-opus-4-6"),
    ),
    LawCase(
        "MP5",
        ask(thinking=ENABLED, tools=[tool()], tool_choice={"type": "any"}),
        error("Thinking may not be enabled when tool_choice forces tool use."),
        obeys=ask(thinking=ENABLED, tools=[tool()], tool_choice={"type": "auto"}),
    ),
    LawCase(
        "M19c",
        ask(tool_choice={"type": "any"}),
        error("tool_choice.any may only be specified while providing tools"),
        obeys=ask(tool_choice={"type": "any"}, tools=[tool()]),
    ),
    LawCase(
        "M19d",
        ask(tool_choice={"type": "tool", "name": "refund"}, tools=[tool()]),
        error("Tool 'refund' not found in provided tools"),
        obeys=ask(tool_choice={"type": "tool", "name": "find_order"}, tools=[tool()]),
    ),
    LawCase("MT1", ask(tools=[tool(), tool()]), error("tools: Tool names must be unique."), obeys=ask(tools=[tool(), tool("b")])),
]
