"""Checkpoints: positions of a ledger, and what follows from the facts before them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from legato import ToolContext
from legato.compat import MeansNothingHere
from legato.compat import agent_framework as af
from legato.emulator.server import Emulator
from legato.errors import BadInput, NotPending
from tests.compat.agent_framework.desk import desk

pytestmark = pytest.mark.usefixtures("emulator")


async def test_checkpoints_are_read_only(emulator: Emulator) -> None:
    """Checkpoints are read: they are not saved or deleted one by one."""
    storage = af.InMemoryCheckpointStorage()
    agents = [af.OpenAIResponsesClient("gpt-5.1").as_agent(name=name, instructions=f"You {name}.") for name in ("greet", "help")]
    workflow = af.HandoffBuilder(name="two", participants=agents).with_checkpointing(storage).build()
    assert await storage.get_latest(workflow_name="two") is None
    await workflow.run("Bye", session_id="ada")
    await workflow.run("Bye", session_id="bo")
    await workflow.run("Bye", session_id="ada")
    listed = await storage.list_checkpoints(workflow_name="two")
    assert [each.checkpoint_id.partition("@")[0] for each in listed] == ["bo", "ada", "ada"]
    assert listed[-1].previous_checkpoint_id == listed[-2].checkpoint_id
    assert (await storage.load(listed[-1].checkpoint_id)).workflow_name == "two"
    assert await storage.list_checkpoints(workflow_name="another") == []
    with pytest.raises(BadInput, match="cannot be deleted"):
        await storage.delete(listed[0].checkpoint_id)
    with pytest.raises(BadInput, match="not saved here"):
        await storage.save(listed[0])
    with pytest.raises(BadInput, match="no checkpoint"):
        await storage.load("ada@99")


@pytest.mark.parametrize("crafted", ["", "ada", "@1", "ada@", "ada@-1", "ada@1.0", "ada@²", "ada@٣", "ada@" + "9" * 5000, None, 5])
async def test_invented_checkpoint_ids_are_refused(crafted: object) -> None:
    storage = af.InMemoryCheckpointStorage()
    with pytest.raises(BadInput, match="this is no checkpoint"):
        await storage.load(crafted)  # type: ignore[arg-type]
    if crafted is not None:
        with pytest.raises(BadInput, match="this is no checkpoint"):
            await desk(storage).run(checkpoint_id=crafted)


async def test_foreign_checkpoint_files_name_the_import_command(tmp_path: Path) -> None:
    """A warning names the checkpoint files that the framework itself wrote, and the command that imports them."""
    (tmp_path / "55a81472.json").write_text("{}", encoding="utf-8")
    storage = af.FileCheckpointStorage(tmp_path)
    how = rf"legato import {tmp_path}/55a81472.json --store sqlite:{tmp_path}/\S+ --session ID --workflow"
    with pytest.warns(MeansNothingHere, match=f"{how} desk"):
        assert await storage.get_latest(workflow_name="desk") is None
    with pytest.raises(BadInput, match=how):
        await storage.load("55a81472")
    with pytest.raises(BadInput, match="legato import"):
        await desk(storage).run(checkpoint_id="55a81472")
    await desk(storage).run("Pay me 5")
    assert await storage.get_latest(workflow_name="desk")  # and then nothing is said of them
    await storage.close()


async def test_a_checkpoint_tells_what_was_pending_there(tmp_path: Path) -> None:
    storage = af.FileCheckpointStorage(tmp_path)
    assert storage.storage_path == tmp_path
    workflow = desk(storage)
    (asked,) = (await workflow.run("Pay me 5")).get_request_info_events()
    await workflow.run(responses={asked.request_id: True})
    approval, turn = await storage.list_checkpoints(workflow_name="desk")

    ((id, event),) = approval.pending_request_info_events.items()
    assert (id, event.data, event.source_executor_id) == (asked.request_id, asked.data, "payer")
    assert event.data.function_call.parse_arguments() == {"amount": 5}
    ((_, event),) = turn.pending_request_info_events.items()
    assert event.data.agent_response.text == "The tool said: paid 5.0."

    assert (approval.workflow_name, approval.previous_checkpoint_id) == ("desk", None)
    assert (turn.checkpoint_id, turn.previous_checkpoint_id) == (await workflow.get_last_checkpoint_id(), approval.checkpoint_id)
    assert datetime.fromisoformat(approval.timestamp) <= datetime.fromisoformat(turn.timestamp)
    assert approval.to_dict()["checkpoint_id"] == approval.checkpoint_id
    assert await storage.load(turn.checkpoint_id) == turn
    await storage.close()


async def test_checkpoint_requests_equal_those_of_its_run() -> None:
    """A checkpoint has the same pending requests as a run that continues from it."""
    storage = af.InMemoryCheckpointStorage()
    workflow = desk(storage)
    (asked,) = (await workflow.run("Pay me 5")).get_request_info_events()
    (turn,) = (await workflow.run(responses={asked.request_id: True})).get_request_info_events()
    (asked,) = (await workflow.run(responses={turn.request_id: "Pay me 6"})).get_request_info_events()
    (turn,) = (await workflow.run(responses={asked.request_id: False})).get_request_info_events()
    await workflow.run(responses={turn.request_id: "Bye"})
    listed = await storage.list_checkpoints(workflow_name="desk")
    kinds = [[type(event.data).__name__ for event in each.pending_request_info_events.values()] for each in listed]
    assert kinds == [["Content"], ["HandoffAgentUserRequest"], ["Content"], ["HandoffAgentUserRequest"], []]
    for checkpoint in listed:
        again = await desk(storage).run(checkpoint_id=checkpoint.checkpoint_id)
        assert {event.request_id for event in again.get_request_info_events()} == checkpoint.pending_request_info_events.keys()


async def test_checkpoint_requests_are_answered_while_restoring() -> None:
    """The requests of a checkpoint can be answered in the run that restores it."""
    storage, paid = af.InMemoryCheckpointStorage(), list[float]()
    await desk(storage).run("Pay me 5")
    checkpoint = await storage.get_latest(workflow_name="desk")
    assert checkpoint is not None
    answers = {id: event.data.to_function_approval_response(True) for id, event in checkpoint.pending_request_info_events.items()}
    await desk(storage, paid).run(checkpoint_id=checkpoint.checkpoint_id, responses=answers)
    assert paid == [5]


async def test_approval_restored_twice_runs_in_two_branches() -> None:
    storage, paid = af.InMemoryCheckpointStorage(), list[float]()
    workflow = desk(storage, paid)
    (asked,) = (await workflow.run("Pay me 5")).get_request_info_events()
    point = await workflow.get_last_checkpoint_id()
    for _ in range(2):
        await desk(storage, paid).run(checkpoint_id=point, responses={asked.request_id: True})
    assert paid == [5, 5]
    assert len(await storage.store.list()) == 2

    # The conversation itself, not a point of it: there the answer counts once.
    with pytest.raises(NotPending, match="answered already"):
        await desk(storage, paid).run(session_id=workflow.session_id, responses={asked.request_id: True})
    assert paid == [5, 5]


async def test_branches_share_a_calls_idempotency_key() -> None:
    keys: list[str] = []

    @af.tool(approval_mode="always_require")
    def pay(amount: float, ctx: ToolContext) -> str:
        """Pay money back."""
        keys.append(ctx.idempotency_key)
        return f"paid {amount}"

    storage = af.InMemoryCheckpointStorage()
    client = af.OpenAIResponsesClient("gpt-5.1")
    payer, other = client.as_agent(name="payer", instructions="You pay.", tools=[pay]), client.as_agent(name="other")
    workflow = af.HandoffBuilder(name="desk", participants=[payer, other]).with_checkpointing(storage).build()
    (asked,) = (await workflow.run("Pay me 5")).get_request_info_events()
    point = await workflow.get_last_checkpoint_id()
    for _ in range(2):
        await workflow.run(checkpoint_id=point, responses={asked.request_id: True})
    assert len(keys) == 2
    assert len(set(keys)) == 1
