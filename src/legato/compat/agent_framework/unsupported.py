"""Tables of the framework's parts that are not supported, or have no effect, each with a replacement.

The supported parts are in the classes. Together they are all public names of the original's, which
tests/compat/agent_framework/originals.py lists.
"""

from __future__ import annotations

_DEFINED_IN_CODE = "a definition is code here: keep the program that makes it"
_NO_EXECUTORS = "agents take part, not executors: workflow.native.agents names them, workflow.native.graph() draws who hands over to whom"
_NO_BACKGROUND = "replies are awaited; nothing is left with the provider to be fetched later"
_NO_METRICS = "nothing is measured beside the ledger: session.usage and session.facts say what happened and what it cost"
_NO_GATES = "look at what comes, as it comes; to judge it before it is shown, write a @legato.guardrail('output')"
_MADE_BY_RUNS = "events come from runs, and nobody else makes them"
_A_MODELS = "a client only makes models: client.native() is the model, and legato.models has the same with all its options"
_HISTORY = "the ledger owns the history: agent.store has it, and (await workflow.session().refresh()).messages shows it"
_BY_ANSWERING = "write workflow.run(responses={request_id: False}): a rejection, which the model is told"
_NOTHING_ELSE = "nothing else is carried along"
MCP = "MCP servers have another name here: give the agent tools=await legato.mcp.MCPServer(...).tools()"
_PROVIDER_RUNS = "legato.models.OpenAIResponses(..., hosted=[{...}]) takes any tool that the provider runs, as the provider writes it"

_SERIALIZED = dict.fromkeys(("from_dict", "from_json", "to_dict", "to_json", "DEFAULT_EXCLUDE", "INJECTABLE"), _DEFINED_IN_CODE)
_MEASURED = dict.fromkeys(("otel_provider_name", "duration_histogram", "token_usage_histogram"), _NO_METRICS)

WORKFLOW = {
    **dict.fromkeys(("executors", "edge_groups", "get_executors_list", "get_start_executor", "get_output_executors"), _NO_EXECUTORS),
    **dict.fromkeys(("get_intermediate_executors", "is_intermediate_executor", "is_terminal_executor"), _NO_EXECUTORS),
    **dict.fromkeys(("from_dict", "from_json", "to_dict", "to_json"), _DEFINED_IN_CODE),
    **dict.fromkeys(("input_types", "output_types"), "a run takes text, Message and Content, and tells AgentResponse and Message"),
    **dict.fromkeys(
        ("graph_signature", "graph_signature_hash"),
        "a conversation that the present definition cannot go on with says so itself (legato.errors.DefinitionChanged)",
    ),
    "cancel_pending_requests": _BY_ANSWERING,
    "clone": "a workflow is a definition and the name of a conversation: call build() again, or run(session_id=...)",
    "max_iterations": "legato.HandoffBuilder(...).with_limits(Limits(turns=...)) bounds a run",
    "resolve_pause_checkpoint_id": "await workflow.get_last_checkpoint_id() is where the conversation stands",
    "status": "it is the ledger's to say: (await workflow.session().refresh()).status",
    # of earlier releases
    "run_from_checkpoint": "write workflow.run(checkpoint_id=...)",
    "run_stream_from_checkpoint": "write workflow.run(checkpoint_id=..., stream=True)",
}
WORKFLOW_EVENT = {
    **dict.fromkeys(("started", "status", "failed", "warning", "error", "emit", "request_info"), _MADE_BY_RUNS),
    **dict.fromkeys(("executor_invoked", "executor_completed", "executor_failed", "executor_bypassed"), _MADE_BY_RUNS),
    **dict.fromkeys(("superstep_started", "superstep_completed"), "there are no supersteps: a run goes from fact to fact"),
    **dict.fromkeys(
        ("to_dict", "from_dict"), "there is nothing to save: what is pending is in the ledger, and run(checkpoint_id=...) shows it again"
    ),
    "origin": "event.executor_id says whose it is",
}
WORKFLOW_ERROR_DETAILS = {"from_exception": _MADE_BY_RUNS}
WORKFLOW_CHECKPOINT = {
    "graph_signature_hash": WORKFLOW["graph_signature_hash"],
    "messages": "no message is under way between agents: (await workflow.session().refresh()).messages is what was said",
    "state": "nothing is kept beside the ledger: (await workflow.session().refresh()).state is what its facts lead to",
    "version": "a checkpoint is a position and has no format; the store's files have one",
    "from_dict": "a checkpoint is not made but found: await storage.load(checkpoint_id)",
}
CHECKPOINT_STORAGE = {
    # of earlier releases
    "load_checkpoint": "write storage.load(checkpoint_id)",
    "save_checkpoint": "every fact is recorded when it happens: there is nothing to save",
    "delete_checkpoint": "delete the conversation: await storage.store.delete(session_id)",
}
HANDOFF_BUILDER = {
    # of earlier releases
    "with_interaction_mode": "the user is asked when agents have answered; with_autonomous_mode() lets agents go on by themselves",
    "auto_register_handoff_tools": "every handoff has its tool",
    "request_prompt": "the user's turn shows what the agent said, and has no prompt of its own",
    "with_request_info": "who is asked follows from the conversation: a tool with approval_mode='always_require' asks before it runs",
    "participant_factories": "give the agents themselves: an agent holds no conversation, and any number of workflows may share it",
    "register_participants": "write participants([...])",
}
AGENT = {
    **_SERIALIZED,
    **_MEASURED,
    "AGENT_PROVIDER_NAME": _NO_METRICS,
    "additional_properties": _NOTHING_ELSE,
    "as_mcp_server": "offer the workflow: legato mcp module:workflow, or legato.mcp.WorkflowServer(workflow).server",
    "mcp_tools": MCP,
    "open": "nothing is opened or closed: an agent holds no connection",
    "close": "nothing is opened or closed: an agent holds no connection; its store is closed with await agent.store.close()",
    "compaction_strategy": "history policies do this: legato.history.last(n), summarised(...), given to a native Agent",
    "tokenizer": "history policies estimate by themselves",
    "require_per_service_call_history_persistence": "every reply and every output is recorded before anything else happens",
    "get_session": "write agent.create_session(session_id=...): the ledger keeps the conversation, not the provider",
}
RUN_OF_AGENT = {
    "options": "options belong to an agent: Agent(default_options={...})",
    "client_kwargs": "options belong to an agent: Agent(default_options={...})",
    "tools": "tools belong to an agent: Agent(tools=[...])",
    "middleware": "middleware belongs to an agent: Agent(middleware=[...])",
    "compaction_strategy": AGENT["compaction_strategy"],
    "tokenizer": AGENT["tokenizer"],
}
WORKFLOW_AGENT = {
    **_SERIALIZED,
    "additional_properties": _NOTHING_ELSE,
    "as_tool": "an agent can be a tool, a workflow cannot: call it from a @tool function",
    "context_providers": "they belong to the agents of the workflow",
    "get_session": AGENT["get_session"],
    "merge_updates": "write AgentResponse.from_updates(updates)",
    "middleware": "it belongs to the agents of the workflow",
    "require_per_service_call_history_persistence": AGENT["require_per_service_call_history_persistence"],
}
AGENT_RESPONSE = {
    **dict.fromkeys(("DEFAULT_EXCLUDE", "INJECTABLE"), _DEFINED_IN_CODE),
    **dict.fromkeys(("from_dict", "from_json"), "what was answered is in the ledger: (await workflow.session().refresh()).messages"),
    "continuation_token": _NO_BACKGROUND,
    "created_at": "every fact has its time: session.facts[...].at, in milliseconds",
    "to_updates": "run with stream=True to see an answer in pieces",
}
AGENT_RESPONSE_UPDATE = {
    **{name: instead for name, instead in AGENT_RESPONSE.items() if name != "to_updates"},
    "merge_mode": "pieces are joined; what is withdrawn is told by an event of type warning",
}
MESSAGE = dict.fromkeys(("DEFAULT_EXCLUDE", "INJECTABLE"), _DEFINED_IN_CODE)
CONTENT = {
    **dict.fromkeys(
        ("from_hosted_file", "from_hosted_vector_store"),
        "a user's message is made of text, pictures and files: Content.from_data(...) and from_uri(...)",
    ),
    **dict.fromkeys(
        (
            *("from_code_interpreter_tool_call", "from_code_interpreter_tool_result", "from_computer_tool_call"),
            *("from_computer_tool_result", "from_image_generation_tool_call", "from_image_generation_tool_result"),
            *("from_mcp_server_tool_call", "from_mcp_server_tool_result", "from_search_tool_call", "from_search_tool_result"),
            *("from_shell_command_output", "from_shell_tool_call", "from_shell_tool_result"),
        ),
        "what the provider did by itself is in the ledger (session.facts), and is not made by programs",
    ),
    "from_oauth_consent_request": MCP,
    "from_usage": "response.usage_details and session.usage say what was used",
}
CONTEXT_PROVIDER = {"after_run_once_per_turn": "after_run is called once, when the agent's turn is over"}
HISTORY_PROVIDER = dict.fromkeys(
    ("get_messages", "save_messages", "load_messages", "store_inputs", "store_outputs", "store_context_messages", "store_context_from"),
    _HISTORY,
)
SESSION_CONTEXT = {
    **dict.fromkeys(("extend_middleware", "get_middleware", "middleware"), "middleware belongs to an agent: Agent(middleware=[...])"),
    "tools": "tools belong to an agent: Agent(tools=[...])",
    "options": "options belong to an agent: Agent(default_options={...})",
    "metadata": _NOTHING_ELSE,
    "service_session_id": "the ledger keeps the conversation, not the provider",
}
FUNCTION_INVOCATION_CONTEXT = dict.fromkeys(
    ("tools", "add_tools", "remove_tools"), "the tools of an agent are the same for the whole conversation: Agent(tools=[...])"
) | {"parent_service_session_state_keys": _NOTHING_ELSE}
_HOOKS = dict.fromkeys(
    (
        *("stream_transform_hooks", "stream_result_hooks", "stream_cleanup_hooks"),
        *("stream_update_gates_before", "stream_update_gates_after", "stream_result_gates_before", "stream_result_gates_after"),
        *("stream_buffer_updates", "stream_result_to_updates"),
        *("stream_update_transforms", "stream_result_transforms", "stream_consumption_context_manager_factories"),
    ),
    _NO_GATES,
)
CHAT_CONTEXT = _HOOKS | {
    "kwargs": "a model is asked for what the ledger holds, and with the agent's options",
    "function_invocation_kwargs": "only tools are given them: by a parameter annotated FunctionInvocationContext",
    "record_message_replacement": "what a model is sent follows from the ledger, and is not replaced",
}
AGENT_CONTEXT = _HOOKS | {
    "options": "options belong to an agent: Agent(default_options={...})",
    "tools": "tools belong to an agent: Agent(tools=[...])",
    "client_kwargs": "options belong to an agent: Agent(default_options={...})",
    "compaction_strategy": AGENT["compaction_strategy"],
    "tokenizer": AGENT["tokenizer"],
}
RESPONSE_STREAM = {
    **dict.fromkeys(("map", "flat_map", "from_awaitable"), "write async for over the stream"),
    **dict.fromkeys(("with_transform_hook", "with_update_transform", "with_result_hook", "with_result_transform"), _NO_GATES),
    **dict.fromkeys(("with_finalizer", "buffer_updates", "buffered_and_gated", "with_update_gate", "with_result_gate"), _NO_GATES),
    **dict.fromkeys(
        ("close", "with_cleanup_hook", "with_consumption_context_manager", "with_pull_context_manager"),
        "leaving the loop stops the run at its next fact; write what is to be done then behind it",
    ),
}
CHAT_CLIENT = {
    **_SERIALIZED,
    **_MEASURED,
    **dict.fromkeys(("OTEL_PROVIDER_NAME", "SERVED_MODEL_HEADER"), _NO_METRICS),
    **dict.fromkeys(("api_version", "azure_endpoint", "base_url", "client", "default_headers", "org_id"), _A_MODELS),
    **dict.fromkeys(("service_url", "instruction_role", "message_preparer", "response_parser", "additional_properties"), _A_MODELS),
    **dict.fromkeys(("STORES_BY_DEFAULT", "FILE_SEARCH_MAX_RESULTS", "SUPPORTS_RICH_FUNCTION_OUTPUT"), _A_MODELS),
    **dict.fromkeys(("compaction_strategy", "tokenizer"), AGENT["compaction_strategy"]),
    **dict.fromkeys(("chat_middleware", "function_middleware"), "client.middleware is what the client was given"),
    **dict.fromkeys(("get_computer_tool", "get_shell_tool"), _PROVIDER_RUNS),
    **dict.fromkeys(
        ("get_web_search_tool", "get_code_interpreter_tool", "get_file_search_tool", "get_image_generation_tool"),
        "Chat Completions runs no tools of its own: use OpenAIResponsesClient",
    ),
    "get_mcp_tool": MCP,
    "get_response": "ask an agent: await client.as_agent(name='asked').run('...')",
    "function_invocation_configuration": "limits belong to a run: legato.HandoffBuilder(...).with_limits(Limits(tool_calls=...))",
}

_NOT_HANDOFFS = "Legato's workflows are handoffs: HandoffBuilder, an agent as a tool (agent.as_tool()), or plain Python around sessions"
_BY_TYPE = "events are told apart by event.type: 'output', 'handoff_sent', 'request_info', 'status', 'warning', 'failed'"
_COMPACTION = AGENT["compaction_strategy"]

NAMES = {
    **dict.fromkeys(("MCPStdioTool", "MCPStreamableHTTPTool", "MCPWebsocketTool", "HostedMCPTool"), MCP),
    **dict.fromkeys(
        ("WorkflowBuilder", "SequentialBuilder", "ConcurrentBuilder", "GroupChatBuilder", "MagenticBuilder", "WorkflowExecutor"),
        _NOT_HANDOFFS,
    ),
    **dict.fromkeys(("Executor", "AgentExecutor", "WorkflowContext", "executor", "handler", "response_handler"), _NOT_HANDOFFS),
    **dict.fromkeys(
        ("RequestInfoEvent", "WorkflowOutputEvent", "WorkflowStatusEvent", "AgentRunEvent", "AgentRunUpdateEvent", "WorkflowFailedEvent"),
        _BY_TYPE,
    ),
    "HandoffUserInputRequest": "it is called HandoffAgentUserRequest",
    **dict.fromkeys(("SlidingWindowStrategy", "SummarizationStrategy", "TruncationStrategy", "CompactionProvider"), _COMPACTION),
    "ToolApprovalMiddleware": "session.approve(request, always=True) of the native session approves later calls of the tool as well",
    "MiddlewareFailure": "raise an error: a call is then not run and the model is told; to end the conversation, await session.cancel()",
    "MessageInjectionMiddleware": "say it: workflow.run(...) from anywhere; what arrives while an agent works is seen by its next request",
    **dict.fromkeys(
        ("AgentFrameworkException", "WorkflowException", "WorkflowCheckpointException", "WorkflowRunnerException", "MiddlewareException"),
        "catch legato.errors.LegatoError, the root of all errors here: docs/errors.md lists them, who is at fault and what to do",
    ),
    **dict.fromkeys(("register_checkpoint_type", "register_state_type"), "leave it out: nothing is pickled, so nothing has to be allowed"),
    "WorkflowViz": "workflow.native.graph() draws who hands over to whom",
    "BaseChatClient": "a model of your own is any object with a name and `async def reply(request, emit)`: Agent(client=model)",
    "BaseAgent": "a participant is an Agent; what it does otherwise is a @tool, a ContextProvider or middleware",
}
"""Names of their modules that a program may import. `legato migrate` knows more of them."""

_BY_OWNER = {
    "Agent": AGENT,
    "Agent.run": RUN_OF_AGENT,
    "AgentContext": AGENT_CONTEXT,
    "AgentResponse": AGENT_RESPONSE,
    "AgentResponseUpdate": AGENT_RESPONSE_UPDATE,
    "ChatClient": CHAT_CLIENT,
    "ChatContext": CHAT_CONTEXT,
    "CheckpointStorage": CHECKPOINT_STORAGE,
    "Content": CONTENT,
    "ContextProvider": CONTEXT_PROVIDER,
    "FunctionInvocationContext": FUNCTION_INVOCATION_CONTEXT,
    "HandoffBuilder": HANDOFF_BUILDER,
    "HistoryProvider": HISTORY_PROVIDER,
    "Message": MESSAGE,
    "ResponseStream": RESPONSE_STREAM,
    "SessionContext": SESSION_CONTEXT,
    "Workflow": WORKFLOW,
    "WorkflowAgent": WORKFLOW_AGENT,
    "WorkflowCheckpoint": WORKFLOW_CHECKPOINT,
    "WorkflowErrorDetails": WORKFLOW_ERROR_DETAILS,
    "WorkflowEvent": WORKFLOW_EVENT,
    "Workflow.run": {name: RUN_OF_AGENT[name] for name in ("tools", "client_kwargs")},
    "tool": {
        "schema": "let the function's signature say what it takes",
        "result_parser": "let the function return what the model is to be told",
    },
}
_WHOSE_WORDS = "every agent's words are events of type output; event.executor_id says whose"

NOTHING: dict[str, str] = {
    **{
        f"Agent.{name}": AGENT[name]
        for name in ("require_per_service_call_history_persistence", "compaction_strategy", "tokenizer", "additional_properties")
    },
    "FileCheckpointStorage.allowed_checkpoint_types": "nothing is pickled, so nothing has to be allowed",
    "HandoffBuilder.output_from": _WHOSE_WORDS,
    "HandoffBuilder.intermediate_output_from": _WHOSE_WORDS,
    "tool.max_invocations": "limits belong to a run; HandoffBuilder(...).build().native shows them, Limits(tool_calls=...) sets them",
    "tool.max_invocation_exceptions": "a tool that raises is answered with its error, and limits bound the run",
    "tool.kind": "tools have no kinds",
    "tool.additional_properties": "a tool carries nothing else",
}

INSTEAD: dict[str, str] = {
    key: words for owner, table in _BY_OWNER.items() for name, words in table.items() if (key := f"{owner}.{name}") not in NOTHING
}
