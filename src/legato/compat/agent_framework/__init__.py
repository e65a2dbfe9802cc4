"""Microsoft Agent Framework's names over Legato: `from agent_framework import ...` becomes `from legato.compat.agent_framework import ...`.

What it covers, and what behaves better here: docs/migrate/agent-framework.md.
"""

from legato.compat import MeansNothingHere
from legato.compat.agent_framework.agents import Agent, resolve_agent_id
from legato.compat.agent_framework.builder import HandoffBuilder, TerminationCondition
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
from legato.compat.agent_framework.events import (
    HandoffSentEvent,
    ResponseStream,
    WorkflowErrorDetails,
    WorkflowEvent,
    WorkflowRunResult,
    WorkflowRunState,
)
from legato.compat.agent_framework.messages import AgentResponse, AgentResponseUpdate, Content, Message
from legato.compat.agent_framework.providers import (
    AgentSession,
    ContextProvider,
    FileHistoryProvider,
    HistoryProvider,
    InMemoryHistoryProvider,
    SessionContext,
)
from legato.compat.agent_framework.requests import HandoffAgentUserRequest
from legato.compat.agent_framework.tools import FunctionInvocationContext, tool
from legato.compat.agent_framework.workflow import Workflow
from legato.compat.agent_framework.workflow_agent import WorkflowAgent
from legato.tools import Tool as FunctionTool

# What they were called in earlier releases.
ChatAgent = Agent
ChatMessage = Message
AgentRunResponse = AgentResponse
AgentRunResponseUpdate = AgentResponseUpdate
AgentThread = AgentSession
ai_function = tool

__all__ = [
    "Agent",
    "AgentResponse",
    "AgentResponseUpdate",
    "AgentRunResponse",
    "AgentRunResponseUpdate",
    "AgentSession",
    "AgentThread",
    "AzureOpenAIResponsesClient",
    "ChatAgent",
    "ChatMessage",
    "CheckpointID",
    "CheckpointStorage",
    "Content",
    "ContextProvider",
    "FileCheckpointStorage",
    "FileHistoryProvider",
    "FunctionInvocationContext",
    "FunctionTool",
    "HandoffAgentUserRequest",
    "HandoffBuilder",
    "HandoffSentEvent",
    "HistoryProvider",
    "InMemoryCheckpointStorage",
    "InMemoryHistoryProvider",
    "MeansNothingHere",
    "Message",
    "OpenAIChatClient",
    "OpenAIChatCompletionClient",
    "OpenAIResponsesClient",
    "ResponseStream",
    "SessionContext",
    "TerminationCondition",
    "Workflow",
    "WorkflowAgent",
    "WorkflowCheckpoint",
    "WorkflowErrorDetails",
    "WorkflowEvent",
    "WorkflowRunResult",
    "WorkflowRunState",
    "ai_function",
    "resolve_agent_id",
    "tool",
]
