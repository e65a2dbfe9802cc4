"""The public names of the OpenAI Agents SDK 0.24, and the support of each here. Taken from the package, without names that begin
with an underscore.

"here": it is there. "instead": it is refused, with what to write instead. "nothing": it is accepted, and explained once.
"""

from __future__ import annotations

HERE = """
    Agent AgentBase AgentHookContext AgentHooks AgentOutputSchema AgentUpdatedStreamEvent AgentsException AsyncOpenAI
    FunctionTool GuardrailFunctionOutput Handoff HandoffCallItem HandoffInputData HandoffInputFilter HandoffOutputItem InputGuardrail
    InputGuardrailResult InputGuardrailTripwireTriggered ItemHelpers MaxTurnsExceeded MessageOutputItem ModelBehaviorError
    ModelResponse ModelSettings OpenAIChatCompletionsModel OpenAIResponsesModel OutputGuardrail OutputGuardrailResult
    OutputGuardrailTripwireTriggered RawResponsesStreamEvent ReasoningItem RunConfig RunContextWrapper RunErrorDetails RunHooks
    RunItem RunItemStreamEvent RunResult RunResultStreaming RunState Runner SQLiteSession StopAtTools StreamEvent TContext
    TResponseInputItem Tool ToolApprovalItem ToolCallItem ToolCallOutputItem Usage UserError agent_span custom_span
    default_tool_error_function enable_verbose_stdout_logging flush_traces function_span function_tool gen_span_id gen_trace_id
    generation_span get_current_span get_current_trace guardrail_span handoff handoff_span input_guardrail mcp_tools_span
    output_guardrail response_span set_default_openai_api set_default_openai_client set_default_openai_key set_tracing_disabled
    set_tracing_export_api_key speech_group_span speech_span task_span trace transcription_span turn_span
"""
"""Names of the package that are here."""

NOT_HERE = """
    AgentOutputSchemaBase AgentSpanData AgentToolInvocation AgentToolStreamEvent ApplyPatchEditor ApplyPatchOperation ApplyPatchResult
    ApplyPatchTool ApplyPatchToolCustomDataContext ApplyPatchToolCustomDataExtractor AsyncComputer Button CodeInterpreterTool
    CompactionItem Computer ComputerProvider ComputerTool ComputerToolCustomDataContext ComputerToolCustomDataExtractor CustomSpanData
    CustomTool CustomToolCustomDataContext CustomToolCustomDataExtractor DynamicPromptFunction Environment FileSearchTool
    FunctionSpanData FunctionToolCustomDataContext FunctionToolCustomDataExtractor FunctionToolResult GenerateDynamicPromptData
    GenerationSpanData GuardrailSpanData HandoffSpanData HostedMCPTool ImageGenerationTool ImageGenerationToolConfig InputItem
    LocalShellCommandRequest LocalShellExecutor LocalShellTool MCPApprovalRequestItem MCPApprovalResponseItem MCPListToolsItem
    MCPListToolsSpanData MCPToolApprovalFunction MCPToolApprovalFunctionResult MCPToolApprovalRequest MCPToolCancellationError Model
    ModelProvider ModelRefusalError ModelRetryAdvice ModelRetryAdviceRequest ModelRetryBackoffSettings ModelRetryNormalizedError
    ModelRetrySettings ModelTimeoutError ModelTracing MultiProvider OpenAIAgentRegistrationConfig OpenAIConversationsSession
    OpenAIProvider OpenAIResponsesCompactionArgs OpenAIResponsesCompactionAwareSession OpenAIResponsesCompactionSession
    OpenAIResponsesWSModel OpenAIResponsesWebSocketOptions OutputGuardrailBlockedMessageArgs OutputGuardrailBlockedMessageFormatter
    ProgrammaticToolCallingTool Prompt ReasoningItemIdPolicy ResponseSpanData ResponsesWebSocketSession RetryDecision RetryPolicy
    RetryPolicyContext RunErrorData RunErrorHandler RunErrorHandlerInput RunErrorHandlerResult RunErrorHandlers Session SessionABC
    SessionSettings ShellActionRequest ShellCallData ShellCallOutcome ShellCommandOutput ShellCommandRequest ShellExecutor ShellResult
    ShellTool ShellToolContainerAutoEnvironment ShellToolContainerNetworkPolicy ShellToolContainerNetworkPolicyAllowlist
    ShellToolContainerNetworkPolicyDisabled ShellToolContainerNetworkPolicyDomainSecret ShellToolContainerReferenceEnvironment
    ShellToolContainerSkill ShellToolEnvironment ShellToolHostedEnvironment ShellToolInlineSkill ShellToolInlineSkillSource
    ShellToolLocalEnvironment ShellToolLocalSkill ShellToolSkillReference Span SpanData SpanError SpeechGroupSpanData SpeechSpanData
    TaskSpanData ToolCaller ToolErrorFormatter ToolErrorFormatterArgs ToolExecutionConfig ToolGuardrailFunctionOutput
    ToolInputGuardrail ToolInputGuardrailData ToolInputGuardrailResult ToolInputGuardrailTripwireTriggered ToolNameCollisionPolicy
    ToolNotFoundBehavior ToolOrigin ToolOriginType ToolOutputFileContent ToolOutputFileContentDict ToolOutputGuardrail
    ToolOutputGuardrailData ToolOutputGuardrailResult ToolOutputGuardrailTripwireTriggered ToolOutputImage ToolOutputImageDict
    ToolOutputText ToolOutputTextDict ToolSearchCallItem ToolSearchOutputItem ToolSearchTool ToolTimeoutError
    ToolsToFinalOutputFunction ToolsToFinalOutputResult Trace TracingProcessor TranscriptionSpanData TurnSpanData WebSearchTool
    WebSearchToolImageSettings add_trace_processor apply_diff default_handoff_history_mapper dispose_resolved_computers
    get_conversation_history_wrappers is_openai_responses_compaction_aware_session nest_handoff_history
    reset_conversation_history_wrappers resolve_computer responses_websocket_session retry_policies run_demo_loop sandbox
    set_conversation_history_wrappers set_default_openai_agent_registration set_default_openai_harness
    set_default_openai_responses_transport set_trace_processors set_trace_provider tool_input_guardrail tool_namespace
    tool_output_guardrail
"""
"""Names of the package that say what to write instead."""

PARTS: dict[str, dict[str, str]] = {
    "Agent": {
        "here": """
            as_tool clone get_all_tools get_system_prompt handoff_description handoffs hooks input_guardrails instructions
            mcp_config mcp_servers model model_settings name output_guardrails output_type prompt reset_tool_choice
            tool_use_behavior tools
        """,
        "instead": "get_mcp_tools get_prompt",
    },
    "AgentHooks": {
        "here": "on_end on_handoff on_llm_end on_llm_start on_start on_tool_end on_tool_start",
    },
    "AgentOutputSchema": {
        "here": "is_plain_text is_strict_json_schema json_schema name output_type validate_json",
    },
    "AgentUpdatedStreamEvent": {
        "here": "new_agent type",
    },
    "AgentsException": {
        "here": "run_data",
    },
    "FunctionTool": {
        "here": """
            description is_enabled name needs_approval on_invoke_tool params_json_schema qualified_name strict_json_schema
            timeout_seconds
        """,
        "instead": "allowed_callers custom_data_extractor mcp_annotations tool_input_guardrails tool_output_guardrails",
        "nothing": "defer_loading output_json_schema timeout_behavior timeout_error_function",
    },
    "GuardrailFunctionOutput": {
        "here": "output_info tripwire_triggered",
    },
    "Handoff": {
        "here": "agent_name default_tool_description default_tool_name input_filter is_enabled tool_description tool_name",
        "instead": "get_transfer_message input_json_schema on_invoke_handoff",
        "nothing": "nest_handoff_history strict_json_schema",
    },
    "HandoffCallItem": {
        "here": "agent raw_item release_agent to_input_item type",
    },
    "HandoffInputData": {
        "here": "clone input_history input_items new_items pre_handoff_items run_context",
    },
    "HandoffOutputItem": {
        "here": "agent raw_item release_agent source_agent target_agent to_input_item type",
    },
    "InputGuardrail": {
        "here": "get_name guardrail_function name run run_in_parallel",
    },
    "InputGuardrailResult": {
        "here": "guardrail output",
    },
    "InputGuardrailTripwireTriggered": {
        "here": "guardrail_result run_data",
    },
    "ItemHelpers": {
        "here": """
            extract_last_content extract_last_text extract_refusal extract_text input_to_new_input_list
            text_message_output text_message_outputs tool_call_output_item
        """,
        "instead": "copy_tool_call_caller",
    },
    "MaxTurnsExceeded": {
        "here": "message run_data",
    },
    "MessageOutputItem": {
        "here": "agent raw_item release_agent to_input_item type",
    },
    "ModelBehaviorError": {
        "here": "message run_data",
    },
    "ModelResponse": {
        "here": "output request_id response_id to_input_items usage",
        "instead": "raw_usage",
    },
    "ModelSettings": {
        "here": """
            extra_args extra_body extra_headers extra_query frequency_penalty include_usage max_tokens metadata
            parallel_tool_calls presence_penalty prompt_cache_retention reasoning resolve response_include retry store temperature
            timeout to_json_dict tool_choice top_logprobs top_p truncation verbosity
        """,
        "instead": "context_management prompt_cache_options to_traceable_dict",
        "nothing": "preserve_raw_usage",
    },
    "OpenAIChatCompletionsModel": {
        "instead": "close get_response get_retry_advice stream_response",
    },
    "OpenAIResponsesModel": {
        "instead": "close get_response get_retry_advice stream_response",
    },
    "OutputGuardrail": {
        "here": "get_name guardrail_function name run",
    },
    "OutputGuardrailResult": {
        "here": "agent agent_output guardrail output",
    },
    "OutputGuardrailTripwireTriggered": {
        "here": "guardrail_result run_data",
    },
    "RawResponsesStreamEvent": {
        "here": "data type",
    },
    "ReasoningItem": {
        "here": "agent raw_item release_agent to_input_item type",
    },
    "RunConfig": {
        "here": """
            group_id handoff_input_filter input_guardrails model model_settings output_guardrails trace_id
            trace_include_sensitive_data trace_metadata tracing_disabled workflow_name
        """,
        "instead": """
            call_model_input_filter handoff_history_mapper model_provider sandbox session_input_callback session_settings
            tool_error_formatter tool_execution
        """,
        "nothing": """
            nest_handoff_history output_guardrail_blocked_message reasoning_item_id_policy tool_name_collision_policy
            tool_not_found_behavior tracing
        """,
    },
    "RunContextWrapper": {
        "here": "context get_approval_status get_rejection_message is_tool_approved usage",
        "instead": "approve_tool reject_tool tool_input turn_input",
    },
    "RunHooks": {
        "here": "on_agent_end on_agent_start on_handoff on_llm_end on_llm_start on_tool_end on_tool_start",
    },
    "RunItemStreamEvent": {
        "here": "item name type",
    },
    "RunResult": {
        "here": """
            context_wrapper final_output final_output_as input input_guardrail_results interruptions last_agent last_response_id
            max_turns new_items output_guardrail_results raw_responses release_agents to_input_list to_state
            tool_input_guardrail_results tool_output_guardrail_results
        """,
        "instead": "agent_tool_invocation",
    },
    "RunResultStreaming": {
        "here": """
            cancel context_wrapper current_agent current_turn final_output final_output_as input input_guardrail_results
            interruptions is_complete last_agent last_response_id max_turns new_items output_guardrail_results raw_responses
            release_agents run_loop_exception run_loop_task stream_events to_input_list to_state tool_input_guardrail_results
            tool_output_guardrail_results
        """,
        "instead": "agent_tool_invocation ensure_sandbox_cleanup_on_completion trace",
    },
    "RunState": {
        "here": "add_input approve from_json from_string get_interruptions reject to_json to_string",
        "instead": """
            clear_pending_input get_tool_use_tracker_snapshot pending_input set_reasoning_item_id_policy
            set_tool_use_tracker_snapshot set_trace
        """,
    },
    "Runner": {
        "here": "run run_streamed run_sync",
    },
    "SQLiteSession": {
        "here": "add_items clear_session close get_items pop_item session_settings",
    },
    "ToolApprovalItem": {
        "here": "agent arguments call_id name qualified_name raw_item release_agent to_input_item tool_name tool_namespace type",
        "instead": "tool_lookup_key tool_origin",
    },
    "ToolCallItem": {
        "here": "agent call_id raw_item release_agent to_input_item tool_name type",
        "instead": "description title tool_origin",
    },
    "ToolCallOutputItem": {
        "here": "agent call_id output raw_item release_agent to_input_item type",
        "instead": "custom_data tool_origin",
    },
    "ToolContext": {
        "here": """
            agent context from_agent_context get_approval_status get_rejection_message is_tool_approved qualified_tool_name
            tool_arguments tool_call tool_call_id tool_name usage
        """,
        "instead": "approve_tool reject_tool run_config tool_input turn_input",
        "nothing": "tool_namespace",
    },
    "Usage": {
        "here": "input_tokens input_tokens_details output_tokens output_tokens_details requests total_tokens",
        "instead": "add request_usage_entries",
    },
    "UserError": {
        "here": "message run_data",
    },
}
"""Attributes and methods."""

PARAMETERS: dict[str, dict[str, str]] = {
    "Agent": {
        "here": """
            name handoff_description tools mcp_config instructions handoffs model model_settings input_guardrails
            output_guardrails output_type hooks tool_use_behavior reset_tool_choice
        """,
        "instead": "mcp_servers prompt",
    },
    "AgentOutputSchema": {
        "here": "output_type strict_json_schema",
    },
    "AgentUpdatedStreamEvent": {
        "here": "new_agent type",
    },
    "FunctionTool": {
        "here": "name description params_json_schema on_invoke_tool is_enabled needs_approval timeout_seconds",
        "instead": "tool_input_guardrails tool_output_guardrails custom_data_extractor allowed_callers",
        "nothing": "strict_json_schema timeout_behavior timeout_error_function defer_loading output_json_schema",
    },
    "GuardrailFunctionOutput": {
        "here": "output_info tripwire_triggered",
    },
    "Handoff": {
        "here": "tool_name tool_description input_filter is_enabled",
        "instead": "input_json_schema on_invoke_handoff agent_name",
        "nothing": "nest_handoff_history strict_json_schema",
    },
    "HandoffCallItem": {
        "here": "agent raw_item type",
    },
    "HandoffInputData": {
        "here": "input_history pre_handoff_items new_items run_context input_items",
    },
    "HandoffOutputItem": {
        "here": "agent raw_item source_agent target_agent type",
    },
    "InputGuardrail": {
        "here": "guardrail_function name run_in_parallel",
    },
    "InputGuardrailResult": {
        "here": "guardrail output",
    },
    "InputGuardrailTripwireTriggered": {
        "here": "guardrail_result",
    },
    "MaxTurnsExceeded": {
        "here": "message",
    },
    "MessageOutputItem": {
        "here": "agent raw_item type",
    },
    "ModelBehaviorError": {
        "here": "message",
    },
    "ModelResponse": {
        "here": "output usage response_id request_id",
        "instead": "raw_usage",
    },
    "ModelSettings": {
        "here": """
            temperature top_p frequency_penalty presence_penalty tool_choice parallel_tool_calls truncation max_tokens reasoning
            verbosity metadata store prompt_cache_retention top_logprobs extra_body extra_args
        """,
        "instead": "response_include extra_query extra_headers context_management prompt_cache_options",
        "nothing": "include_usage retry preserve_raw_usage timeout",
    },
    "OpenAIChatCompletionsModel": {
        "here": "model openai_client",
        "instead": "should_replay_reasoning_content",
        "nothing": "strict_feature_validation buffer_streamed_tool_calls",
    },
    "OpenAIResponsesModel": {
        "here": "model openai_client",
        "nothing": "model_is_explicit",
    },
    "OutputGuardrail": {
        "here": "guardrail_function name",
    },
    "OutputGuardrailResult": {
        "here": "guardrail agent_output agent output",
    },
    "OutputGuardrailTripwireTriggered": {
        "here": "guardrail_result",
    },
    "RawResponsesStreamEvent": {
        "here": "data type",
    },
    "ReasoningItem": {
        "here": "agent raw_item type",
    },
    "RunConfig": {
        "here": """
            model model_settings handoff_input_filter input_guardrails output_guardrails tracing_disabled
            trace_include_sensitive_data workflow_name trace_id group_id trace_metadata
        """,
        "instead": """
            model_provider handoff_history_mapper session_input_callback call_model_input_filter tool_error_formatter
            session_settings sandbox tool_execution
        """,
        "nothing": """
            nest_handoff_history tracing reasoning_item_id_policy tool_not_found_behavior tool_name_collision_policy
            output_guardrail_blocked_message
        """,
    },
    "RunContextWrapper": {
        "here": "context",
        "instead": "turn_input tool_input",
        "nothing": "usage",
    },
    "RunItemStreamEvent": {
        "here": "name item type",
    },
    "RunResult": {
        "instead": """
            input new_items raw_responses final_output input_guardrail_results output_guardrail_results
            tool_input_guardrail_results tool_output_guardrail_results context_wrapper max_turns interruptions
        """,
    },
    "RunResultStreaming": {
        "instead": """
            input new_items raw_responses final_output input_guardrail_results output_guardrail_results
            tool_input_guardrail_results tool_output_guardrail_results context_wrapper current_agent current_turn max_turns trace
            is_complete run_loop_task interruptions
        """,
    },
    "RunState": {
        "instead": "context original_input starting_agent max_turns conversation_id previous_response_id auto_previous_response_id",
    },
    "SQLiteSession": {
        "here": "session_id db_path sessions_table messages_table",
        "instead": "session_settings",
    },
    "ToolApprovalItem": {
        "here": "agent raw_item type",
        "instead": "tool_origin tool_lookup_key",
        "nothing": "tool_name tool_namespace",
    },
    "ToolCallItem": {
        "here": "agent raw_item type",
        "instead": "description title tool_origin",
    },
    "ToolCallOutputItem": {
        "here": "agent raw_item output type",
        "instead": "tool_origin custom_data",
    },
    "ToolContext": {
        "here": "context tool_name tool_call_id tool_arguments tool_call agent",
        "instead": "run_config turn_input tool_input",
        "nothing": "usage tool_namespace",
    },
    "Usage": {
        "here": "requests input_tokens input_tokens_details output_tokens output_tokens_details total_tokens",
        "instead": "request_usage_entries",
    },
    "UserError": {
        "here": "message",
    },
    "Agent.as_tool": {
        "here": "tool_name tool_description custom_output_extractor is_enabled run_config max_turns needs_approval",
        "instead": """
            on_stream hooks previous_response_id conversation_id session failure_error_function parameters input_builder
            include_input_schema
        """,
        "nothing": "on_stream_max_pending_events",
    },
    "Runner.run": {
        "here": """
            starting_agent input context max_turns hooks run_config previous_response_id auto_previous_response_id conversation_id
            session
        """,
        "instead": "error_handlers",
    },
    "Runner.run_sync": {
        "here": """
            starting_agent input context max_turns hooks run_config previous_response_id auto_previous_response_id conversation_id
            session
        """,
        "instead": "error_handlers",
    },
    "Runner.run_streamed": {
        "here": """
            starting_agent input context max_turns hooks run_config previous_response_id auto_previous_response_id conversation_id
            session
        """,
        "instead": "error_handlers",
    },
    "RunState.to_string": {
        "here": "context_serializer strict_context include_tracing_api_key",
    },
    "RunState.to_json": {
        "here": "context_serializer strict_context include_tracing_api_key",
    },
    "RunState.from_string": {
        "here": "initial_agent state_string context_override context_deserializer strict_context",
    },
    "RunState.from_json": {
        "here": "initial_agent state_json context_override context_deserializer strict_context",
    },
    "RunState.approve": {
        "here": "approval_item always_approve",
    },
    "RunState.reject": {
        "here": "approval_item always_reject rejection_message",
    },
    "RunResult.to_input_list": {
        "here": "mode",
    },
    "RunResult.final_output_as": {
        "here": "raise_if_incorrect_type",
    },
    "RunResult.release_agents": {
        "here": "release_new_items",
    },
    "RunResultStreaming.cancel": {
        "here": "mode",
    },
    "function_tool": {
        "here": "func name_override description_override use_docstring_info failure_error_function is_enabled needs_approval timeout",
        "instead": "tool_input_guardrails tool_output_guardrails custom_data_extractor allowed_callers",
        "nothing": "docstring_style strict_mode timeout_behavior timeout_error_function defer_loading output_type output_json_schema",
    },
    "handoff": {
        "here": "agent tool_name_override tool_description_override on_handoff input_type input_filter is_enabled",
        "nothing": "nest_handoff_history",
    },
    "input_guardrail": {
        "here": "func name run_in_parallel",
    },
    "output_guardrail": {
        "here": "func name",
    },
    "trace": {
        "here": "workflow_name trace_id group_id metadata tracing disabled",
    },
    "set_default_openai_client": {
        "here": "client use_for_tracing",
    },
    "set_default_openai_key": {
        "here": "key use_for_tracing",
    },
    "set_default_openai_api": {
        "here": "api",
    },
}
"""Arguments of classes, functions and methods."""
