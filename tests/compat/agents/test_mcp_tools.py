"""What the facade says instead of `mcp_servers=` works: tools of an MCP server, in the hands of its agents."""

import sys

from legato.compat.agents import Agent, Runner
from legato.mcp import MCPServer
from legato.testing import ScriptedModel, call


async def test_an_agent_of_the_facade_uses_the_tools_of_a_server():
    async with MCPServer("time", command=[sys.executable, "-m", "mcp_server_time"]) as server:
        model = ScriptedModel([call("get_current_time", timezone="UTC"), "Now."])
        result = await Runner.run(Agent(name="clerk", model=model, tools=await server.tools()), "What time is it?")
    assert result.final_output == "Now."
    assert any("UTC" in str(item.output) for item in result.new_items if hasattr(item, "output"))
