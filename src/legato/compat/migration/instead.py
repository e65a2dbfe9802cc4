"""What to write instead, where a facade does not say so itself. Decides: the words. What there is, is asked of the facades (`facades.py`).

A key is a name (`trace`), an attribute (`HandoffBuilder.with_interaction_mode`) or an argument (`RunConfig(tracing_disabled)`).
"""

from __future__ import annotations

_HOSTED = "give the provider's own tools to the model, OpenAIResponses(..., hosted=[{'type': 'web_search'}]): see docs/models.md#options"
_NOT_HANDOFFS = "Legato's workflows are handoffs: HandoffBuilder, an agent as a tool (agent.as_tool()), or plain Python around sessions"
_TRACED = "nothing is traced; the ledger is the trace (session.facts, session.seen())"
_LOOK_ON = "look at stream_events(), or wrap models and tools with legato.Middleware"

NO_COUNTERPART = {
    "agent_framework": "there is no counterpart; docs/migrate/agent-framework.md#names lists what is covered, with the native way of each",
    "agents": "there is no counterpart; docs/migrate/openai-agents.md#names lists what is covered, with the native way of each",
}
PRIVATE = "this is a private part of the framework, and nothing here stands for it"
STAR = "name what is used: from {module} import {names}"
SUBMODULE = "write from {module} import ..., so that the names can be seen"

INSTEAD = {
    "AzureAIClient": "use AzureOpenAIResponsesClient",
    "AzureAIAgentClient": "use AzureOpenAIResponsesClient",
    "FoundryChatClient": "use AzureOpenAIResponsesClient",
    "OpenAIConversationsSession": "use legato.models.OpenAIResponses(..., memory='conversation'); the ledger stays the owner",
    "set_default_openai_client": "give each agent its model: Agent(model=legato.models.OpenAIResponses(..., client=...))",
    "set_default_openai_key": "set OPENAI_API_KEY, or give the model api_key=",
    "set_default_openai_api": "choose the model: OpenAIResponses or OpenAIChat",
    "set_tracing_disabled": "delete it: nothing is traced unless you ask",
    "trace": "delete it: the ledger is the trace (session.facts, session.seen())",
    **dict.fromkeys(
        ("WorkflowBuilder", "SequentialBuilder", "ConcurrentBuilder", "GroupChatBuilder", "MagenticBuilder", "Executor"), _NOT_HANDOFFS
    ),
    **dict.fromkeys(("WebSearchTool", "FileSearchTool", "CodeInterpreterTool", "ImageGenerationTool", "HostedMCPTool"), _HOSTED),
    # -- attributes and arguments
    "CheckpointStorage.list_checkpoints": "write list_checkpoints(workflow_name=workflow.name)",
    "Agent.get_mcp_tools": "wrap what you need of MCP servers in function_tool",
    "Agent.get_all_tools": "write agent.tools",
    "Agent.get_system_prompt": "write session.seen(): it shows what an agent was told",
    "RunResult.trace": _TRACED,
    "RunResultStreaming.trace": _TRACED,
}

REFUSED = {
    # What a facade accepts by name to say, when it is used, that it cannot be had.
    "agents": {
        "Agent(hooks)": _LOOK_ON,
        "Agent(mcp_servers)": "wrap what you need of them in function_tool",
        "Agent(prompt)": "write the instructions here: they are recorded with every reply",
        "ModelSettings(extra_headers)": "give the client default_headers= when you construct it",
        "ModelSettings(extra_query)": "give the client default_query= when you construct it",
        "ModelSettings(response_include)": "Legato asks for what it needs to go on; use ModelSettings(extra_body={'include': [...]})",
        "RunConfig(model_provider)": "give each agent its model, or RunConfig(model=...)",
        "RunConfig(session_input_callback)": "choose what an agent sees with handoff(input_filter=...)",
        "RunConfig(call_model_input_filter)": "choose what a model sees with handoff(input_filter=...) or legato.history",
        "Runner.run(hooks)": _LOOK_ON,
        "Runner.run(error_handlers)": "catch the exception: error.run_data.to_state() goes on",
        "Runner.run_streamed(hooks)": _LOOK_ON,
        "Runner.run_streamed(error_handlers)": "catch the exception: error.run_data.to_state() goes on",
        "function_tool(tool_input_guardrails)": "check within the tool, or build this agent natively with @legato.guardrail('tool')",
        "function_tool(tool_output_guardrails)": "check within the tool, or build this agent natively with @legato.guardrail('tool')",
        "SQLiteSession(session_settings)": "choose what an agent sees with handoff(input_filter=...)",
    },
    "agent_framework": {},
}

MEANS_NOTHING = {
    # What a facade accepts and does nothing with. Delete it at leisure.
    "agents": {
        **dict.fromkeys(
            (
                "RunConfig(tracing_disabled)",
                "RunConfig(trace_include_sensitive_data)",
                "RunConfig(workflow_name)",
                "RunConfig(trace_id)",
                "RunConfig(group_id)",
                "RunConfig(trace_metadata)",
            ),
            _TRACED,
        ),
        "RunConfig(nest_handoff_history)": "the next agent sees the conversation itself, and needs no account of it",
        "handoff(nest_handoff_history)": "the next agent sees the conversation itself, and needs no account of it",
        "ModelSettings(retry)": "calls that may pass are retried, and each attempt is recorded",
        "ModelSettings(timeout)": "give the client timeout= when you construct it",
        "ModelSettings(include_usage)": "usage is always asked for",
        "function_tool(docstring_style)": "the style is seen from the docstring",
        "function_tool(strict_mode)": "arguments are validated here when a call is made",
        "SQLiteSession(sessions_table)": "a Legato store has tables of its own",
        "SQLiteSession(messages_table)": "a Legato store has tables of its own",
        "InputGuardrail(run_in_parallel)": "input guardrails run before the model is asked",
        "input_guardrail(run_in_parallel)": "input guardrails run before the model is asked",
    },
    "agent_framework": {},
}
