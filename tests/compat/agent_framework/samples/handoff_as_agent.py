"""A workflow that is asked like one agent: its requests come as calls named request_info, and are answered with results.

refunds: Which order?
refunds: Order 7 is refunded.
nothing is asked any more
"""

from legato.compat.agent_framework import AgentResponse, Content, Message, OpenAIChatClient, WorkflowAgent
from legato.compat.agent_framework.orchestrations import HandoffAgentUserRequest, HandoffBuilder
from legato.emulator.fake_models import ScriptedCall, ScriptRule

SCRIPT = [
    ScriptRule(instructions="You route", say=ScriptedCall("handoff_to_refunds")),
    ScriptRule(said="money", say="Which order?"),
    ScriptRule(said="Order 7", say="Order 7 is refunded."),
]


def requests_in(response: AgentResponse) -> list[WorkflowAgent.RequestInfoFunctionArgs]:
    requests = []
    for message in response.messages:
        for content in message.contents:
            if content.type == "text":
                print(f"{message.author_name}: {content.text}")
            elif content.type == "function_call" and content.name == WorkflowAgent.REQUEST_INFO_FUNCTION_NAME:
                requests.append(WorkflowAgent.RequestInfoFunctionArgs.from_dict(content.parse_arguments() or {}))
    return requests


async def main() -> None:
    client = OpenAIChatClient(model="gpt-4.1")
    triage = client.as_agent(name="triage", instructions="You route.")
    refunds = client.as_agent(name="refunds", instructions="You refund.")
    workflow = HandoffBuilder(
        participants=[triage, refunds], termination_condition=lambda conversation: "is refunded" in conversation[-1].text
    ).build()
    agent = workflow.as_agent(name="desk")
    requests = requests_in(await agent.run("I want my money back"))
    while requests:
        results = [
            Content.from_function_result(call_id=each.request_id, result=HandoffAgentUserRequest.create_response("Order 7"))
            for each in requests
        ]
        requests = requests_in(await agent.run(Message("tool", results)))
    print("nothing is asked any more")
