"""Tools of MCP servers. Needs the extra `mcp`; users import it as `legato.mcp`.

A server's tools are listed once and pinned: what a model is offered, and what is run, is what was accepted. `server.py` is what users
hold, `listing.py` what a tool is and when it has changed, `connection.py` how it is reached, `results.py` what comes back. Arguments are
checked against the server's schema, which is not trusted: `legato.tools.json_schema`.
"""

from legato.tools.mcp.listing import Change, Listed
from legato.tools.mcp.server import MCPServer, MCPToolError, SchemaNotEnforced

__all__ = ["Change", "Listed", "MCPServer", "MCPToolError", "SchemaNotEnforced"]
