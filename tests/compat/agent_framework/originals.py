"""The public names of the original's classes, and where each stands here: data for `test_every_name.py`.

Read from agent-framework-core 1.23.0, agent-framework-orchestrations 1.4.0 and agent-framework-openai 1.17.0: what a class or its
objects have that does not begin with an underscore, and is not a list's. `EARLIER` are names of earlier releases (1.0.0b251104 to 1.0.0).
"""

from __future__ import annotations

HERE, NOT_HERE = "here", "not here"

ORIGINALS: dict[str, dict[str, str]] = {
    "Agent": {
        HERE: "agent_middleware as_tool client context_providers create_session default_options description id middleware name run",
        NOT_HERE: (
            "AGENT_PROVIDER_NAME DEFAULT_EXCLUDE INJECTABLE additional_properties as_mcp_server close compaction_strategy "
            "duration_histogram from_dict from_json get_session mcp_tools open otel_provider_name "
            "require_per_service_call_history_persistence to_dict to_json token_usage_histogram tokenizer"
        ),
    },
    "AgentContext": {
        HERE: "agent function_invocation_kwargs kwargs messages metadata result session stream",
        NOT_HERE: (
            "client_kwargs compaction_strategy options stream_buffer_updates stream_cleanup_hooks "
            "stream_consumption_context_manager_factories stream_result_gates_after stream_result_gates_before stream_result_hooks "
            "stream_result_to_updates stream_result_transforms stream_transform_hooks stream_update_gates_after "
            "stream_update_gates_before stream_update_transforms tokenizer tools"
        ),
    },
    "AgentResponse": {
        HERE: (
            "additional_properties agent_id finish_reason from_update_generator from_updates messages raw_representation "
            "response_id text to_dict to_json usage_details user_input_requests value"
        ),
        NOT_HERE: "DEFAULT_EXCLUDE INJECTABLE continuation_token created_at from_dict from_json to_updates",
    },
    "AgentResponseUpdate": {
        HERE: (
            "additional_properties agent_id author_name contents finish_reason message_id raw_representation response_id role text "
            "to_dict to_json user_input_requests"
        ),
        NOT_HERE: "DEFAULT_EXCLUDE INJECTABLE continuation_token created_at from_dict from_json merge_mode",
    },
    "AgentSession": {
        HERE: "from_dict service_session_id session_id state to_dict",
    },
    "ChatContext": {
        HERE: "client messages metadata options result session stream",
        NOT_HERE: (
            "function_invocation_kwargs kwargs record_message_replacement stream_buffer_updates stream_cleanup_hooks "
            "stream_consumption_context_manager_factories stream_result_gates_after stream_result_gates_before stream_result_hooks "
            "stream_result_to_updates stream_result_transforms stream_transform_hooks stream_update_gates_after "
            "stream_update_gates_before stream_update_transforms"
        ),
    },
    "CheckpointStorage": {
        HERE: "delete get_latest list_checkpoint_ids list_checkpoints load save",
    },
    "Content": {
        HERE: (
            "acknowledged_safety_checks actions additional_properties annotations approved arguments call_id commands consent_link "
            "error_code error_details exception exit_code file_id from_data from_dict from_error from_function_approval_request "
            "from_function_approval_response from_function_call from_function_result from_text from_text_reasoning from_uri "
            "function_call has_top_level_media_type hosted id image_id informational_only inputs items max_output_length media_type "
            "merge_mode message name output outputs parse_arguments pending_safety_checks protected_data raw_representation result "
            "screenshot server_name status stderr stdout text timed_out timeout_ms to_dict to_function_approval_response tool_name "
            "type uri usage_details user_input_request vector_store_id"
        ),
        NOT_HERE: (
            "from_code_interpreter_tool_call from_code_interpreter_tool_result from_computer_tool_call from_computer_tool_result "
            "from_hosted_file from_hosted_vector_store from_image_generation_tool_call from_image_generation_tool_result "
            "from_mcp_server_tool_call from_mcp_server_tool_result from_oauth_consent_request from_search_tool_call "
            "from_search_tool_result from_shell_command_output from_shell_tool_call from_shell_tool_result from_usage"
        ),
    },
    "ContextProvider": {
        HERE: "after_run before_run source_id",
        NOT_HERE: "after_run_once_per_turn",
    },
    "FileCheckpointStorage": {
        HERE: "delete get_latest list_checkpoint_ids list_checkpoints load save storage_path",
    },
    "FunctionInvocationContext": {
        HERE: "arguments function kwargs metadata result session",
        NOT_HERE: "add_tools parent_service_session_state_keys remove_tools tools",
    },
    "HistoryProvider": {
        HERE: "after_run before_run source_id",
        NOT_HERE: (
            "after_run_once_per_turn get_messages load_messages save_messages store_context_from store_context_messages "
            "store_inputs store_outputs"
        ),
    },
    "InMemoryCheckpointStorage": {
        HERE: "delete get_latest list_checkpoint_ids list_checkpoints load save",
    },
    "Message": {
        HERE: "additional_properties author_name contents from_dict from_json message_id raw_representation role text to_dict to_json",
        NOT_HERE: "DEFAULT_EXCLUDE INJECTABLE",
    },
    "ResponseStream": {
        HERE: "get_final_response updates",
        NOT_HERE: (
            "buffer_updates buffered_and_gated close flat_map from_awaitable map with_cleanup_hook with_consumption_context_manager "
            "with_finalizer with_pull_context_manager with_result_gate with_result_hook with_result_transform with_transform_hook "
            "with_update_gate with_update_transform"
        ),
    },
    "SessionContext": {
        HERE: (
            "context_messages extend_instructions extend_messages extend_tools get_messages input_messages instructions response session_id"
        ),
        NOT_HERE: "extend_middleware get_middleware metadata middleware options service_session_id tools",
    },
    "Workflow": {
        HERE: "as_agent description get_last_checkpoint_id id name run start_executor_id",
        NOT_HERE: (
            "cancel_pending_requests clone edge_groups executors from_dict from_json get_executors_list get_intermediate_executors "
            "get_output_executors get_start_executor graph_signature graph_signature_hash input_types is_intermediate_executor "
            "is_terminal_executor max_iterations output_types resolve_pause_checkpoint_id status to_dict to_json"
        ),
    },
    "WorkflowAgent": {
        HERE: "REQUEST_INFO_FUNCTION_NAME RequestInfoFunctionArgs create_session description id name run workflow",
        NOT_HERE: (
            "DEFAULT_EXCLUDE INJECTABLE additional_properties as_tool context_providers from_dict from_json get_session "
            "merge_updates middleware require_per_service_call_history_persistence to_dict to_json"
        ),
    },
    "WorkflowCheckpoint": {
        HERE: ("checkpoint_id iteration_count metadata pending_request_info_events previous_checkpoint_id timestamp to_dict workflow_name"),
        NOT_HERE: "from_dict graph_signature_hash messages state version",
    },
    "WorkflowErrorDetails": {
        HERE: "error_type executor_id extra message traceback",
        NOT_HERE: "from_exception",
    },
    "WorkflowEvent": {
        HERE: "data details executor_id iteration request_id request_type response_type source_executor_id state type",
        NOT_HERE: (
            "emit error executor_bypassed executor_completed executor_failed executor_invoked failed from_dict origin request_info "
            "started status superstep_completed superstep_started to_dict warning"
        ),
    },
    "WorkflowRunResult": {
        HERE: "get_final_state get_intermediate_outputs get_outputs get_request_info_events status_timeline",
    },
    "HandoffAgentUserRequest": {
        HERE: "agent_response create_response terminate",
    },
    "HandoffBuilder": {
        HERE: (
            "add_handoff build enable_return_to_previous participants with_autonomous_mode with_checkpointing with_start_agent "
            "with_termination_condition"
        ),
    },
    "HandoffSentEvent": {
        HERE: "source target",
    },
    "OpenAIChatClient": {
        HERE: "as_agent model",
        NOT_HERE: (
            "DEFAULT_EXCLUDE FILE_SEARCH_MAX_RESULTS INJECTABLE OTEL_PROVIDER_NAME SERVED_MODEL_HEADER STORES_BY_DEFAULT "
            "SUPPORTS_RICH_FUNCTION_OUTPUT additional_properties api_version azure_endpoint base_url chat_middleware client "
            "compaction_strategy default_headers duration_histogram from_dict from_json function_invocation_configuration "
            "function_middleware get_code_interpreter_tool get_computer_tool get_file_search_tool get_image_generation_tool "
            "get_mcp_tool get_response get_shell_tool get_web_search_tool instruction_role org_id otel_provider_name service_url "
            "to_dict to_json token_usage_histogram tokenizer"
        ),
    },
    "OpenAIChatCompletionClient": {
        HERE: "as_agent model",
        NOT_HERE: (
            "DEFAULT_EXCLUDE INJECTABLE OTEL_PROVIDER_NAME STORES_BY_DEFAULT additional_properties api_version azure_endpoint "
            "base_url chat_middleware client compaction_strategy default_headers duration_histogram from_dict from_json "
            "function_invocation_configuration function_middleware get_response get_web_search_tool instruction_role "
            "message_preparer org_id otel_provider_name response_parser service_url to_dict to_json token_usage_histogram tokenizer"
        ),
    },
}

EARLIER: dict[str, dict[str, str]] = {
    "Workflow": {
        HERE: "run_stream send_responses send_responses_streaming",
        NOT_HERE: "run_from_checkpoint run_stream_from_checkpoint",
    },
    "HandoffBuilder": {
        HERE: "set_coordinator",
        NOT_HERE: (
            "auto_register_handoff_tools participant_factories register_participants request_prompt with_interaction_mode with_request_info"
        ),
    },
    "CheckpointStorage": {
        NOT_HERE: "delete_checkpoint load_checkpoint save_checkpoint",
    },
    "Agent": {
        HERE: "get_new_thread run_stream",
    },
    "OpenAIChatClient": {
        HERE: "create_agent model_id",
    },
    "Content": {
        HERE: "create_response",
    },
    "AgentContext": {
        HERE: "is_streaming",
    },
    "ChatContext": {
        HERE: "chat_client",
    },
}
