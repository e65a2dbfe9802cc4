"""`agents.tool_context`, by name."""

from legato.compat.agents.context import ToolContext

__all__ = ["ToolContext"]
