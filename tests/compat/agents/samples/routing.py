"""A triage agent routes by language; the conversation is carried on by value, streamed."""

from legato.compat.agents import Agent, Runner, trace

french = Agent(name="french_agent", instructions="You only speak French.")
spanish = Agent(name="spanish_agent", instructions="You only speak Spanish.")
english = Agent(name="english_agent", instructions="You only speak English.")
triage = Agent(
    name="triage_agent",
    instructions="Hand over to the agent who speaks the language of the request.",
    handoffs=[french, spanish, english],
)

SAID = ["Bonjour, qui êtes-vous ?", "Merci, et au revoir."]


async def main() -> None:
    agent, inputs = triage, []
    for said in SAID:
        inputs.append({"role": "user", "content": said})
        with trace("Routing example"):
            result = Runner.run_streamed(agent, input=inputs)
            async for event in result.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    print(event.data.delta, end="")
                elif event.type == "agent_updated_stream_event":
                    print(f"[{event.new_agent.name}]", end=" ")
        print()
        inputs = result.to_input_list()
        agent = result.current_agent
