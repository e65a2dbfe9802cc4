"""A table of the names of the SDK's package (0.24) that this facade does not support.

Every page that is pointed to has what it is said to have: tests/compat/agents/test_public_names.py.
"""

from __future__ import annotations

from legato.compat.agents.unsupported import (
    ASKED,
    CAUGHT,
    GUARD,
    HISTORY,
    HOSTED,
    INSTEAD,
    LEDGER,
    LOCAL,
    MCP,
    NOTHING,
    ORIGIN,
    PROMPT,
    SANDBOX,
    SHORTER,
)

_BY_ANSWER: dict[str, str] = {
    HOSTED: """
        CodeInterpreterTool FileSearchTool HostedMCPTool ImageGenerationTool ImageGenerationToolConfig
        ProgrammaticToolCallingTool ToolSearchTool WebSearchTool WebSearchToolImageSettings
    """,
    LOCAL: """
        apply_diff ApplyPatchEditor ApplyPatchOperation ApplyPatchResult ApplyPatchTool ApplyPatchToolCustomDataContext
        ApplyPatchToolCustomDataExtractor AsyncComputer Button Computer ComputerProvider ComputerTool
        ComputerToolCustomDataContext ComputerToolCustomDataExtractor CustomTool CustomToolCustomDataContext
        CustomToolCustomDataExtractor dispose_resolved_computers Environment LocalShellCommandRequest LocalShellExecutor
        LocalShellTool resolve_computer ShellActionRequest ShellCallData ShellCallOutcome ShellCommandOutput ShellCommandRequest
        ShellExecutor ShellResult ShellTool ShellToolContainerAutoEnvironment ShellToolContainerNetworkPolicy
        ShellToolContainerNetworkPolicyAllowlist ShellToolContainerNetworkPolicyDisabled
        ShellToolContainerNetworkPolicyDomainSecret ShellToolContainerReferenceEnvironment ShellToolContainerSkill
        ShellToolEnvironment ShellToolHostedEnvironment ShellToolInlineSkill ShellToolInlineSkillSource
        ShellToolLocalEnvironment ShellToolLocalSkill ShellToolSkillReference tool_namespace
    """,
    INSTEAD["function_tool.custom_data_extractor"]: """
        FunctionToolCustomDataContext FunctionToolCustomDataExtractor
    """,
    INSTEAD["function_tool.allowed_callers"]: """
        ToolCaller
    """,
    MCP: """
        MCPApprovalRequestItem MCPApprovalResponseItem MCPListToolsItem MCPToolApprovalFunction MCPToolApprovalFunctionResult
        MCPToolApprovalRequest MCPToolCancellationError
    """,
    "no such item comes here: leave its branch out": """
        CompactionItem InputItem ToolSearchCallItem ToolSearchOutputItem
    """,
    ORIGIN: """
        ToolOrigin ToolOriginType
    """,
    PROMPT: """
        DynamicPromptFunction GenerateDynamicPromptData Prompt
    """,
    "give a type that pydantic knows as output_type=; its validators are yours to write": """
        AgentOutputSchemaBase
    """,
    "a function that makes the output would say what nobody said: return it from a tool, and stop there with StopAtTools": """
        FunctionToolResult ToolsToFinalOutputFunction ToolsToFinalOutputResult
    """,
    ASKED: """
        Model
    """,
    "give each agent its model, or RunConfig(model=...), see docs/models.md#choosing-one": """
        ModelProvider MultiProvider OpenAIProvider
    """,
    LEDGER: """
        add_trace_processor AgentSpanData CustomSpanData FunctionSpanData GenerationSpanData GuardrailSpanData HandoffSpanData
        MCPListToolsSpanData ModelTracing ResponseSpanData set_trace_processors set_trace_provider Span SpanData SpanError
        SpeechGroupSpanData SpeechSpanData TaskSpanData Trace TracingProcessor TranscriptionSpanData TurnSpanData
    """,
    "leave it out: calls that may pass are retried, see docs/models.md#failures": """
        ModelRetryAdvice ModelRetryAdviceRequest ModelRetryBackoffSettings ModelRetryNormalizedError ModelRetrySettings
        retry_policies RetryDecision RetryPolicy RetryPolicyContext
    """,
    "a refusal is the agent's reply: result.final_output has its words": """
        ModelRefusalError
    """,
    "catch ModelCallFailed": """
        ModelTimeoutError
    """,
    "a tool that takes too long is told to the model, and ends no run": """
        ToolTimeoutError
    """,
    "leave it out: nothing is registered anywhere": """
        OpenAIAgentRegistrationConfig set_default_openai_agent_registration set_default_openai_harness
    """,
    "leave it out: requests go over HTTP, and send only what is new (memory='chained')": """
        OpenAIResponsesWebSocketOptions OpenAIResponsesWSModel responses_websocket_session ResponsesWebSocketSession
        set_default_openai_responses_transport
    """,
    (
        "the ledger keeps the history, so a class of yours cannot: use SQLiteSession(id, path), or SQLiteSession(id, store=...)"
        " with a store of your own, see docs/stores.md#the-contract"
    ): """
        Session SessionABC
    """,
    HISTORY: """
        default_handoff_history_mapper get_conversation_history_wrappers nest_handoff_history
        reset_conversation_history_wrappers SessionSettings set_conversation_history_wrappers
    """,
    "Runner.run(..., conversation_id=...); the ledger stays the owner of the history": """
        OpenAIConversationsSession
    """,
    SHORTER: """
        is_openai_responses_compaction_aware_session OpenAIResponsesCompactionArgs OpenAIResponsesCompactionAwareSession
        OpenAIResponsesCompactionSession
    """,
    NOTHING["RunConfig.output_guardrail_blocked_message"]: """
        OutputGuardrailBlockedMessageArgs OutputGuardrailBlockedMessageFormatter
    """,
    INSTEAD["RunState.set_reasoning_item_id_policy"]: """
        ReasoningItemIdPolicy
    """,
    NOTHING["RunConfig.tool_name_collision_policy"]: """
        ToolNameCollisionPolicy
    """,
    NOTHING["RunConfig.tool_not_found_behavior"]: """
        ToolNotFoundBehavior
    """,
    INSTEAD["RunConfig.tool_error_formatter"]: """
        ToolErrorFormatter ToolErrorFormatterArgs
    """,
    INSTEAD["RunConfig.tool_execution"]: """
        ToolExecutionConfig
    """,
    CAUGHT: """
        RunErrorData RunErrorHandler RunErrorHandlerInput RunErrorHandlerResult RunErrorHandlers
    """,
    INSTEAD["RunResult.agent_tool_invocation"]: """
        AgentToolInvocation
    """,
    INSTEAD["Agent.as_tool.on_stream"]: """
        AgentToolStreamEvent
    """,
    GUARD: """
        tool_input_guardrail tool_output_guardrail ToolGuardrailFunctionOutput ToolInputGuardrail ToolInputGuardrailData
        ToolInputGuardrailResult ToolInputGuardrailTripwireTriggered ToolOutputGuardrail ToolOutputGuardrailData
        ToolOutputGuardrailResult ToolOutputGuardrailTripwireTriggered
    """,
    "return legato.file(...) from the tool, see docs/tools-and-approvals.md": """
        ToolOutputFileContent ToolOutputFileContentDict
    """,
    "return legato.image(...) from the tool, see docs/tools-and-approvals.md": """
        ToolOutputImage ToolOutputImageDict
    """,
    "return the text from the tool": """
        ToolOutputText ToolOutputTextDict
    """,
    "write the loop: docs/sessions.md#a-chat-in-a-terminal has one": """
        run_demo_loop
    """,
    SANDBOX: """
        sandbox
    """,
}

NAMES: dict[str, str] = {name: instead for instead, names in _BY_ANSWER.items() for name in names.split()}
"""What to write instead of each."""
