"""What an agent may do: Python functions with a schema, rules and a name.

Everything a user or the driver needs is exported here; the rest of this package is how it is made.
"""

from legato.tools.arguments import BadArguments
from legato.tools.client import ClientTool, options_of, parse_output
from legato.tools.context import CallerStopped, ChildMissing, ChildPaused, OutcomeUnknown, Secret, ToolCall, ToolContext
from legato.tools.function import Tool, tool
from legato.tools.output import tool_content, tool_output

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
