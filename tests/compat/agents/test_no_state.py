"""The facade holds no state of its own: all that it knows comes from the ledger."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from legato.compat.agents import Runner, RunState, SQLiteSession, set_default_store
from legato.core.facts import AnyFact
from legato.emulator import serve
from legato.stores import MemoryStore, SQLiteStore
from tests.compat.agents.conftest import Provider
from tests.compat.agents.desk import Shop, desk, fake_model, read, write

ROOT = Path(__file__).parents[3]
SAID = ["I want my money back for A-1 and B-2.", "Thank you!"]
VARIES = {"at", "took", "ledger", "request_id", "origin"}  # times, names that are fresh, and the address of the emulator


def describe_facts(facts: list[AnyFact]) -> list[Any]:
    return [{name: value for name, value in msgspec.to_builtins(fact).items() if name not in VARIES} for fact in facts]


async def run_with_kept_objects(path: Path, stream: bool) -> None:
    """One set of objects from beginning to end."""
    agent, session, context = desk(), SQLiteSession("customer", path), Shop("Ladle & Co")
    result: Any = await run(agent, SAID[0], stream, context=context, session=session)
    state = result.to_state()
    for interruption in result.interruptions:
        state.approve(interruption)
    result = await run(agent, state, stream, session=session)
    assert result.final_output == "So: Ladle & Co refunded 50 for B-2"
    result = await run(agent, SAID[1], stream, context=context, session=session)
    assert result.last_agent is agent.handoffs[0]
    session.close()


async def run_with_new_objects(path: Path, stream: bool) -> None:
    """After every step every object of the facade is thrown away: what is kept is a file and a string."""

    async def said() -> str:
        session = SQLiteSession("customer", path)
        result: Any = await run(desk(), SAID[0], stream, context=Shop("Ladle & Co"), session=session)
        text: str = result.to_state().to_string(context_serializer=write, strict_context=True)
        session.close()
        return text

    async def decided(text: str) -> str:
        store = SQLiteStore(path)
        state = await RunState.from_string(desk(), text, context_deserializer=read, strict_context=True, store=store)
        (interruption,) = state.get_interruptions()
        state.approve(interruption)
        text = state.to_string(context_serializer=write)
        await store.close()
        return text

    async def resumed(text: str) -> None:
        store = SQLiteStore(path)
        state = await RunState.from_string(desk(), text, context_deserializer=read, strict_context=True, store=store)
        assert state.get_interruptions() == []
        result = await run(desk(), state, stream)
        assert result.final_output == "So: Ladle & Co refunded 50 for B-2"
        await store.close()

    async def thanked() -> None:
        session = SQLiteSession("customer", path)
        await run(desk(), SAID[1], stream, context=Shop("Ladle & Co"), session=session)
        session.close()

    def forget() -> None:
        set_default_store(MemoryStore())
        gc.collect()

    text = await said()
    forget()
    text = await decided(text)
    forget()
    await resumed(text)
    forget()
    await thanked()


async def run(agent: Any, input: Any, stream: bool, **options: Any) -> Any:
    if not stream:
        return await Runner.run(agent, input, **options)
    result = Runner.run_streamed(agent, input, **options)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("stream", [False, True])
async def test_discarding_objects_after_every_step_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    """Objects that are thrown away after every step write the same ledger."""
    ledgers, bodies = [], []
    for way in (run_with_kept_objects, run_with_new_objects):
        with serve(fake_model=fake_model, clock=lambda: 1_800_000_000.0) as emulator:  # ids are made of the time
            monkeypatch.setenv("OPENAI_API_KEY", "any")
            monkeypatch.setenv("OPENAI_BASE_URL", emulator.openai_url)
            path = tmp_path / f"{way.__name__}.db"
            await way(path, stream)
            assert all(each.status == 200 for each in emulator.exchanges)
            bodies.append([each.request_body for each in emulator.exchanges if each.is_model_request])
        async with SQLiteStore(path) as store:
            ledgers.append(describe_facts(list(await store.read("customer"))))
    assert ledgers[0] == ledgers[1]
    assert bodies[0] == bodies[1]
    assert len(bodies[0]) == 5  # triage, the batch, its end; and thanks, by way of triage


@pytest.mark.parametrize(("verdict", "outcome"), [("approve", "Ladle & Co refunded 900 for A-1"), ("reject", "Not today.")])
async def test_another_process_with_other_agents_goes_on_exactly(provider: Provider, verdict: str, outcome: str) -> None:
    emulator = provider(fake_model)
    result = await Runner.run(desk(), SAID[0], context=Shop("Ladle & Co"))
    text = result.to_state().to_string(context_serializer=write, strict_context=True)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.compat.agents.desk", verdict,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    out, _ = await child.communicate(text.encode())
    assert child.returncode == 0
    assert out.decode().strip() == "So: Ladle & Co refunded 50 for B-2"
    *_, batch, resumed = [each for each in emulator.exchanges if each.is_model_request]
    assert resumed.request_body["previous_response_id"] == (batch.reply_body or {})["id"]
    outputs = [item["output"] for item in resumed.request_body["input"]]
    assert len(outputs) == 3
    assert outcome in outputs[0]
    assert outputs[1:] == ["A-1 of Ladle & Co: a teapot", "Ladle & Co refunded 50 for B-2"]


async def test_state_loaded_elsewhere_continues_in_its_file(provider: Provider, tmp_path: Path) -> None:
    """A state that is loaded elsewhere continues in its session's own file."""
    provider(fake_model)
    session = SQLiteSession("customer", tmp_path / "desk.db")
    result = await Runner.run(desk(), SAID[0], context=Shop("Ladle & Co"), session=session)
    text = result.to_state().to_string(context_serializer=write)
    set_default_store(MemoryStore())  # as in another process
    state = await RunState.from_string(desk(), text, context_deserializer=read)
    for interruption in state.get_interruptions():
        state.approve(interruption)
    await Runner.run(desk(), state, session=session)
    said = [item for item in await session.get_items() if item.get("role") == "user"]
    assert [item["content"] for item in said] == SAID[:1]
    final = await Runner.run(desk(), SAID[1], context=Shop("Ladle & Co"), session=session)
    assert final.final_output == "You are welcome."
    session.close()
