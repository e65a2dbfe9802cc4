"""`agents.agent_output`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.agent import AgentOutputSchema
from legato.compat.agents.unsupported_errors import absent_name

__all__ = ["AgentOutputSchema"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
