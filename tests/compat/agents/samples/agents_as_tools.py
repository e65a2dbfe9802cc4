"""An orchestrator uses other agents as tools, and a last one puts it all together."""

from legato.compat.agents import Agent, ItemHelpers, MessageOutputItem, Runner

spanish = Agent(name="spanish_agent", instructions="Translate to Spanish.", handoff_description="From English to Spanish")
french = Agent(name="french_agent", instructions="Translate to French.", handoff_description="From English to French")
orchestrator = Agent(
    name="orchestrator_agent",
    instructions="You translate with your tools, and never by yourself.",
    tools=[
        spanish.as_tool(tool_name="translate_to_spanish", tool_description="Translate to Spanish"),
        french.as_tool(tool_name="translate_to_french", tool_description="Translate to French"),
    ],
)
synthesizer = Agent(name="synthesizer_agent", instructions="Put the translations together.")


async def main() -> None:
    result = await Runner.run(orchestrator, "Translate 'Good morning' to Spanish and French.")
    for item in result.new_items:
        if isinstance(item, MessageOutputItem):
            print(f"  - {ItemHelpers.text_message_output(item)}")
    final = await Runner.run(synthesizer, [*result.to_input_list(), {"role": "user", "content": "Put it together."}])
    print(final.final_output)
