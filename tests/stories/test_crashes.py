"""Sessions after a process death, and with failing stores (32, 33)."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import CallLost, CallReturned, CallStarted
from legato.errors import DamagedStore, NotPending, StoreError, StoreFull, StoreLocked, StoreReadOnly
from legato.stores import MemoryStore, SQLiteStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call
from legato.testing.story import World
from tests.stories import child_process, conversation_checks
from tests.stories.processes import start_process


class FailOnFactStore:
    """A store that fails to append facts of one kind, as if the process had ended before."""

    def __init__(self, store: Store, kind: type) -> None:
        self._store = store
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        if any(isinstance(fact, self._kind) for fact in facts):
            raise StoreFull("the process is about to end")
        return await self._store.append(ledger, expected, facts, **more)


def build_payer(world: World, idempotent: bool = False) -> Workflow:
    @tool(idempotent=idempotent)
    async def pay(ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, "paid")
        return "paid"

    model = ScriptedModel(by_agent={"payer": [call("pay"), "It is settled."]})
    return HandoffBuilder("pay", [Agent("payer", model=model, tools=[pay])]).build()


async def lose_payment(store: Store, world: World, idempotent: bool = False) -> Any:
    """Return a reopened session whose process ended between the effect of a tool and its record."""
    with pytest.raises(StoreFull):
        await build_payer(world, idempotent).session("s", store=FailOnFactStore(store, CallReturned)).run("Pay")
    assert world.count("paid") == 1
    session = build_payer(world, idempotent).session("s", store=store)
    await session.resume()
    return session


async def test_unrecorded_effect_has_an_unknown_outcome(store: Store) -> None:
    """A process that ended between a tool's effect and its record leaves an unknown outcome."""
    world = World()
    session = await lose_payment(store, world)
    assert world.count("paid") == 1
    assert session.status == "pending"
    (request,) = session.pending
    assert (request.kind, request.tool) == ("outcome", "pay")
    assert "nobody knows how it ended" in request.prompt
    assert any(isinstance(fact, CallLost) for fact in session.facts)


@pytest.mark.parametrize("way", ["rerun", "supply", "fail"])
async def test_unknown_outcome_can_be_decided_in_three_ways(store: Store, stream: bool, way: str) -> None:
    world = World()
    session = await lose_payment(store, world)
    (request,) = session.pending
    if way == "rerun":
        await session.approve(request)
    elif way == "supply":
        await session.answer(request, "paid, says the bank")
    else:
        await session.reject(request, "the bank knows nothing")
    with pytest.raises(NotPending):
        await session.approve(request)
    result = await session.resume(stream=stream)
    assert result.text == "It is settled."
    assert world.count("paid") == (2 if way == "rerun" else 1)
    requests = await conversation_checks.rebuild_requests(session)
    (output,) = conversation_checks.list_outputs(requests[-1])
    assert {"rerun": "paid", "supply": "paid, says the bank", "fail": "the bank knows nothing"}[way] in output


async def test_idempotent_tool_is_rerun_with_the_same_key(store: Store) -> None:
    world = World()
    session = await lose_payment(store, world, idempotent=True)
    assert session.status == "waiting"
    assert world.count("paid") == 2
    assert len({key for key, _ in world.effects}) == 1
    assert [fact.attempt for fact in session.facts if isinstance(fact, CallStarted)] == [1, 2]


async def test_session_continues_after_a_kill_during_a_tool(tmp_path: Path) -> None:
    path, flag = tmp_path / "slow.db", tmp_path / "flag"
    process = await start_process("drive_slowly", path, flag)
    started = flag.with_suffix(".started")
    async with asyncio.timeout(60):
        while not started.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.01)
    process.kill()
    await process.communicate()
    flag.touch()
    async with SQLiteStore(path) as store:
        world = World()
        session = child_process.build_slow_desk(world, flag).session("slow", store=store)
        result = await session.resume()
        assert result.status == "pending"
        (request,) = result.pending
        assert request.kind == "outcome"
        assert world.effects == []
        await session.answer(request, "it was done")
        assert (await session.resume()).text == "I heard 1 messages."
        requests = await conversation_checks.rebuild_requests(session)
        assert conversation_checks.list_outputs(requests[-1]) == ["it was done"]


async def test_restarted_child_session_returns_its_recorded_reply(store: Store) -> None:
    requested: list[str] = []

    def reply(request: Any) -> str:
        requested.append(request.session_id)
        return "Forty-two."

    helper = Agent("helper", model=ScriptedModel(reply))
    model = ScriptedModel(by_agent={"boss": [call("ask_helper", task="What is it?"), "So it is."]})

    def workflow() -> Workflow:
        return HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool()])]).build()

    with pytest.raises(StoreFull):
        await workflow().session("s", store=FailOnFactStore(store, CallReturned)).run("Ask")
    assert len(requested) == 1
    session = workflow().session("s", store=store)
    assert (await session.resume()).text == "So it is."
    assert len(requested) == 1  # the child session was complete
    requests = await conversation_checks.rebuild_requests(session)
    assert conversation_checks.list_outputs(requests[-1]) == ["Forty-two."]


async def test_store_failure_in_a_child_is_no_output(store: Store) -> None:
    helper = Agent("helper", model=ScriptedModel(lambda seen: "Forty-two."))
    model = ScriptedModel(by_agent={"boss": [call("ask_helper", task="What is it?"), "So it is."]})
    workflow = HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool()])]).build()
    for at in range(1, 20):
        session = workflow.session(f"s{at}", store=FailNthAppendStore(store, StoreFull("the disk is full"), at))
        try:
            await session.run("Ask", key="k")
        except StoreFull:
            result = await session.run("Ask", key="k")
            for request in result.pending:  # the child session never began, which the parent's ledger cannot know
                assert request.kind == "outcome"
                await session.approve(request)
                result = await session.resume()
            assert result.text == "So it is."
            requests = await conversation_checks.rebuild_requests(session)
            assert conversation_checks.list_outputs(requests[-1]) == ["Forty-two."]
        else:
            assert at > 5
            return
    raise AssertionError("every run met a failure")


# -- 33: stores that fail ----------------------------------------------------------------------------------------------


class FailNthAppendStore:
    """A store that fails its n-th append once."""

    def __init__(self, store: Store, error: StoreError, at: int) -> None:
        self._store, self._error, self._appends_left = store, error, at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, *arguments: Any, **options: Any) -> int:
        self._appends_left -= 1
        if self._appends_left == 0:
            raise self._error
        return await self._store.append(*arguments, **options)


ERRORS = [StoreFull("the disk is full"), StoreLocked("locked for too long"), StoreReadOnly("the file is read-only")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
async def test_handle_continues_after_any_failed_append(store: Store, stream: bool, error: StoreError) -> None:
    """A store that fails at any append gives a clear error, and the same handle continues."""
    for at in range(1, 20):
        world = World()
        failing = FailNthAppendStore(store, error, at)
        session = build_payer(world).session(f"{error.code}-{at}", store=failing)
        failed = False
        try:
            async for _ in session.run("Pay", stream=stream, key="k"):
                pass
        except type(error):
            failed = True
            facts = session.facts  # a finished tool may be recorded during the comparison
            assert facts == list(await store.read(session.id))[: len(facts)]
        for _ in range(5):
            result = await session.run("Pay", stream=stream, key="k")
            for request in result.pending:
                await session.answer(request, "paid")
            if result.status == "waiting":
                break
        assert session.status == "waiting"
        assert world.count("paid") <= 1
        assert [message.text for message in session.messages] == ["Pay", "It is settled."]
        await conversation_checks.rebuild_requests(session)
        if not failed:
            assert at > 3
            return
    raise AssertionError("every run met a failure")


async def test_damage_is_reported_and_others_stay_readable(tmp_path: Path) -> None:
    path = tmp_path / "desk.db"
    async with SQLiteStore(path) as store:
        for id in ("good", "bad"):
            await build_payer(World()).session(id, store=store).run("Pay the bill of Ulysses")
    with sqlite3.connect(path) as file:
        (table,) = [
            name for (name,) in file.execute("select name from sqlite_master where type = 'table'").fetchall() if "fact" in name.lower()
        ]
        rows = file.execute(f"select rowid, * from {table}").fetchall()
        rowid, column, body = next(
            (row[0], number, value)
            for row in reversed(rows)
            for number, value in enumerate(row[1:])
            if isinstance(value, bytes | str) and "Ulysses" in (value if isinstance(value, str) else value.decode("utf-8", "replace"))
        )
        name = file.execute(f"pragma table_info({table})").fetchall()[column][1]
        flipped = body.replace("Ulysses", "Ulyssez") if isinstance(body, str) else body.replace(b"Ulysses", b"Ulyssez")
        file.execute(f"update {table} set {name} = ? where rowid = ?", (flipped, rowid))
    file.close()
    async with SQLiteStore(path) as store:
        outcomes = {}
        for id in ("good", "bad"):
            session = build_payer(World()).session(id, store=store)
            try:
                await session.refresh()
                outcomes[id] = session.status
            except DamagedStore as error:
                outcomes[id] = f"{error.code}, {error.do}"
        damaged, fine = sorted(outcomes.values())
        assert fine == "waiting"
        assert damaged.startswith("damaged, ")
        assert damaged != "damaged, "  # the error says what to do


async def test_failing_session_does_not_affect_another() -> None:
    store = MemoryStore()
    failing = FailNthAppendStore(store, StoreFull("full"), 2)
    with pytest.raises(StoreFull):
        await build_payer(World()).session("one", store=failing).run("Pay")
    assert (await build_payer(World()).session("two", store=store).run("Pay")).text == "It is settled."
