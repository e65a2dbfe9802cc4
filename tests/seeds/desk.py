"""The desk of the stories 002 and 003: two agents, a tool, checkpoints; what its emulated model says, and how another process goes on.

As a program (`python -m tests.seeds.desk FOLDER CHECKPOINT MESSAGE`) it restores a checkpoint, says something and prints where that led.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from legato.compat.agent_framework import (
    Agent,
    CheckpointStorage,
    ContextProvider,
    FileCheckpointStorage,
    HandoffAgentUserRequest,
    HandoffBuilder,
    OpenAIChatClient,
    Workflow,
    tool,
)
from legato.emulator.minds import Prompt, Use, Words


class NoHistoryProvider(ContextProvider):
    """The workaround of 002, as its author wrote it."""

    def __init__(self) -> None:
        super().__init__("no_history_provider")

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:
        pass


@tool
def balance(account: str) -> str:
    """Look up the balance of an account."""
    return f"Account {account} has 100 euros."


def desk(storage: CheckpointStorage, providers: Sequence[ContextProvider] | None = None) -> Workflow:
    """One agent has no context providers, which is the default that 002 is about; the other has those that are given."""
    client = OpenAIChatClient(model="gpt-5.1")
    front = Agent(client=client, instructions="You are the front desk.", name="front")
    teller = Agent(client=client, instructions="You are the teller.", name="teller", tools=[balance], context_providers=providers)
    return (
        HandoffBuilder(name="bank", participants=[front, teller])
        .with_start_agent(front)
        .add_handoff(front, [teller])
        .add_handoff(teller, [front])
        .with_checkpointing(storage)
        .build()
    )


def bank(prompt: Prompt) -> list[Any]:
    """The front desk hands over; the teller looks the balance up once for each question, and answers."""
    if prompt.instructions.startswith("You are the front desk"):
        return [Use("handoff_to_teller", "{}")]
    if prompt.heard[-1].who == "tool" and prompt.heard[-1].tool == "balance":
        return [Words(f"Answer to {prompt.said!r}.")]
    return [Use("balance", '{"account": "7"}')]


async def go_on(folder: str, checkpoint: str, message: str) -> dict[str, Any]:
    """Restore a checkpoint in an object that is new, and answer what is asked there."""
    storage = FileCheckpointStorage(folder)
    workflow = desk(storage)
    restored = await workflow.run(checkpoint_id=checkpoint)
    (asked,) = restored.get_request_info_events()
    assert isinstance(asked.data, HandoffAgentUserRequest)
    result = await workflow.run(responses={asked.request_id: HandoffAgentUserRequest.create_response(message)})
    (again,) = result.get_request_info_events()
    session = await workflow.session().refresh()
    told = {
        "checkpoint": await workflow.get_last_checkpoint_id(),
        "session": workflow.session_id,
        "asked": asked.data.agent_response.text,
        "answer": again.data.agent_response.text,
        "messages": [each.text for each in session.messages],
    }
    await storage.close()
    return told


if __name__ == "__main__":
    print(json.dumps(asyncio.run(go_on(*sys.argv[1:4]))))
