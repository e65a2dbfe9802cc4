"""Epochs in facts from other stores: they concern their session alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.core.facts import MAX_COUNT, AnyFact, CallStarted
from legato.core.messages import find_content_digests
from legato.errors import CodecError, StoreError
from legato.stores import MemoryStore, PostgresStore, SQLiteStore, Store, copy
from legato.testing import ScriptedModel, call


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with AsyncExitStack() as stack:
        opened: Store
        if request.param == "postgres":
            opened = PostgresStore(request.getfixturevalue("database"))
        else:
            opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "store.db", "process")
        stack.push_async_callback(opened.close)
        yield opened


def desk() -> Workflow:
    @tool
    async def look_up(name: str) -> str:
        """Look somebody up."""
        return f"{name} is known"

    def reply(seen: object) -> object:
        last = seen.messages[-1]  # type: ignore[attr-defined]
        return call("look_up", name=last.text) if last.role == "user" else "Done."

    return HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply), tools=[look_up])]).build()


async def make_text_with_epoch(epoch: int) -> str:
    """Return a session as text, with a tool that was started in this epoch."""
    session = desk().session("original", store=MemoryStore())
    await session.run("Ann")
    text = await session.to_string()
    row = "[2,0],1,1,"  # of CallStarted: call, attempt, epoch
    assert text.count(row) == 1, text
    return text.replace(row, f"[2,0],1,{epoch},")


def list_start_epochs(facts: list[AnyFact]) -> list[int]:
    return [fact.epoch for fact in facts if isinstance(fact, CallStarted)]


@pytest.mark.parametrize("epoch", [2**53 + 1, 2**63 - 1, -1])
async def test_text_with_impossible_epoch_is_refused(store: Store, epoch: int) -> None:
    with pytest.raises(CodecError, match=r"this is not a session(?s:.*)epoch"):
        desk().load(await make_text_with_epoch(epoch), id="loaded", store=store)
    assert not await store.list()


async def test_loaded_session_restarts_epochs(store: Store) -> None:
    loaded = desk().load(await make_text_with_epoch(MAX_COUNT), id="loaded", store=store)
    assert (await loaded.run("Bob")).text == "Done."
    assert list_start_epochs(loaded.facts) == [MAX_COUNT, 1]


async def test_largest_epoch_stops_its_own_session_alone(store: Store) -> None:
    acme, globex = store.tenant("acme"), store.tenant("globex")
    await desk().session("before", store=globex).run("Ann")
    async with MemoryStore() as elsewhere:
        session = desk().session("s", store=elsewhere)
        await session.run("Ann")
        facts = list(await elsewhere.read("s"))
        forged = [
            CallStarted(at=fact.at, call=fact.call, attempt=1, epoch=MAX_COUNT) if isinstance(fact, CallStarted) else fact for fact in facts
        ]
        async with MemoryStore() as hostile:
            contents = {digest: await elsewhere.content("s", digest) for digest in set().union(*map(find_content_digests, facts))}
            await hostile.append("s", 0, forged, contents=contents, ledger_id=await elsewhere.ledger_id("s"))
            await copy(hostile, acme)
    with pytest.raises(StoreError, match=r"cannot be leased(?s:.*)workflow\.load"):
        await desk().session("s", store=acme).run("Bob")
    again = desk().load(await (await desk().session("s", store=acme).refresh()).to_string(), id="t", store=acme)
    assert list_start_epochs((await again.run("Bob")).session.facts) == [MAX_COUNT, 1]
    for tenant, name in ((acme, "new"), (globex, "before"), (globex, "new"), (store, "new")):
        result = await desk().session(name, store=tenant).run("Eve")
        assert list_start_epochs(result.session.facts)[-1] < 10
    await acme.delete("s")
    result = await desk().session("s", store=acme).run("Ann")
    assert list_start_epochs(result.session.facts) == [1]
