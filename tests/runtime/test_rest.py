"""Contract 15, as the driver keeps it: where it comes to rest is known, and where it fails or is stopped is not taken for rest."""

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
    made: MemoryStore | SQLiteStore | PostgresStore
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = SQLiteStore(tmp_path / "s.db")
    else:
        dsn, tenant = request.getfixturevalue("tenant")
        made = PostgresStore(dsn, tenant=tenant)
    async with made:
        yield made


def desk(*replies: Any, tools: Any = ()) -> Workflow:
    return HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(list(replies)), tools=list(tools))]).build()


async def unrested(store: Store) -> list[str]:
    return [info.ledger for info in await store.unrested()]


async def test_a_session_that_waits_rests_until_somebody_says_something(store: Store) -> None:
    workflow = desk("Hello!", "Good bye!")
    session = workflow.session("s", store=store)
    await session.run("Hi")
    assert await unrested(store) == []
    await store.append("s", 3, [MessageReceived(at=1, content="Bye")])  # as another process does that drives nothing
    assert await unrested(store) == ["s"]
    await workflow.session("s", store=store).resume()
    assert await unrested(store) == []


async def test_a_session_that_asks_somebody_rests_until_the_answer(store: Store) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    workflow = desk(call("pay"), "Done.", tools=[pay])
    session = workflow.session("s", store=store)
    result = await session.run("Pay")
    assert result.status == "pending"
    assert await unrested(store) == []
    await session.approve(session.pending[0])
    assert await unrested(store) == ["s"]
    await session.resume()
    assert await unrested(store) == []


async def test_a_model_that_failed_for_good_rests_for_asking_it_again_is_somebodys_decision(store: Store) -> None:
    session = desk(ModelFailed("no"), "Hello!").session("s", store=store)
    assert (await session.run("Hi")).status == "failed"
    assert await unrested(store) == []


async def test_what_user_code_raises_is_no_rest(store: Store) -> None:
    def broken(context: Any) -> str:
        raise ValueError("instructions that cannot be made")

    workflow = HandoffBuilder("desk", [Agent("clerk", broken, ScriptedModel(["Hello!"]))]).build()
    with pytest.raises(ValueError, match="cannot be made"):
        await workflow.session("s", store=store).run("Hi")
    assert await unrested(store) == ["s"]


async def test_a_drive_that_is_cancelled_or_left_is_no_rest(store: Store) -> None:
    started = asyncio.Event()

    @tool(idempotent=True)
    async def dig() -> str:
        started.set()
        await asyncio.sleep(60)
        return "dug"

    driving = asyncio.ensure_future(desk(call("dig"), tools=[dig]).session("s", store=store).run("Dig"))
    await started.wait()
    assert await unrested(store) == [], "it is driven"
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert await unrested(store) == ["s"]

    @tool
    async def look() -> str:
        await asyncio.sleep(0.05)
        return "seen"

    async for event in desk(call("look"), "I saw it.", tools=[look]).session("t", store=store).run("Look", stream=True):
        if event.type == "tool_started":
            break  # what runs is finished, and no model is asked about it
    while (lease := await store.lease("t")) is None:  # noqa: ASYNC110 - nobody is told of it
        await asyncio.sleep(0.01)
    await store.release(lease)
    assert await unrested(store) == ["s", "t"]
