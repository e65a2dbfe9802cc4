"""Approvals and the user's turn in one loop: what is asked is told apart by its data.

approve submit_refund {'order': '7', 'amount': 24.5}? yes
refunds: The money is on its way.
done: IDLE
"""

from typing import Annotated, Any

from legato.compat.agent_framework import Content, OpenAIResponsesClient, WorkflowEvent, tool
from legato.compat.agent_framework.orchestrations import HandoffAgentUserRequest, HandoffBuilder
from legato.emulator.fake_models import ScriptedCall, ScriptRule

SCRIPT = [
    ScriptRule(instructions="You route", say=ScriptedCall("handoff_to_refunds")),
    ScriptRule(after_tool="submit_refund", output="refunded", say="The money is on its way."),
    ScriptRule(instructions="You refund", say=ScriptedCall("submit_refund", {"order": "7", "amount": 24.5})),
]


@tool(approval_mode="always_require")
def submit_refund(order: Annotated[str, "The order's number"], amount: Annotated[float, "In euros"]) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} for {order}"


def answers_to(requests: list[WorkflowEvent]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for request in requests:
        if isinstance(request.data, HandoffAgentUserRequest):
            print(f"{request.source_executor_id}: {request.data.agent_response.text}")
            responses[request.request_id] = HandoffAgentUserRequest.terminate()
        elif isinstance(request.data, Content) and request.data.type == "function_approval_request":
            called = request.data.function_call
            assert called is not None
            print(f"approve {called.name} {called.parse_arguments()}? yes")
            responses[request.request_id] = request.data.to_function_approval_response(approved=True)
    return responses


async def main() -> None:
    client = OpenAIResponsesClient(model="gpt-5.1")
    triage = client.as_agent(name="triage", instructions="You route customers.")
    refunds = client.as_agent(name="refunds", instructions="You refund.", tools=[submit_refund])
    workflow = HandoffBuilder(name="desk", participants=[triage, refunds]).with_start_agent(triage).build()
    result = await workflow.run("Order 7 arrived broken: I want my 24.50 back")
    while requests := result.get_request_info_events():
        result = await workflow.run(responses=answers_to(requests))
    print("done:", result.get_final_state().value)
