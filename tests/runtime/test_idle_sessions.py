"""Idle sessions (store contract 15): drivers mark them, and a drive that fails or is stopped marks nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.core.facts import MessageReceived
from legato.errors import ModelFailed
from legato.stores import MemoryStore, PostgresStore, SQLiteStore, Store
from legato.testing import ScriptedModel, call


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: MemoryStore | SQLiteStore | PostgresStore
    if request.param == "memory":
        opened = MemoryStore()
    elif request.param == "sqlite":
        opened = SQLiteStore(tmp_path / "s.db")
    else:
        dsn, tenant = request.getfixturevalue("tenant")
        opened = PostgresStore(dsn, tenant=tenant)
    async with opened:
        yield opened


def desk(*replies: Any, tools: Any = ()) -> Workflow:
    return HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(list(replies)), tools=list(tools))]).build()


async def list_runnable(store: Store) -> list[str]:
    return [info.ledger for info in await store.list_runnable()]


async def test_waiting_session_is_idle_until_next_message(store: Store) -> None:
    workflow = desk("Hello!", "Good bye!")
    session = workflow.session("s", store=store)
    await session.run("Hi")
    assert await list_runnable(store) == []
    await store.append("s", 3, [MessageReceived(at=1, content="Bye")])  # like a process that does not drive
    assert await list_runnable(store) == ["s"]
    await workflow.session("s", store=store).resume()
    assert await list_runnable(store) == []


async def test_pending_session_is_idle_until_decision(store: Store) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    workflow = desk(call("pay"), "Done.", tools=[pay])
    session = workflow.session("s", store=store)
    result = await session.run("Pay")
    assert result.status == "pending"
    assert await list_runnable(store) == []
    await session.approve(session.pending[0])
    assert await list_runnable(store) == ["s"]
    await session.resume()
    assert await list_runnable(store) == []


async def test_finally_failed_session_is_idle(store: Store) -> None:
    """To request the model again is a person's or an engine's decision."""
    session = desk(ModelFailed("no"), "Hello!").session("s", store=store)
    assert (await session.run("Hi")).status == "failed"
    assert await list_runnable(store) == []


async def test_error_of_user_code_leaves_session_runnable(store: Store) -> None:
    def broken(context: Any) -> str:
        raise ValueError("instructions that cannot be made")

    workflow = HandoffBuilder("desk", [Agent("clerk", broken, ScriptedModel(["Hello!"]))]).build()
    with pytest.raises(ValueError, match="cannot be made"):
        await workflow.session("s", store=store).run("Hi")
    assert await list_runnable(store) == ["s"]


async def test_cancelled_or_drained_drive_leaves_session_runnable(store: Store) -> None:
    started = asyncio.Event()

    @tool(idempotent=True)
    async def dig() -> str:
        started.set()
        await asyncio.sleep(60)
        return "dug"

    driving = asyncio.ensure_future(desk(call("dig"), tools=[dig]).session("s", store=store).run("Dig"))
    await started.wait()
    assert await list_runnable(store) == [], "it is driven"
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert await list_runnable(store) == ["s"]

    @tool
    async def look() -> str:
        await asyncio.sleep(0.05)
        return "seen"

    async for event in desk(call("look"), "I saw it.", tools=[look]).session("t", store=store).run("Look", stream=True):
        if event.type == "tool_started":
            break  # the tool in progress is finished, and no model is requested
    while (lease := await store.lease("t")) is None:  # noqa: ASYNC110 - leases have no notifications
        await asyncio.sleep(0.01)
    await store.release(lease)
    assert await list_runnable(store) == ["s", "t"]
