"""Some calls wait for a person; meanwhile the run is a file."""

from pathlib import Path
from typing import Any

from legato.compat.agents import Agent, RunContextWrapper, Runner, RunState, function_tool


async def needs_a_look(ctx: RunContextWrapper[Any], params: dict[str, Any], call_id: str) -> bool:
    return "Oakland" in params.get("city", "")


@function_tool(needs_approval=needs_a_look)
async def get_temperature(city: str) -> str:
    """The temperature in a city."""
    return f"20 degrees in {city}"


@function_tool
async def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@function_tool(needs_approval=True)
def send_postcard(city: str, words: str) -> str:
    """Send a postcard."""
    return f"sent to {city}: {words}"


agent = Agent(name="Weather assistant", instructions="Answer about the weather.", tools=[get_weather, get_temperature, send_postcard])


async def main() -> None:
    result = await Runner.run(agent, "What is the weather and the temperature in Oakland? Send me a postcard from there.")
    path = Path("result.json")
    while result.interruptions:
        path.write_text(result.to_state().to_string(), encoding="utf-8")
        state = await RunState.from_string(agent, path.read_text(encoding="utf-8"))
        for interruption in state.get_interruptions():
            print(f"{interruption.agent.name} wants {interruption.name} with {interruption.arguments}")
            if interruption.name == "send_postcard":
                state.reject(interruption, rejection_message="No stamps left.")
            else:
                state.approve(interruption)
        result = await Runner.run(agent, state)
    print(result.final_output)
