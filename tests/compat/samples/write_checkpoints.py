"""Writes checkpoints with Microsoft Agent Framework, 1.0 or newer. It runs in an environment of its own: see README.md.

python write_checkpoints.py FOLDER [approval]
"""

import asyncio
import inspect
import sys

from agent_framework import Agent, FileCheckpointStorage, tool
from agent_framework.openai import OpenAIChatCompletionClient
from agent_framework.orchestrations import HandoffAgentUserRequest, HandoffBuilder

MESSAGES = ["What is my balance?", "And the balance of my savings?", "Which of the two is larger?"]
GATED = sys.argv[2:] == ["approval"]
# Releases since the summer of 2026 want this, older ones do not know it.
PERSISTENCE = "require_per_service_call_history_persistence"
MORE = {PERSISTENCE: True} if PERSISTENCE in inspect.signature(Agent.__init__).parameters else {}


@tool(approval_mode="always_require" if GATED else "never_require")
def look_up_account(question: str) -> str:
    """Look up an account of the customer."""
    return f"balance 17 ({question})"


async def main():
    client = OpenAIChatCompletionClient(model="gpt-4.1")
    coordinator = Agent(client=client, name="coordinator", instructions="Route the customer to the specialist.", **MORE)
    specialist = Agent(client=client, name="specialist", instructions="You answer about accounts.", tools=[look_up_account], **MORE)
    workflow = (
        HandoffBuilder(name="bank", participants=[coordinator, specialist], checkpoint_storage=FileCheckpointStorage(sys.argv[1]))
        .with_start_agent(coordinator)
        .add_handoff(coordinator, [specialist])
        .add_handoff(specialist, [coordinator])
        .build()
    )
    pending = {}
    for message in MESSAGES[:1] if GATED else MESSAGES:
        if pending:
            events = workflow.run(stream=True, responses={id: HandoffAgentUserRequest.create_response(message) for id in pending})
        else:
            events = workflow.run(message, stream=True)
        pending = {}
        async for event in events:
            if event.type == "request_info" and isinstance(event.data, HandoffAgentUserRequest):
                pending[event.request_id] = event.data


asyncio.run(main())
