"""Two providers in one workflow.

The researcher is a model of OpenAI's, the writer one of Anthropic's. Words, calls and outputs cross over. A
model's reasoning cannot, since only the model that made it can read it: `session.losses` lists what stays behind.

Run it: python examples/two_providers.py
A provider whose key is set (OPENAI_API_KEY, ANTHROPIC_API_KEY) answers. For others the emulator stands in
with the script below; without any key it prints:

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
from legato.emulator.minds import Call, Rule, Thought
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
    .add_handoff(writer, [])  # it keeps the conversation
    .build()
)

# What the emulated models say; real ones need none of this.
SCRIPT = [
    Rule(after_tool="search", say=[Thought("That will do."), Call("handoff_to_writer", {"reason": "it is found"})]),
    Rule(api="responses", say=[Thought("I look it up."), Call("search", {"topic": "oolong"})]),
    Rule(api="anthropic", say="Oolong stands half-way between green tea and black."),
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
