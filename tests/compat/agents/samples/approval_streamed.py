"""The same, streamed, with an approval that holds for the rest of the conversation."""

from legato.compat.agents import Agent, Runner, function_tool


@function_tool(needs_approval=True)
async def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


agent = Agent(name="Janitor", instructions="Tidy up.", tools=[delete_file])


async def main() -> None:
    result = Runner.run_streamed(agent, "Delete a.txt, then b.txt.")
    async for _ in result.stream_events():
        pass
    asked = 0
    while result.interruptions:
        state = result.to_state()
        for interruption in result.interruptions:
            asked += 1
            state.approve(interruption, always_approve=True)
        result = Runner.run_streamed(agent, state)
        async for event in result.stream_events():
            if event.type == "run_item_stream_event" and event.name == "tool_output":
                print(event.item.output)
    print(f"asked {asked} time(s)")
    print(result.final_output)
