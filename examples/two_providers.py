"""Two providers in one workflow.

The researcher has a model of OpenAI, the writer one of Anthropic. Both see all messages, calls and outputs. A model's
reasoning is left out, since only the model that made it can read it: `session.losses` lists such losses.

Run it: python examples/two_providers.py
A provider whose key is set (OPENAI_API_KEY, ANTHROPIC_API_KEY) answers. For the others, the emulator stands in with
the script below; without any key it prints:

    writer: Oolong stands half-way between green tea and black.
    It was given
        user: Write a line about oolong, please.
        researcher: [search({"topic": "oolong"})]
        search: Oolong is oxidised in part, black tea to the end, green tea not at all.
        researcher: [handoff_to_writer({"reason": "it is found"})]
        handoff_to_writer: Control passed to writer.
    and not reasoning of researcher: only the model that made it can read it
"""

import asyncio

from legato import Agent, HandoffBuilder, tool
from legato.emulator import stand_in
from legato.emulator.fake_models import ReplyThought, ScriptedCall, ScriptRule
from legato.models import Anthropic, OpenAIResponses


@tool
def search(topic: str) -> str:
    """Search the library for a topic."""
    return "Oolong is oxidised in part, black tea to the end, green tea not at all."


researcher = Agent(
    name="researcher",
    instructions="You look things up, then hand over to the writer.",
    model=OpenAIResponses("gpt-5.1", effort="low"),
    tools=[search],
)
writer = Agent(
    name="writer",
    instructions="You write one sentence from what was found.",
    model=Anthropic("claude-sonnet-5", max_tokens=1000),
    description="Writes texts.",
)
team = (
    HandoffBuilder(name="team", participants=[researcher, writer])
    .add_handoff(researcher, [writer])
    .add_handoff(writer, [])  # it hands over to no agent
    .build()
)

# The emulated models' replies. Real models need no script.
SCRIPT = [
    ScriptRule(after_tool="search", say=[ReplyThought("That will do."), ScriptedCall("handoff_to_writer", {"reason": "it is found"})]),
    ScriptRule(api="responses", say=[ReplyThought("I look it up."), ScriptedCall("search", {"topic": "oolong"})]),
    ScriptRule(api="anthropic", say="Oolong stands half-way between green tea and black."),
]


async def main() -> None:
    session = team.session()
    result = await session.run("Write a line about oolong, please.")
    if result.error:
        raise SystemExit(result.error)
    print("writer:", result.text)
    print("It was given")
    for message in (await session.seen()).messages:
        print("   ", message)
    print("and not", *session.losses)


if __name__ == "__main__":
    with stand_in(SCRIPT):
        asyncio.run(main())
