"""A research team that works by itself.

In autonomous mode an agent that stops without a handoff is prompted to continue, up to a limit. The run ends when
the termination condition is true; if it takes too many turns, it pauses and asks.

Run it: python examples/research_team.py
With OPENAI_API_KEY set, OpenAI answers. Without, the emulator stands in with the script below, and it prints:

    handoff_sent: lead -> researcher (how are they made?)
    tool_started: search({"topic": "green tea"})
    tool_started: search({"topic": "black tea"})
    message: researcher: I have found how both are made.
    prompted: researcher: Go on with your task. When your part is done, hand over or say so.
    handoff_sent: researcher -> writer (both are known)
    message: writer: Draft: it is all about oxidation.
    prompted: writer: Go on with your task. When your part is done, hand over or say so.
    message: writer: Green tea is heated before it can oxidise, black tea after. DONE
    judged: termination: enough
    status: terminated
"""

import asyncio

from legato import Agent, HandoffBuilder, Limits, tool
from legato.emulator import stand_in
from legato.emulator.fake_models import ScriptedCall, ScriptRule

MODEL = "openai:gpt-5.1"
LIBRARY = {"green": "Green tea is heated soon after picking.", "black": "Black tea is left to oxidise before it is dried."}


@tool(idempotent=True)
def search(topic: str) -> str:
    """Search the library."""
    return " ".join(text for word, text in LIBRARY.items() if word in topic.lower()) or "nothing found"


lead = Agent("lead", instructions="You lead a team. Have things looked up, then written down.", model=MODEL)
researcher = Agent("researcher", instructions="You look things up, then hand over to the writer.", model=MODEL, tools=[search])
writer = Agent("writer", instructions="You write. Draft first, then give the final text and end it with DONE.", model=MODEL)

team = (
    HandoffBuilder(name="team", participants=[lead, researcher, writer])
    .add_handoff(lead, [researcher, writer])
    .add_handoff(researcher, [writer])
    .add_handoff(writer, [lead])
    .with_autonomous_mode(turn_limits={"lead": 2, "researcher": 2, "writer": 4})
    .with_termination_condition(lambda messages: messages[-1].text.endswith("DONE"))
    .with_limits(Limits(turns=30))
    .build()
)

# The emulated model's replies, agent by agent. A real model needs no script.
SCRIPT = [
    ScriptRule(instructions="You lead", say=ScriptedCall("handoff_to_researcher", {"reason": "how are they made?"})),
    ScriptRule(after_tool="handoff_to_researcher", say=[ScriptedCall("search", {"topic": kind}) for kind in ("green tea", "black tea")]),
    ScriptRule(after_tool="search", say="I have found how both are made."),
    ScriptRule(instructions="You look things up", say=ScriptedCall("handoff_to_writer", {"reason": "both are known"})),
    ScriptRule(after_tool="handoff_to_writer", say="Draft: it is all about oxidation."),
    ScriptRule(instructions="You write", say="Green tea is heated before it can oxidise, black tea after. DONE"),
]


async def main() -> None:
    async for event in team.session().run("How do green and black tea differ? One sentence, please."):
        if event.type in ("handoff_sent", "tool_started", "message", "prompted", "judged", "model_failed", "status"):
            print(event)


if __name__ == "__main__":
    with stand_in(SCRIPT):
        asyncio.run(main())
