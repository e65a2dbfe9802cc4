"""The OpenAI Agents SDK's names over Legato: change `from agents import ...` to `from legato.compat.agents import ...`.

A facade: it translates names and shapes, and owns no history. See docs/migrate/openai-agents.md.
"""

from legato.compat import MeansNothingHere
from legato.compat.agents.agent import Agent, AgentOutputSchema, StopAtTools
from legato.compat.agents.building import RunConfig
from legato.compat.agents.context import RunContextWrapper, TContext, ToolContext, Usage
from legato.compat.agents.exceptions import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelCallFailed,
    OutputGuardrailTripwireTriggered,
    UserError,
)
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
from legato.compat.agents.places import default_store, set_default_store
from legato.compat.agents.results import RunResult
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
from legato.compat.agents.tools import FunctionTool, function_tool
from legato.compat.agents.tracing import (
    enable_verbose_stdout_logging,
    gen_trace_id,
    set_tracing_disabled,
    set_tracing_export_api_key,
    trace,
)

__all__ = [
    "Agent",
    "AgentOutputSchema",
    "AgentUpdatedStreamEvent",
    "AgentsException",
    "ContextLeftBehind",
    "FunctionTool",
    "GuardrailFunctionOutput",
    "Handoff",
    "HandoffCallItem",
    "HandoffInputData",
    "HandoffInputFilter",
    "HandoffOutputItem",
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
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolContext",
    "Usage",
    "UserError",
    "default_store",
    "enable_verbose_stdout_logging",
    "function_tool",
    "gen_trace_id",
    "handoff",
    "input_guardrail",
    "output_guardrail",
    "set_default_openai_api",
    "set_default_openai_client",
    "set_default_openai_key",
    "set_default_store",
    "set_tracing_disabled",
    "set_tracing_export_api_key",
    "trace",
]
