"""Replacements for names that a facade does not explain itself. `facades.py` finds the names that exist.

A key is a name (`trace`), an attribute (`CheckpointStorage.list_checkpoints`) or an argument (`RunConfig(tracing_disabled)`).
"""

from __future__ import annotations

_HOSTED = "give the provider's own tools to the model, OpenAIResponses(..., hosted=[{'type': 'web_search'}]): see docs/models.md#options"
_NOT_HANDOFFS = "Legato's workflows are handoffs: HandoffBuilder, an agent as a tool (agent.as_tool()), or plain Python around sessions"
_TRACED = "nothing is traced; the ledger is the trace (session.facts, session.seen())"

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
    # -- a call whose arguments are others here
    "CheckpointStorage.list_checkpoints": "write list_checkpoints(workflow_name=workflow.name)",
}

DIFFERS = {
    # What is covered, and is not what a newer release makes of it.
    "OpenAIChatClient": (
        "OpenAIChatClient speaks Chat Completions here; newer releases of the framework speak the Responses API by it: write "
        "OpenAIResponsesClient for that"
    ),
}

MEANS_NOTHING = {
    # What a facade accepts, does nothing with, and does not speak of.
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
    "SQLiteSession(sessions_table)": "a Legato store has tables of its own",
    "SQLiteSession(messages_table)": "a Legato store has tables of its own",
    "InputGuardrail(run_in_parallel)": "input guardrails run before the model is asked",
    "input_guardrail(run_in_parallel)": "input guardrails run before the model is asked",
}
