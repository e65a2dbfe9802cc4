"""Tools of MCP servers. Needs the extra `mcp`; users import them from `legato.mcp`.

A server's tools are listed once and pinned: only accepted tools are offered and run. `mcp_server.py` has the class for users,
`pinned_tools.py` the comparison with accepted tools, `server_connection.py` the transports, `call_results.py` the results of calls.
Arguments are validated by the server's schema, which is not trusted: `legato.tools.json_schema_validation`.
"""

from legato.tools.mcp.mcp_server import MCPServer, MCPToolError, SchemaNotEnforced
from legato.tools.mcp.pinned_tools import ServerTool, ToolChange

__all__ = ["MCPServer", "MCPToolError", "SchemaNotEnforced", "ServerTool", "ToolChange"]
