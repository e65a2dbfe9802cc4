"""An agent as a tool whose own tools wait for people: what it asks is among the interruptions of the run that called it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.compat.agents import Agent, RunContextWrapper, Runner, RunState, function_tool, set_default_store
from legato.emulator.fake_models import ModelPrompt, ReplyCall
from legato.errors import NotPending
from legato.stores import MemoryStore
from tests.compat.agents.conftest import Provider
from tests.compat.agents.desk import Shop, read, write


def office(paid: list[str]) -> Agent[Shop]:
    @function_tool(needs_approval=True)
    async def pay(ctx: RunContextWrapper[Shop], to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        return f"{ctx.context.name} paid {to}"

    payer = Agent[Shop](name="Payer", instructions="Pay.", model="gpt-5.1", tools=[pay])
    return Agent[Shop](name="Boss", instructions="Delegate.", model="gpt-5.1", tools=[payer.as_tool("ask_payer", "Pays people.")])


def fake_office_model(prompt: ModelPrompt) -> Any:
    last = prompt.messages[-1]
    if prompt.instructions == "Delegate.":
        return f"The payer says: {last.text}" if last.role == "tool" else ReplyCall("ask_payer", json.dumps({"input": "Pay ann and bob"}))
    if last.role == "tool":
        return " and ".join(heard.text for heard in prompt.messages if heard.role == "tool")
    return [ReplyCall("pay", json.dumps({"to": name})) for name in ("ann", "bob")]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_nested_approval_interrupts_the_outer_run(provider: Provider, streamed: bool) -> None:
    """A request of an agent as a tool interrupts the outer run, and is decided on that run's state."""
    provider(fake_office_model)
    paid: list[str] = []
    result: Any
    if streamed:
        result = Runner.run_streamed(office(paid), "Go", context=Shop("Ladle"))
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(office(paid), "Go", context=Shop("Ladle"))
    assert result.final_output is None
    ann, bob = result.interruptions
    assert [(item.name, item.agent.name, json.loads(item.arguments)["to"]) for item in (ann, bob)] == [
        ("pay", "Payer", "ann"),
        ("pay", "Payer", "bob"),
    ]
    assert ann.raw_item.call_id
    state = result.to_state()
    state.approve(ann)
    state.reject(bob, rejection_message="Not Bob.")
    with pytest.raises(NotPending):
        state.approve(bob)
    result = await Runner.run(office(paid), state)
    assert result.interruptions == []
    assert result.final_output.startswith("The payer says: Ladle paid ann and Not run: a person declined this call. Not Bob.")
    assert paid == ["ann"]


async def test_nested_request_survives_serialization(provider: Provider) -> None:
    """A request of an agent as a tool is still pending after the state is loaded in another process."""
    provider(fake_office_model)
    paid: list[str] = []
    text = (await Runner.run(office(paid), "Go", context=Shop("Ladle"))).to_state().to_string(context_serializer=write)
    set_default_store(MemoryStore())  # as it is in another process
    state = await RunState.from_string(office(paid), text, context_deserializer=read)
    for item in state.get_interruptions():
        state.approve(item)
    result = await Runner.run(office(paid), state)
    assert result.final_output == "The payer says: Ladle paid ann and Ladle paid bob"
    assert paid == ["ann", "bob"]
