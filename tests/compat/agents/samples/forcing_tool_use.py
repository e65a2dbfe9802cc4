"""A tool is forced once; what it returns is the model's to put in words, or the output itself."""

from legato.compat.agents import Agent, ModelSettings, Runner, StopAtTools, function_tool


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}, with wind"


talkative = Agent(
    name="Weather agent",
    instructions="You are a helpful agent.",
    tools=[get_weather],
    model_settings=ModelSettings(tool_choice="required"),
)
first_tool = talkative.clone(tool_use_behavior="stop_on_first_tool")
named = talkative.clone(tool_use_behavior=StopAtTools(stop_at_tool_names=["get_weather"]))


async def main() -> None:
    for agent in (talkative, first_tool, named):
        result = await Runner.run(agent, "What is the weather in Tokyo?")
        print(len(result.raw_responses), result.final_output)
