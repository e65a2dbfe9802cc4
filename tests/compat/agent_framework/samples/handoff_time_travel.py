"""An older checkpoint is a place to begin again: the conversation that went on from there stays as it is.

checkpoints: 3
here: tea, green tea, with milk
there: tea, black tea
here, still: tea, green tea, with milk
"""

from legato.compat.agent_framework import InMemoryCheckpointStorage, OpenAIChatClient, Workflow
from legato.compat.agent_framework.orchestrations import HandoffBuilder

SCRIPT = ["Anything else?", "Anything else?", "Anything else?"]


def shop(storage: InMemoryCheckpointStorage) -> Workflow:
    client = OpenAIChatClient(model="gpt-4.1")
    agents = [client.as_agent(name=name, instructions=f"You are the {name}.") for name in ("waiter", "cook")]
    return HandoffBuilder(name="shop", participants=agents, checkpoint_storage=storage).build()


async def ordered(workflow: Workflow) -> str:
    session = await workflow.session().refresh()
    return ", ".join(message.text for message in session.messages if message.role == "user")


async def main() -> None:
    storage = InMemoryCheckpointStorage()
    here = shop(storage)
    await here.run("tea")
    await here.run("green tea")
    await here.run("with milk")
    checkpoints = await storage.list_checkpoints(workflow_name="shop")
    print("checkpoints:", len(checkpoints))
    there = shop(storage)
    restored = await there.run(checkpoint_id=checkpoints[0].checkpoint_id)
    (request,) = restored.get_request_info_events()
    print("here:", await ordered(here))
    await there.run(responses={request.request_id: "black tea"})
    print("there:", await ordered(there))
    print("here, still:", await ordered(here))
