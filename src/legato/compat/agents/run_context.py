"""`agents.run_context`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.context import AgentHookContext, RunContextWrapper, TContext
from legato.compat.agents.unsupported_errors import absent_name

__all__ = ["AgentHookContext", "RunContextWrapper", "TContext"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
