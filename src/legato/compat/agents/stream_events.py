"""`agents.stream_events`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.streaming import AgentUpdatedStreamEvent, RawResponsesStreamEvent, RunItemStreamEvent, StreamEvent
from legato.compat.agents.unsupported_errors import absent_name

__all__ = ["AgentUpdatedStreamEvent", "RawResponsesStreamEvent", "RunItemStreamEvent", "StreamEvent"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
