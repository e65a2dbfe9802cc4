"""Instructions that depend on the context; a handoff that is there for some and not for others; a run that takes too many turns."""

from dataclasses import dataclass
from typing import Literal

from legato.compat.agents import Agent, MaxTurnsExceeded, RunContextWrapper, Runner, function_tool, handoff


@dataclass
class Customer:
    style: Literal["haiku", "pirate"]
    gold: bool = False


def instructions(ctx: RunContextWrapper[Customer], agent: Agent[Customer]) -> str:
    return f"You are {agent.name}. Only speak as a {ctx.context.style}."


@function_tool
def look_again() -> str:
    """Look once more."""
    return "nothing new"


concierge = Agent[Customer](name="Concierge", instructions="Serve the best customers.")
agent = Agent[Customer](
    name="Chat agent",
    instructions=instructions,
    tools=[look_again],
    handoffs=[handoff(concierge, is_enabled=lambda ctx, agent: ctx.context.gold)],
)


async def main() -> None:
    for customer in (Customer("haiku"), Customer("pirate", gold=True)):
        result = await Runner.run(agent, "Tell me a joke.", context=customer)
        print(f"{result.last_agent.name}: {result.final_output}")
    try:
        await Runner.run(agent, "Look until you find something.", context=Customer("haiku"), max_turns=3)
    except MaxTurnsExceeded as error:
        print(f"stopped after {len(error.run_data.raw_responses)} replies")
        result = await Runner.run(agent, error.run_data.to_state(), max_turns=5)
        print(result.final_output)
