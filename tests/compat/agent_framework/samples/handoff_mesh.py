"""Without any add_handoff everybody may hand over to everybody; awaited, a run gives all its events at once.

ada: I know the first half.
bo: I know the second half.
state: IDLE
handoffs: ada -> bo
"""

from legato.compat.agent_framework import AgentResponse, OpenAIResponsesClient
from legato.compat.agent_framework.orchestrations import HandoffBuilder
from legato.emulator.fake_models import ReplyText, ScriptedCall, ScriptRule

SCRIPT = [
    ScriptRule(instructions="You are Ada", say=[ReplyText("I know the first half."), ScriptedCall("handoff_to_bo")]),
    ScriptRule(instructions="You are Bo", say="I know the second half."),
]


async def main() -> None:
    client = OpenAIResponsesClient(model="gpt-5.1")
    ada = client.as_agent(name="ada", instructions="You are Ada.", description="Knows beginnings.")
    bo = client.as_agent(name="bo", instructions="You are Bo.", description="Knows endings.")
    workflow = HandoffBuilder(participants=[ada, bo]).with_termination_condition(lambda said: len(said) >= 3).build()
    result = await workflow.run("What do you know?", include_status_events=True)
    for output in result.get_outputs():
        if isinstance(output, AgentResponse):
            print(f"{output.agent_id}: {output.text}")
    print("state:", result.get_final_state().value)
    print("handoffs:", ", ".join(f"{event.data.source} -> {event.data.target}" for event in result if event.type == "handoff_sent"))
