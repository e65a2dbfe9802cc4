"""A team that works by itself: an agent that stops without handing over is told to go on, up to its limit.

Draft.
Better draft.
writer -> editor
It is good.
IDLE
"""

from legato.compat.agent_framework import AgentResponseUpdate, OpenAIChatClient, resolve_agent_id
from legato.compat.agent_framework.orchestrations import HandoffBuilder
from legato.emulator.fake_models import ScriptedCall, ScriptRule

SCRIPT = [
    ScriptRule(instructions="You write", turn=1, say="Draft."),
    ScriptRule(instructions="You write", turn=2, say="Better draft."),
    ScriptRule(instructions="You write", turn=3, say=ScriptedCall("handoff_to_editor")),
    ScriptRule(instructions="You edit", say="It is good."),
]


async def main() -> None:
    client = OpenAIChatClient(model="gpt-4.1")
    writer = client.as_agent(name="writer", instructions="You write.")
    editor = client.as_agent(name="editor", instructions="You edit.")
    workflow = (
        HandoffBuilder(participants=[writer, editor], termination_condition=lambda conversation: "good" in conversation[-1].text)
        .with_start_agent(writer)
        .with_autonomous_mode(turn_limits={resolve_agent_id(writer): 4}, prompts={"writer": "Go on."})
        .build()
    )
    async for event in workflow.run("Write a line about tea.", stream=True):
        if event.type == "output" and isinstance(event.data, AgentResponseUpdate):
            print(event.data.text, end="\n" if event.data.text.endswith(".") else "")
        elif event.type == "handoff_sent":
            print(f"{event.data.source} -> {event.data.target}")
        elif event.type == "status" and event.state != "IN_PROGRESS":
            print(event.state.value)
