"""The desk of seeds 002 and 003: two agents, a tool and checkpoints, its fake model, and a program that restores a checkpoint.

`python -m tests.seeds.desk FOLDER CHECKPOINT MESSAGE` restores a checkpoint, sends a message and prints the result.
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
from legato.emulator.fake_models import ModelPrompt, ReplyCall, ReplyText


class NoHistoryProvider(ContextProvider):
    """The workaround of seed 002, as its author wrote it."""

    def __init__(self) -> None:
        super().__init__("no_history_provider")

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:
        pass


@tool
def balance(account: str) -> str:
    """Look up the balance of an account."""
    return f"Account {account} has 100 euros."


def build_desk(storage: CheckpointStorage, providers: Sequence[ContextProvider] | None = None) -> Workflow:
    """Return a workflow of two agents: one without context providers, the default in seed 002, and one with these."""
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


def reply_as_bank(prompt: ModelPrompt) -> list[Any]:
    """Reply as the front desk, which hands over, or as the teller, which looks the balance up once for each question."""
    if prompt.instructions.startswith("You are the front desk"):
        return [ReplyCall("handoff_to_teller", "{}")]
    if prompt.messages[-1].role == "tool" and prompt.messages[-1].tool == "balance":
        return [ReplyText(f"Answer to {prompt.last_user_text!r}.")]
    return [ReplyCall("balance", '{"account": "7"}')]


async def continue_from_checkpoint(folder: str, checkpoint: str, message: str) -> dict[str, Any]:
    """Restore a checkpoint in a new workflow object, and answer its pending request."""
    storage = FileCheckpointStorage(folder)
    workflow = build_desk(storage)
    restored = await workflow.run(checkpoint_id=checkpoint)
    (request,) = restored.get_request_info_events()
    assert isinstance(request.data, HandoffAgentUserRequest)
    result = await workflow.run(responses={request.request_id: HandoffAgentUserRequest.create_response(message)})
    (again,) = result.get_request_info_events()
    session = await workflow.session().refresh()
    summary = {
        "checkpoint": await workflow.get_last_checkpoint_id(),
        "session": workflow.session_id,
        "pending": request.data.agent_response.text,
        "answer": again.data.agent_response.text,
        "messages": [each.text for each in session.messages],
    }
    await storage.close()
    return summary


if __name__ == "__main__":
    print(json.dumps(asyncio.run(continue_from_checkpoint(*sys.argv[1:4]))))
