"""`agents.tool`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.function_tools import FunctionTool, Tool, default_tool_error_function, function_tool
from legato.compat.agents.unsupported_errors import absent_name

__all__ = ["FunctionTool", "Tool", "default_tool_error_function", "function_tool"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
