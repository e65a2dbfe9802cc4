"""A conversation that goes on from the id of its last reply; and two ways to go on from the same one."""

from legato.compat.agents import Agent, Runner

agent = Agent(name="Assistant", instructions="Be very brief.")


async def main() -> None:
    first = await Runner.run(agent, "What is the largest country in South America?")
    print(first.final_output)
    second = await Runner.run(agent, "What is its capital?", previous_response_id=first.last_response_id)
    print(second.final_output)
    streamed = Runner.run_streamed(agent, "And its largest city?", previous_response_id=first.last_response_id)
    async for event in streamed.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            print(event.data.delta, end="", flush=True)
    print()
