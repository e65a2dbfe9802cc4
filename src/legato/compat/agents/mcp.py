"""`agents.mcp`: not here. Each of its names says what to write instead."""

from typing import TYPE_CHECKING

from legato.compat.agents.unsupported_errors import absent_module

if not TYPE_CHECKING:
    __getattr__ = absent_module("agents.mcp", "give the agent the server's tools: tools=await legato.mcp.MCPServer(...).tools()")
