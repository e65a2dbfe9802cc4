"""`agents.stream_events`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.facade_gaps import absent_name
from legato.compat.agents.streaming import AgentUpdatedStreamEvent, RawResponsesStreamEvent, RunItemStreamEvent, StreamEvent

__all__ = ["AgentUpdatedStreamEvent", "RawResponsesStreamEvent", "RunItemStreamEvent", "StreamEvent"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
