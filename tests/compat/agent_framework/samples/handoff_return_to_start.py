"""Every message of the user goes through triage, which decides anew.

'My bill is wrong' -> billing: Billing here.
'My parcel is late' -> shipping: Shipping here.
"""

from legato.compat.agent_framework import OpenAIChatClient
from legato.compat.agent_framework.orchestrations import HandoffBuilder
from legato.emulator.fake_models import ScriptedCall, ScriptRule

SCRIPT = [
    ScriptRule(instructions="You route", said="bill", say=ScriptedCall("handoff_to_billing")),
    ScriptRule(instructions="You route", said="parcel", say=ScriptedCall("handoff_to_shipping")),
    ScriptRule(instructions="You bill", say="Billing here."),
    ScriptRule(instructions="You ship", say="Shipping here."),
]


async def main() -> None:
    client = OpenAIChatClient(model="gpt-4.1")
    triage = client.as_agent(name="triage", instructions="You route.")
    billing = client.as_agent(name="billing", instructions="You bill.")
    shipping = client.as_agent(name="shipping", instructions="You ship.")
    workflow = (
        HandoffBuilder(participants=[triage, billing, shipping])
        .with_start_agent(triage)
        .add_handoff(triage, [billing, shipping])
        .enable_return_to_previous(False)
        .build()
    )
    asked = None
    for said in ("My bill is wrong", "My parcel is late"):
        result = await (workflow.run(responses={asked: said}) if asked else workflow.run(said))
        (request,) = result.get_request_info_events()
        response = request.data.agent_response
        print(f"{said!r} -> {response.messages[-1].author_name}: {response.text}")
        asked = request.request_id
