"""One agent whose tool needs a person's consent, in a session: streaming, then awaited.

wants delete {'path': 'old.txt'}
It is deleted.
wants delete {'path': 'new.txt'}
I leave it.
deleted: ['old.txt']
"""

from legato.compat.agent_framework import Agent, Message, OpenAIResponsesClient, tool
from legato.emulator.fake_models import ScriptedCall, ScriptRule

SCRIPT = [
    ScriptRule(after_tool="delete", output="is gone", say="It is deleted."),
    ScriptRule(after_tool="delete", say="I leave it."),
    ScriptRule(said="old", say=ScriptedCall("delete", {"path": "old.txt"})),
    ScriptRule(said="new", say=ScriptedCall("delete", {"path": "new.txt"})),
]
DELETED: list[str] = []


@tool(approval_mode="always_require")
async def delete(path: str) -> str:
    """Delete a file."""
    DELETED.append(path)
    return f"{path} is gone"


async def main() -> None:
    DELETED.clear()
    agent = Agent(client=OpenAIResponsesClient(model="gpt-5.1"), instructions="You tidy up.", name="tidy", tools=delete)
    session = agent.create_session()
    for request, approved in (("Delete the old file", True), ("Delete the new file", False)):
        asked = []
        async for update in agent.run(request, stream=True, session=session):
            asked += update.user_input_requests
        for each in asked:
            print("wants", each.function_call.name, each.function_call.parse_arguments())
            response = await agent.run(Message("user", [each.to_function_approval_response(approved)]), session=session)
            print(response.text)
    print("deleted:", DELETED)
