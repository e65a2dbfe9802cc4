"""`agents.tool_context`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.context import ToolContext
from legato.compat.agents.unsupported_errors import absent_name

__all__ = ["ToolContext"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
