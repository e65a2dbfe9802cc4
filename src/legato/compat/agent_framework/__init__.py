"""Microsoft Agent Framework's names over Legato: `from agent_framework import ...` becomes `from legato.compat.agent_framework import ...`.

What it covers, and what behaves better here: docs/migrate/agent-framework.md.
"""

from typing import TYPE_CHECKING

from legato.compat import MeansNothingHere
from legato.compat.agent_framework.agents import Agent, resolve_agent_id
from legato.compat.agent_framework.checkpoints import (
    CheckpointID,
    CheckpointStorage,
    FileCheckpointStorage,
    InMemoryCheckpointStorage,
    WorkflowCheckpoint,
)
from legato.compat.agent_framework.clients import (
    AzureOpenAIResponsesClient,
    OpenAIChatClient,
    OpenAIChatCompletionClient,
    OpenAIResponsesClient,
)
from legato.compat.agent_framework.contents import Content
from legato.compat.agent_framework.contexts import AgentContext, ChatContext, FunctionInvocationContext
from legato.compat.agent_framework.events import (
    HandoffSentEvent,
    ResponseStream,
    WorkflowErrorDetails,
    WorkflowEvent,
    WorkflowRunResult,
    WorkflowRunState,
)
from legato.compat.agent_framework.handoff_builder import HandoffBuilder, TerminationCondition
from legato.compat.agent_framework.messages import AgentResponse, AgentResponseUpdate, ChatResponse, Message
from legato.compat.agent_framework.middleware import (
    AgentMiddleware,
    ChatMiddleware,
    FunctionMiddleware,
    MiddlewareTermination,
    agent_middleware,
    chat_middleware,
    function_middleware,
)
from legato.compat.agent_framework.options import (
    ChatOptions,
    FinishReason,
    FinishReasonLiteral,
    OpenAIChatCompletionOptions,
    OpenAIChatOptions,
    OpenAIResponsesOptions,
    Role,
    RoleLiteral,
    SupportsAgentRun,
    ToolMode,
    UsageDetails,
)
from legato.compat.agent_framework.providers import (
    AgentSession,
    ContextProvider,
    FileHistoryProvider,
    HistoryProvider,
    InMemoryHistoryProvider,
    SessionContext,
)
from legato.compat.agent_framework.requests import HandoffAgentUserRequest
from legato.compat.agent_framework.tools import tool
from legato.compat.agent_framework.unsupported_errors import GAPS
from legato.compat.agent_framework.workflow import Workflow
from legato.compat.agent_framework.workflow_agent import WorkflowAgent
from legato.tools import Tool as FunctionTool

# What they were called in earlier releases.
AgentRunContext = AgentContext
ChatAgent = Agent
ChatMessage = Message
AgentRunResponse = AgentResponse
AgentRunResponseUpdate = AgentResponseUpdate
AgentThread = AgentSession
ai_function = tool

__all__ = [
    "Agent",
    "AgentContext",
    "AgentMiddleware",
    "AgentResponse",
    "AgentResponseUpdate",
    "AgentRunContext",
    "AgentRunResponse",
    "AgentRunResponseUpdate",
    "AgentSession",
    "AgentThread",
    "AzureOpenAIResponsesClient",
    "ChatAgent",
    "ChatContext",
    "ChatMessage",
    "ChatMiddleware",
    "ChatOptions",
    "ChatResponse",
    "CheckpointID",
    "CheckpointStorage",
    "Content",
    "ContextProvider",
    "FileCheckpointStorage",
    "FileHistoryProvider",
    "FinishReason",
    "FinishReasonLiteral",
    "FunctionInvocationContext",
    "FunctionMiddleware",
    "FunctionTool",
    "HandoffAgentUserRequest",
    "HandoffBuilder",
    "HandoffSentEvent",
    "HistoryProvider",
    "InMemoryCheckpointStorage",
    "InMemoryHistoryProvider",
    "MeansNothingHere",
    "Message",
    "MiddlewareTermination",
    "OpenAIChatClient",
    "OpenAIChatCompletionClient",
    "OpenAIChatCompletionOptions",
    "OpenAIChatOptions",
    "OpenAIResponsesClient",
    "OpenAIResponsesOptions",
    "ResponseStream",
    "Role",
    "RoleLiteral",
    "SessionContext",
    "SupportsAgentRun",
    "TerminationCondition",
    "ToolMode",
    "UsageDetails",
    "Workflow",
    "WorkflowAgent",
    "WorkflowCheckpoint",
    "WorkflowErrorDetails",
    "WorkflowEvent",
    "WorkflowRunResult",
    "WorkflowRunState",
    "agent_middleware",
    "ai_function",
    "chat_middleware",
    "function_middleware",
    "resolve_agent_id",
    "tool",
]

if not TYPE_CHECKING:  # a checker must not take every name for one that is there
    __getattr__ = GAPS.of_module(__name__)
