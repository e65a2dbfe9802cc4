"""The facade holds no state of its own: everything that it knows comes from the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from legato.compat.agent_framework import Agent, Content, FileCheckpointStorage, OpenAIResponsesClient, WorkflowEvent, WorkflowRunResult
from legato.emulator import serve
from tests.compat.agent_framework.desk import desk, fake_model

# Of each run, its own: times, names, and what the provider called things.
NOT_COMPARED = {"at", "took", "ledger", "epoch", "response_id", "request_id", "call_id", "item_id", "encrypted", "held", "origin", "usage"}


def answer_to(event: WorkflowEvent, step: int) -> Any:
    """Return a person's answer: the first payment is approved, the second is not; then there are other wishes, then none."""
    if isinstance(event.data, Content):
        return event.data.to_function_approval_response(step == 1)
    return {2: "Pay me 9", 4: "Bye"}[step]


async def play(folder: Path, stream: bool, thrown_away: bool) -> list[Any]:
    """A whole conversation. With `thrown_away`, storage, agents and workflow are made anew before each step, from the folder alone."""
    storage = FileCheckpointStorage(folder)
    workflow = desk(storage)
    result: WorkflowRunResult = await _collect_result(workflow.run("Pay me 5", stream=stream), stream)
    for step in range(1, 5):
        if thrown_away:
            await storage.close()
            del workflow, result
            storage = FileCheckpointStorage(folder)
            workflow = desk(storage)
            latest = await storage.get_latest(workflow_name="desk")
            assert latest is not None
            result = await workflow.run(checkpoint_id=latest.checkpoint_id)
        (asked,) = result.get_request_info_events()
        result = await _collect_result(workflow.run(responses={asked.request_id: answer_to(asked, step)}, stream=stream), stream)
    assert result.get_request_info_events() == []
    assert [message.text for message in result.get_outputs()[-1]][-2:] == ["Bye", "Goodbye!"]
    (ledger,) = await storage.store.list()
    facts = [drop_uncompared_fields(to_builtins(fact)) for fact in await storage.store.read(ledger.ledger)]
    await storage.close()
    return facts


async def _collect_result(run: Any, stream: bool) -> WorkflowRunResult:
    result: WorkflowRunResult = await (run.get_final_response() if stream else run)
    return result


def drop_uncompared_fields(fact: Any) -> Any:
    if isinstance(fact, dict):
        return {name: drop_uncompared_fields(value) for name, value in fact.items() if name not in NOT_COMPARED}
    return [drop_uncompared_fields(each) for each in fact] if isinstance(fact, (list, tuple)) else fact


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streaming"])
async def test_rebuilding_after_every_step_keeps_the_ledger(stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that are thrown away and made anew after every step write the same ledger."""
    ledgers = []
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    for thrown_away in (False, True):
        with serve(fake_model=fake_model) as emulator:
            monkeypatch.setenv("OPENAI_BASE_URL", emulator.openai_url)
            ledgers.append(await play(tmp_path / str(thrown_away), stream, thrown_away))
            assert [exchange for exchange in emulator.exchanges if exchange.status != 200] == []
    kept, anew = ledgers
    assert anew == kept
    assert [fact["fact"] for fact in kept].count("message_received") == 3
    assert [(fact["verdict"]) for fact in kept if fact["fact"] == "decided"] == ["approve", "reject"]


@pytest.mark.usefixtures("emulator")
async def test_workflow_holds_only_definition_storage_and_name(tmp_path: Path) -> None:
    storage = FileCheckpointStorage(tmp_path)
    workflow = desk(storage)
    before = dict(vars(workflow))
    assert set(before) == {"native", "storage", "session_id"}
    await workflow.run("Pay me 5")
    assert vars(workflow) == before
    assert set(vars(storage)) == {"store"}
    await storage.close()


@pytest.mark.usefixtures("emulator")
async def test_an_agent_remembers_its_definition_and_a_store() -> None:
    agent = Agent(client=OpenAIResponsesClient(model="gpt-5.1"), instructions="You greet.", name="greeter")
    before = dict(vars(agent))
    session = agent.create_session()
    await agent.run("Bye", session=session)
    assert vars(agent) == before
    assert set(vars(session)) == {"session_id"}
    await agent.run("Bye")
    assert [info.ledger for info in await agent.store.list()] == [session.session_id]  # a run without a session leaves nothing
