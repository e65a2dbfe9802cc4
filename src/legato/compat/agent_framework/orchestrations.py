"""The names that programs import from `agent_framework.orchestrations`."""

from legato.compat.agent_framework.events import HandoffSentEvent
from legato.compat.agent_framework.handoff_builder import HandoffBuilder, TerminationCondition
from legato.compat.agent_framework.requests import HandoffAgentUserRequest

__all__ = ["HandoffAgentUserRequest", "HandoffBuilder", "HandoffSentEvent", "TerminationCondition"]
