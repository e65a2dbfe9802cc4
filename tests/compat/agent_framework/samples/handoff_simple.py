"""A desk that routes customers and asks them to go on, until one of them says goodbye.

handoff: triage -> refunds
refunds asks: Which order is it?
refunds asks: Order 7 is refunded.
transcript: user, refunds, user, refunds, user, refunds
"""

from legato.compat.agent_framework import OpenAIResponsesClient
from legato.compat.agent_framework.orchestrations import HandoffAgentUserRequest, HandoffBuilder
from legato.emulator.fake_models import ScriptedCall, ScriptRule

SCRIPT = [
    ScriptRule(instructions="You route", say=ScriptedCall("handoff_to_refunds")),
    ScriptRule(said="broken", say="Which order is it?"),
    ScriptRule(said="Order 7", say="Order 7 is refunded."),
    ScriptRule(said="Goodbye", say="Goodbye!"),
]


async def main() -> None:
    client = OpenAIResponsesClient(model_id="gpt-5.1")
    triage = client.as_agent(name="triage", instructions="You route customers.")
    refunds = client.as_agent(name="refunds", instructions="You handle refunds.")
    workflow = (
        HandoffBuilder(name="desk", participants=[triage, refunds])
        .with_start_agent(triage)
        .add_handoff(triage, [refunds])
        .add_handoff(refunds, [triage])
        .with_termination_condition(lambda conversation: "Goodbye" in conversation[-1].text)
        .build()
    )
    answers = iter(["Order 7", "Goodbye"])
    events = await workflow.run("My lamp came broken")
    while True:
        for event in events:
            if event.type == "handoff_sent":
                print(f"handoff: {event.data.source} -> {event.data.target}")
        requests = events.get_request_info_events()
        if not requests:
            break
        responses = {}
        for request in requests:
            assert isinstance(request.data, HandoffAgentUserRequest)
            print(f"{request.source_executor_id} asks: {request.data.agent_response.text}")
            responses[request.request_id] = HandoffAgentUserRequest.create_response(next(answers))
        events = await workflow.run(responses=responses)
    transcript = events.get_outputs()[-1]
    print("transcript:", ", ".join(message.author_name or message.role for message in transcript))
