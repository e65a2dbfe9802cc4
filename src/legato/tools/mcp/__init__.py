"""Tools of MCP servers. Needs the extra `mcp`; users import it as `legato.mcp`.

A server's tools are listed once and pinned: what a model is offered, and what is run, is what was accepted. `server.py` is what users
hold, `listing.py` what a tool is and when it has changed, `connection.py` how it is reached, `arguments.py` and `results.py` what goes
there and comes back, `json_schema.py` how arguments are checked against a schema that is not trusted.
"""

from legato.tools.mcp.listing import Change, Listed
from legato.tools.mcp.server import MCPServer, MCPToolError, SchemaNotEnforced

__all__ = ["Change", "Listed", "MCPServer", "MCPToolError", "SchemaNotEnforced"]
