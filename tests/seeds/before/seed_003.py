"""Seed 003's steps as a program: a handoff workflow with checkpointing, restored, and the conversation goes on.

The document's fragments name `workflow.run_stream(..., session_id=)` and `workflow.send_response`, which no release had; the restored
run is written as this release takes it: `run_stream(checkpoint_id=...)`, then `send_responses_streaming`. It runs in an environment
without Legato. With a folder as argument, checkpoints are kept there.
"""

import asyncio
import sys

from agent_framework import FileCheckpointStorage, HandoffBuilder, InMemoryCheckpointStorage, RequestInfoEvent, ai_function
from agent_framework.openai import OpenAIChatClient

MESSAGES = ["What is my balance?", "And the balance of my savings?", "Which of the two is larger?"]


@ai_function
def look_up_account(question: str) -> str:
    """Look up an account of the customer."""
    return f"balance 17 ({question})"


def build(storage):
    client = OpenAIChatClient(model_id="gpt-4.1")
    coordinator = client.create_agent(name="coordinator", instructions="Route the customer to the specialist.")
    specialist = client.create_agent(name="specialist", instructions="You answer about accounts.", tools=[look_up_account])
    return (
        HandoffBuilder(name="bank", participants=[coordinator, specialist])
        .set_coordinator("coordinator")
        .with_checkpointing(storage)
        .build()
    )


async def main():
    storage = FileCheckpointStorage(sys.argv[1]) if sys.argv[1:] else InMemoryCheckpointStorage()
    pending = []
    async for event in build(storage).run_stream(MESSAGES[0]):
        if isinstance(event, RequestInfoEvent):
            pending.append(event)
    for message in MESSAGES[1:]:
        checkpoints = sorted(await storage.list_checkpoints(), key=lambda checkpoint: checkpoint.timestamp)
        print(f"{len(pending)} request, {len(checkpoints)} checkpoints")
        # A new process would build the workflow anew; so does this.
        workflow = build(storage)
        async for event in workflow.run_stream(checkpoint_id=checkpoints[-1].checkpoint_id):
            print(f"restored: {type(event).__name__}")
        events = workflow.send_responses_streaming({event.request_id: message for event in pending})
        pending = []
        async for event in events:
            if isinstance(event, RequestInfoEvent):
                pending.append(event)
    print(f"{len(pending)} request at the end")


asyncio.run(main())
