"""Three calls in one reply: one is open and runs at once, one is approved, one is rejected. Each has one output.

ran at once: ['check thermal']
asked: clean temp, clean cache
cleaner: All is settled.
ran: ['check thermal', 'clean temp']
"""

from legato.compat.agent_framework import Content, OpenAIResponsesClient, tool
from legato.compat.agent_framework.orchestrations import HandoffBuilder
from legato.emulator.fake_models import ScriptedCall, ScriptRule

SCRIPT = [
    ScriptRule(instructions="You route", say=ScriptedCall("handoff_to_cleaner")),
    ScriptRule(after_tool="check", say="All is settled."),
    ScriptRule(
        instructions="You clean",
        say=[
            ScriptedCall("clean", {"target": "temp"}),
            ScriptedCall("check", {"what": "thermal"}),
            ScriptedCall("clean", {"target": "cache"}),
        ],
    ),
]
RAN: list[str] = []


@tool(approval_mode="always_require")
def clean(target: str) -> str:
    """Clean something up."""
    RAN.append(f"clean {target}")
    return f"{target} is clean"


@tool(approval_mode="never_require")
def check(what: str) -> str:
    """Check something."""
    RAN.append(f"check {what}")
    return f"{what} is fine"


async def main() -> None:
    RAN.clear()
    client = OpenAIResponsesClient(model="gpt-5.1")
    route = client.as_agent(name="route", instructions="You route.")
    cleaner = client.as_agent(name="cleaner", instructions="You clean.", tools=[clean, check])
    workflow = HandoffBuilder(participants=[route, cleaner]).build()
    result = await workflow.run("Clean up and check")
    print("ran at once:", RAN)
    requests = result.get_request_info_events()
    print("asked:", ", ".join(f"clean {each.data.function_call.parse_arguments()['target']}" for each in requests))
    responses: dict[str, Content] = {}
    for request, approved in zip(requests, (True, False), strict=True):
        responses[request.request_id] = request.data.to_function_approval_response(approved)
    result = await workflow.run(responses=responses)
    print(f"cleaner: {result.get_outputs()[-1].text}")
    print("ran:", RAN)
