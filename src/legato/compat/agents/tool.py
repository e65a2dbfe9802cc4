"""`agents.tool`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.facade_gaps import absent_name
from legato.compat.agents.tools import FunctionTool, Tool, default_tool_error_function, function_tool

__all__ = ["FunctionTool", "Tool", "default_tool_error_function", "function_tool"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
