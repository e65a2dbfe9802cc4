"""A table of the parts of the SDK's classes and functions (0.24) that this facade does not support.

`INSTEAD`: attributes and arguments, as "Class.part", that cannot be had. `NOTHING`: those that are accepted and without effect, with
the reason; `AS_HERE` has the values of those that ask for what happens anyway. Names of the package are in `unsupported_names.py`.
Every page that is pointed to has what it is said to have: tests/compat/agents/test_public_names.py.
"""

from __future__ import annotations

MCP = "give the agent the server's tools: tools=await legato.mcp.MCPServer(...).tools()"
PROMPT = "write the instructions here: they are recorded with every reply"
LEDGER = "nothing is traced; the ledger has what happened (result.legato_session.facts), see docs/sessions.md#look"
HISTORY = "a model sees what is chosen from the ledger: handoff(input_filter=...), or legato.history, docs/handoffs.md#what-an-agent-sees"
GUARD = 'build the agent natively with @guardrail("tool"), see docs/agents.md#tool, or check within the tool'
CAUGHT = "catch the exception: error.run_data is the result so far, and error.run_data.to_state() goes on"
SHORTER = "shorten what an agent sees: legato.history.summarised(...), see docs/handoffs.md#what-an-agent-sees"
_HANDOFF = "a handoff is made by handoff(agent, ...), and its agent cannot be chosen when it is called: give one handoff for each"
ASKED = "a model is asked by a run; to ask it in your own way, write a model, see docs/agents.md#your-own-model"
ORIGIN = "a tool is a function of the agent's: item.agent.tools has it"
SANDBOX = "run what needs one in a tool of your own"
HOSTED = "the provider runs this: give the agent model=OpenAIResponses(name, hosted=[{'type': ...}]), see docs/models.md#options"
LOCAL = "write what it does as a @function_tool, see docs/tools-and-approvals.md"
_RESULT = "a result is made by Runner.run; a test gets one with a scripted model, see docs/testing.md"
_OF_RESULTS = (
    "context_wrapper", "current_agent", "current_turn", "final_output", "input", "input_guardrail_results", "interruptions",
    "is_complete", "max_turns", "new_items", "output_guardrail_results", "raw_responses", "run_loop_task",
    "tool_input_guardrail_results", "tool_output_guardrail_results",
)  # fmt: skip
_STATE = "a RunState is made by result.to_state(), RunState.from_string(...) or RunState.from_session(...)"

INSTEAD: dict[str, str] = {
    "Agent.get_mcp_tools": MCP,
    "Agent.get_prompt": PROMPT,
    "Agent.mcp_servers": MCP,
    "Agent.prompt": PROMPT,
    "Agent.as_tool.conversation_id": "its conversation is kept beside the caller's; to share one, hand over to the agent",
    "Agent.as_tool.failure_error_function": "the model is told of a run that fails; to say more, call Runner.run within a @function_tool",
    "Agent.as_tool.hooks": "give them to the agent: Agent(hooks=...)",
    "Agent.as_tool.include_input_schema": "it is given words; to give it more, call Runner.run within a @function_tool",
    "Agent.as_tool.input_builder": "it is given words; to give it more, call Runner.run within a @function_tool",
    "Agent.as_tool.on_stream": "call Runner.run_streamed within a @function_tool, or hand over to the agent",
    "Agent.as_tool.parameters": "it is given words; to give it more, call Runner.run within a @function_tool",
    "Agent.as_tool.previous_response_id": "its conversation is kept beside the caller's; to share one, hand over to the agent",
    "Agent.as_tool.session": "its conversation is kept beside the caller's; to share one, hand over to the agent",
    "FunctionTool.allowed_callers": "every tool is called by the model itself",
    "FunctionTool.custom_data_extractor": "keep it in the context (ctx.context), or return it as the output",
    "FunctionTool.mcp_annotations": MCP,
    "FunctionTool.tool_input_guardrails": GUARD,
    "FunctionTool.tool_output_guardrails": GUARD,
    "Handoff.agent_name": _HANDOFF,
    "Handoff.get_transfer_message": "what the model was told is recorded: the raw_item of a HandoffOutputItem",
    "Handoff.input_json_schema": _HANDOFF,
    "Handoff.on_invoke_handoff": _HANDOFF,
    "ItemHelpers.copy_tool_call_caller": "every tool is called by the model itself: leave it out",
    "ModelResponse.raw_usage": "usage is kept as counts: response.usage",
    "ModelSettings.context_management": SHORTER,
    "ModelSettings.extra_headers": "give the client default_headers= when you construct it",
    "ModelSettings.extra_query": "give the client default_query= when you construct it",
    "ModelSettings.prompt_cache_options": "ModelSettings(extra_body={'prompt_cache_options': ...})",
    "ModelSettings.response_include": "Legato asks for what it needs to go on; for more: ModelSettings(extra_body={'include': [...]})",
    "ModelSettings.to_traceable_dict": LEDGER,
    "OpenAIChatCompletionsModel.close": "the client is yours to close; those made here are closed with the process",
    "OpenAIChatCompletionsModel.get_response": ASKED,
    "OpenAIChatCompletionsModel.get_retry_advice": ASKED,
    "OpenAIChatCompletionsModel.should_replay_reasoning_content": "reasoning goes back only to who made it; see docs/models.md#options",
    "OpenAIChatCompletionsModel.stream_response": ASKED,
    "OpenAIResponsesModel.close": "the client is yours to close; those made here are closed with the process",
    "OpenAIResponsesModel.get_response": ASKED,
    "OpenAIResponsesModel.get_retry_advice": ASKED,
    "OpenAIResponsesModel.stream_response": ASKED,
    "RunConfig.call_model_input_filter": HISTORY,
    "RunConfig.handoff_history_mapper": HISTORY,
    "RunConfig.model_provider": "pass a model to each agent, or RunConfig(model=...)",
    "RunConfig.sandbox": SANDBOX,
    "RunConfig.session_input_callback": HISTORY,
    "RunConfig.session_settings": HISTORY,
    "RunConfig.tool_error_formatter": "state.reject(item, rejection_message=...), and for a tool that fails failure_error_function=",
    "RunConfig.tool_execution": "calls of one reply run side by side; hold a lock or a semaphore within the tools that must not",
    "RunContextWrapper.approve_tool": "decide on the run: state = result.to_state(), state.approve(item)",
    "RunContextWrapper.reject_tool": "decide on the run: state = result.to_state(), state.reject(item)",
    "RunContextWrapper.tool_input": "an agent that works as a tool is given words; for more, call Runner.run within a @function_tool",
    "RunContextWrapper.turn_input": "on_llm_start of your hooks is given the input_items; the conversation is wrapper.session.messages",
    "RunItem.custom_data": "keep it in the context (ctx.context), or return it as the output",
    "RunItem.description": ORIGIN,
    "RunItem.title": ORIGIN,
    "RunItem.tool_lookup_key": ORIGIN,
    "RunItem.tool_origin": ORIGIN,
    **{f"RunResult.{name}": _RESULT for name in _OF_RESULTS},
    "RunResult.agent_tool_invocation": "a tool that is to know its call takes a ToolContext: call Runner.run within a @function_tool",
    "RunResult.ensure_sandbox_cleanup_on_completion": SANDBOX,
    "RunResult.trace": LEDGER,
    "RunState.auto_previous_response_id": _STATE,
    "RunState.clear_pending_input": "what was said is recorded, and the next model call sees it; say something else with add_input(...)",
    "RunState.context": _STATE,
    "RunState.conversation_id": _STATE,
    "RunState.get_tool_use_tracker_snapshot": "nothing keeps track of tools: whether one was called is read from the ledger",
    "RunState.max_turns": _STATE,
    "RunState.original_input": _STATE,
    "RunState.pending_input": "what is added is recorded at once; result.legato_session.messages has it",
    "RunState.previous_response_id": _STATE,
    "RunState.set_reasoning_item_id_policy": "items go by value and without ids",
    "RunState.set_tool_use_tracker_snapshot": "nothing keeps track of tools: whether one was called is read from the ledger",
    "RunState.set_trace": LEDGER,
    "RunState.starting_agent": _STATE,
    "Runner.run.error_handlers": CAUGHT,
    "SQLiteSession.session_settings": HISTORY,
    "ToolContext.run_config": "give the tool what it needs in the context (ctx.context)",
    "Usage.add": "usage is counted from the ledger and changes by itself; add the numbers of several runs where you need their sum",
    "Usage.request_usage_entries": "result.raw_responses has the usage of each reply",
    "function_tool.allowed_callers": "every tool is called by the model itself",
    "function_tool.custom_data_extractor": "keep it in the context (ctx.context), or return it as the output",
    "function_tool.tool_input_guardrails": GUARD,
    "function_tool.tool_output_guardrails": GUARD,
}

_STRICT = "no schema is sent as strict; arguments are validated before a tool runs, and a wrong one is explained to the model"
_NEVER_RAISES = "a tool never takes the run with it: the model is told what went wrong"
_DEFERRED = "the model is told of all tools of the agent that are enabled"
_OUTPUTS = "the model is given what a tool returns, and told of no schema for it"
_NO_NESTING = "the next agent sees the conversation itself, and needs no account of it"
_TRACED = "nothing is traced; the ledger has what happened"

NOTHING: dict[str, str] = {
    "Agent.as_tool.on_stream_max_pending_events": "there is no on_stream",
    "FunctionTool.defer_loading": _DEFERRED,
    "FunctionTool.output_json_schema": _OUTPUTS,
    "FunctionTool.strict_json_schema": _STRICT,
    "FunctionTool.timeout_behavior": _NEVER_RAISES,
    "FunctionTool.timeout_error_function": _NEVER_RAISES,
    "Handoff.nest_handoff_history": _NO_NESTING,
    "Handoff.strict_json_schema": _STRICT,
    "ModelSettings.include_usage": "usage is always asked for",
    "ModelSettings.preserve_raw_usage": "usage is kept as counts",
    "ModelSettings.retry": "calls that may pass are retried, and each attempt is recorded",
    "ModelSettings.timeout": "give the client timeout= when you construct it",
    "OpenAIChatCompletionsModel.buffer_streamed_tool_calls": "calls are told when the reply is whole",
    "OpenAIChatCompletionsModel.strict_feature_validation": "what an API does not have is always refused, or listed as a loss",
    "OpenAIResponsesModel.model_is_explicit": "the model that is named is asked",
    "RunConfig.nest_handoff_history": _NO_NESTING,
    "RunConfig.output_guardrail_blocked_message": "a reply that is stopped is kept for people, and no model sees it or a word in its place",
    "RunConfig.reasoning_item_id_policy": "items go by value and without ids",
    "RunConfig.tool_name_collision_policy": "two tools of one name are always an error",
    "RunConfig.tool_not_found_behavior": "a model that calls a tool which is not there is always told so",
    "RunConfig.tracing": _TRACED,
    "RunContextWrapper.usage": "usage is counted from the ledger",
    "ToolApprovalItem.tool_name": "the raw item has the name",
    "ToolApprovalItem.tool_namespace": "tools have no namespaces",
    "ToolContext.tool_namespace": "tools have no namespaces",
    "function_tool.defer_loading": _DEFERRED,
    "function_tool.docstring_style": "the style is seen from the docstring",
    "function_tool.output_json_schema": _OUTPUTS,
    "function_tool.output_type": _OUTPUTS,
    "function_tool.strict_mode": _STRICT,
    "function_tool.timeout_behavior": _NEVER_RAISES,
    "function_tool.timeout_error_function": _NEVER_RAISES,
    "handoff.nest_handoff_history": _NO_NESTING,
}

AS_HERE: dict[str, object] = {
    "FunctionTool.timeout_behavior": "error_as_result",
    "RunConfig.tool_name_collision_policy": "error",
    "RunConfig.tool_not_found_behavior": "return_error_to_model",
    "function_tool.timeout_behavior": "error_as_result",
}
