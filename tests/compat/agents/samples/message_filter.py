"""The next agent's input is filtered: no tool traffic, and not the small talk that the conversation began with."""

import random

from legato.compat.agents import Agent, HandoffInputData, Runner, function_tool, handoff
from legato.compat.agents.extensions import handoff_filters


@function_tool
def random_number(maximum: int) -> int:
    """A random number from 0 to the maximum."""
    return random.Random(7).randint(0, maximum)


def without_small_talk(data: HandoffInputData) -> HandoffInputData:
    history = data.input_history
    return data.clone(input_history=history[2:] if isinstance(history, tuple) else history)


poet = Agent(name="Poet", instructions="Write a poem.")
plain = Agent(name="Plain", instructions="Be brief.", tools=[random_number], handoffs=[handoff(poet, input_filter=without_small_talk)])
quiet = plain.clone(name="Quiet", handoffs=[handoff(poet, input_filter=handoff_filters.remove_all_tools)])


async def main() -> None:
    for agent in (plain, quiet):
        result = await Runner.run(agent, "Hi, my name is Sora.")
        items = [*result.to_input_list(), {"role": "user", "content": "Give me a random number up to 100, then a poem about it."}]
        result = await Runner.run(agent, items)
        print(f"{result.last_agent.name}: {result.final_output}")
