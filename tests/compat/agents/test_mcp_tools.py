"""The replacement of `mcp_servers=` works: agents of the facade use tools of an MCP server."""

import sys

from legato.compat.agents import Agent, Runner
from legato.mcp import MCPServer
from legato.testing import ScriptedModel, call


async def test_facade_agent_uses_an_mcp_servers_tools():
    async with MCPServer("time", command=[sys.executable, "-m", "mcp_server_time"]) as server:
        model = ScriptedModel([call("get_current_time", timezone="UTC"), "Now."])
        result = await Runner.run(Agent(name="clerk", model=model, tools=await server.tools()), "What time is it?")
    assert result.final_output == "Now."
    assert any("UTC" in str(item.output) for item in result.new_items if hasattr(item, "output"))
