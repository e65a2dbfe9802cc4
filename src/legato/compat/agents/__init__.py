"""The OpenAI Agents SDK's names over Legato: change `from agents import ...` to `from legato.compat.agents import ...`.

A facade: it translates names and shapes, and owns no history. See docs/migrate/openai-agents.md.
"""

from typing import TYPE_CHECKING

from openai import AsyncOpenAI

from legato.compat import MeansNothingHere
from legato.compat.agents.agent import Agent, AgentBase, AgentOutputSchema, StopAtTools
from legato.compat.agents.context import AgentHookContext, RunContextWrapper, TContext, ToolContext, Usage
from legato.compat.agents.conversation_storage import default_store, set_default_store
from legato.compat.agents.exceptions import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelCallFailed,
    OutputGuardrailTripwireTriggered,
    UserError,
)
from legato.compat.agents.function_tools import FunctionTool, Tool, default_tool_error_function, function_tool
from legato.compat.agents.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
    input_guardrail,
    output_guardrail,
)
from legato.compat.agents.handoffs import Handoff, HandoffInputData, HandoffInputFilter, handoff
from legato.compat.agents.items import (
    HandoffCallItem,
    HandoffOutputItem,
    ItemHelpers,
    MessageOutputItem,
    ModelResponse,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    TResponseInputItem,
)
from legato.compat.agents.lifecycle import AgentHooks, HookFailed, RunHooks
from legato.compat.agents.run_result import RunResult
from legato.compat.agents.runner import Runner
from legato.compat.agents.sessions import SQLiteSession
from legato.compat.agents.settings import (
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    set_default_openai_api,
    set_default_openai_client,
    set_default_openai_key,
)
from legato.compat.agents.state import ContextLeftBehind, RunState
from legato.compat.agents.streaming import (
    AgentUpdatedStreamEvent,
    OutputResetStreamEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
    RunResultStreaming,
    StreamEvent,
)
from legato.compat.agents.tracing import (
    agent_span,
    custom_span,
    enable_verbose_stdout_logging,
    flush_traces,
    function_span,
    gen_span_id,
    gen_trace_id,
    generation_span,
    get_current_span,
    get_current_trace,
    guardrail_span,
    handoff_span,
    mcp_tools_span,
    response_span,
    set_tracing_disabled,
    set_tracing_export_api_key,
    speech_group_span,
    speech_span,
    task_span,
    trace,
    transcription_span,
    turn_span,
)
from legato.compat.agents.unsupported_errors import absent_name
from legato.compat.agents.unsupported_names import NAMES as NOT_HERE  # noqa: F401 - `legato migrate` asks for it
from legato.compat.agents.workflow_builder import RunConfig

RunErrorDetails = RunResult
"""What `error.run_data` is: the result so far."""

if not TYPE_CHECKING:  # a checker must not take every name for one that is there
    __getattr__ = absent_name

__all__ = [
    "Agent",
    "AgentBase",
    "AgentHookContext",
    "AgentHooks",
    "AgentOutputSchema",
    "AgentUpdatedStreamEvent",
    "AgentsException",
    "AsyncOpenAI",
    "ContextLeftBehind",
    "FunctionTool",
    "GuardrailFunctionOutput",
    "Handoff",
    "HandoffCallItem",
    "HandoffInputData",
    "HandoffInputFilter",
    "HandoffOutputItem",
    "HookFailed",
    "InputGuardrail",
    "InputGuardrailResult",
    "InputGuardrailTripwireTriggered",
    "ItemHelpers",
    "MaxTurnsExceeded",
    "MeansNothingHere",
    "MessageOutputItem",
    "ModelBehaviorError",
    "ModelCallFailed",
    "ModelResponse",
    "ModelSettings",
    "OpenAIChatCompletionsModel",
    "OpenAIResponsesModel",
    "OutputGuardrail",
    "OutputGuardrailResult",
    "OutputGuardrailTripwireTriggered",
    "OutputResetStreamEvent",
    "RawResponsesStreamEvent",
    "ReasoningItem",
    "RunConfig",
    "RunContextWrapper",
    "RunErrorDetails",
    "RunHooks",
    "RunItem",
    "RunItemStreamEvent",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "SQLiteSession",
    "StopAtTools",
    "StreamEvent",
    "TContext",
    "TResponseInputItem",
    "Tool",
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolContext",
    "Usage",
    "UserError",
    "agent_span",
    "custom_span",
    "default_store",
    "default_tool_error_function",
    "enable_verbose_stdout_logging",
    "flush_traces",
    "function_span",
    "function_tool",
    "gen_span_id",
    "gen_trace_id",
    "generation_span",
    "get_current_span",
    "get_current_trace",
    "guardrail_span",
    "handoff",
    "handoff_span",
    "input_guardrail",
    "mcp_tools_span",
    "output_guardrail",
    "response_span",
    "set_default_openai_api",
    "set_default_openai_client",
    "set_default_openai_key",
    "set_default_store",
    "set_tracing_disabled",
    "set_tracing_export_api_key",
    "speech_group_span",
    "speech_span",
    "task_span",
    "trace",
    "transcription_span",
    "turn_span",
]
