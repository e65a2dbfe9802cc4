"""Seed 002's steps as a program: two agents with empty `context_providers`, `CheckpointStorage`, three user messages.

The document gives steps and no program. It runs in an environment that has no Legato; the key and the address come from the environment.
With a folder as argument, checkpoints are kept there.
"""

import asyncio
import sys

from agent_framework import Agent, FileCheckpointStorage, InMemoryCheckpointStorage, tool
from agent_framework.openai import OpenAIChatCompletionClient
from agent_framework.orchestrations import HandoffAgentUserRequest, HandoffBuilder

MESSAGES = ["What is my balance?", "And the balance of my savings?", "Which of the two is larger?"]


@tool(approval_mode="never_require")
def look_up_account(question: str) -> str:
    """Look up an account of the customer."""
    return f"balance 17 ({question})"


async def main():
    client = OpenAIChatCompletionClient(model="gpt-4.1")
    coordinator = Agent(client=client, name="coordinator", instructions="Route the customer to the specialist.")
    specialist = Agent(client=client, name="specialist", instructions="You answer about accounts.", tools=[look_up_account])
    storage = FileCheckpointStorage(sys.argv[1]) if sys.argv[1:] else InMemoryCheckpointStorage()
    workflow = (
        HandoffBuilder(name="bank", participants=[coordinator, specialist], checkpoint_storage=storage)
        .with_start_agent(coordinator)
        .add_handoff(coordinator, [specialist])
        .add_handoff(specialist, [coordinator])
        .build()
    )
    pending = {}
    for message in MESSAGES:
        if pending:
            events = workflow.run(stream=True, responses={id: HandoffAgentUserRequest.create_response(message) for id in pending})
        else:
            events = workflow.run(message, stream=True)
        pending = {}
        async for event in events:
            if event.type == "request_info" and isinstance(event.data, HandoffAgentUserRequest):
                pending[event.request_id] = event.data
        print(f"{message} -> {len(pending)} request")


asyncio.run(main())
