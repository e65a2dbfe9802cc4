"""Tools of agents: Python functions with a name, a JSON schema and rules, and tools that clients run.

The public names of the package are exported here.
"""

from legato.tools.client_tools import ClientTool, options_of, parse_output
from legato.tools.function_tools import Tool, tool
from legato.tools.tool_arguments import BadArguments
from legato.tools.tool_context import CallerStopped, ChildMissing, ChildPaused, OutcomeUnknown, Secret, ToolCall, ToolContext
from legato.tools.tool_outputs import tool_content, tool_output

__all__ = [
    "BadArguments",
    "CallerStopped",
    "ChildMissing",
    "ChildPaused",
    "ClientTool",
    "OutcomeUnknown",
    "Secret",
    "Tool",
    "ToolCall",
    "ToolContext",
    "options_of",
    "parse_output",
    "tool",
    "tool_content",
    "tool_output",
]
