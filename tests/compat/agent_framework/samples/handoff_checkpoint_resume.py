"""An approval that is given in another process: a new workflow, the same folder, the newest checkpoint.

waiting for: pay
newest: the same as before
payer: It is paid.
1 payment
"""

import tempfile

from legato.compat.agent_framework import FileCheckpointStorage, OpenAIChatClient, Workflow, tool
from legato.compat.agent_framework.orchestrations import HandoffBuilder
from legato.emulator.fake_models import ScriptedCall, ScriptRule

SCRIPT = [
    ScriptRule(instructions="You route", say=ScriptedCall("handoff_to_payer")),
    ScriptRule(after_tool="pay", output="paid", say="It is paid."),
    ScriptRule(instructions="You pay", say=ScriptedCall("pay", {"bill": "B-1"})),
]
PAID: list[str] = []


@tool(approval_mode="always_require")
def pay(bill: str) -> str:
    """Pay a bill."""
    PAID.append(bill)
    return f"{bill} is paid"


def workflow_in(storage: FileCheckpointStorage) -> Workflow:
    client = OpenAIChatClient(model="gpt-4.1")
    route = client.as_agent(name="route", instructions="You route.")
    payer = client.as_agent(name="payer", instructions="You pay.", tools=[pay])
    return HandoffBuilder(name="bills", participants=[route, payer]).with_checkpointing(storage).build()


async def main() -> None:
    PAID.clear()
    with tempfile.TemporaryDirectory() as folder:
        storage = FileCheckpointStorage(folder)
        first = await workflow_in(storage).run("Please pay bill B-1")
        (request,) = first.get_request_info_events()
        print("waiting for:", request.data.function_call.name)
        await storage.close()  # the process ends here

        storage = FileCheckpointStorage(folder)
        latest = await storage.get_latest(workflow_name="bills")
        assert latest is not None
        workflow = workflow_in(storage)
        restored = await workflow.run(checkpoint_id=latest.checkpoint_id)
        (again,) = restored.get_request_info_events()
        print("newest:", "the same as before" if again.request_id == request.request_id else "another request")
        result = await workflow.run(responses={again.request_id: again.data.to_function_approval_response(True)})
        for response in result.get_outputs():
            print(f"{response.messages[0].author_name}: {response.text}")
        print(len(PAID), "payment")
        await storage.close()
