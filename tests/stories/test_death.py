"""Processes that die and stores that fail, as a session sees it (32, 33)."""

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
from tests.stories import checking, child
from tests.stories.processes import begin


class Dying:
    """A store that never writes facts of this kind: for those who come later, the process ended before it could."""

    def __init__(self, store: Store, kind: type) -> None:
        self._store = store
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        if any(isinstance(fact, self._kind) for fact in facts):
            raise StoreFull("the process is about to end")
        return await self._store.append(ledger, expected, facts, **more)


def payer(world: World, idempotent: bool = False) -> Workflow:
    @tool(idempotent=idempotent)
    async def pay(ctx: ToolContext[Any]) -> str:
        world.did(ctx, "paid")
        return "paid"

    model = ScriptedModel(by_agent={"payer": [call("pay"), "It is settled."]})
    return HandoffBuilder("pay", [Agent("payer", model=model, tools=[pay])]).build()


async def lost_payment(store: Store, world: World, idempotent: bool = False) -> Any:
    """A session that ended between the effect of a tool and its record, opened again."""
    with pytest.raises(StoreFull):
        await payer(world, idempotent).session("s", store=Dying(store, CallReturned)).run("Pay")
    assert world.times("paid") == 1
    session = payer(world, idempotent).session("s", store=store)
    await session.resume()
    return session


async def test_ended_between_effect_and_record_the_session_says_that_the_outcome_is_unknown(store: Store) -> None:
    world = World()
    session = await lost_payment(store, world)
    assert world.times("paid") == 1
    assert session.status == "pending"
    (request,) = session.pending
    assert (request.kind, request.tool) == ("outcome", "pay")
    assert "nobody knows how it ended" in request.prompt
    assert any(isinstance(fact, CallLost) for fact in session.facts)


@pytest.mark.parametrize("way", ["rerun", "supply", "fail"])
async def test_an_unknown_outcome_offers_three_ways_on(store: Store, stream: bool, way: str) -> None:
    world = World()
    session = await lost_payment(store, world)
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
    assert world.times("paid") == (2 if way == "rerun" else 1)
    requests = await checking.requests_of(session)
    (output,) = checking.outputs(requests[-1])
    assert {"rerun": "paid", "supply": "paid, says the bank", "fail": "the bank knows nothing"}[way] in output


async def test_an_idempotent_tool_is_started_again_unasked_with_the_same_key(store: Store) -> None:
    world = World()
    session = await lost_payment(store, world, idempotent=True)
    assert session.status == "waiting"
    assert world.times("paid") == 2
    assert len({key for key, _ in world.deeds}) == 1
    assert [fact.attempt for fact in session.facts if isinstance(fact, CallStarted)] == [1, 2]


async def test_killed_with_signal_9_while_a_tool_runs_the_session_asks_and_goes_on(tmp_path: Path) -> None:
    path, flag = tmp_path / "slow.db", tmp_path / "flag"
    process = await begin("drive_slowly", path, flag)
    started = flag.with_suffix(".started")
    async with asyncio.timeout(60):
        while not started.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.01)
    process.kill()
    await process.communicate()
    flag.touch()
    async with SQLiteStore(path) as store:
        world = World()
        session = child.slow_desk(world, flag).session("slow", store=store)
        result = await session.resume()
        assert result.status == "pending"
        (request,) = result.pending
        assert request.kind == "outcome"
        assert world.deeds == []
        await session.answer(request, "it was done")
        assert (await session.resume()).text == "I heard 1 messages."
        requests = await checking.requests_of(session)
        assert checking.outputs(requests[-1]) == ["it was done"]


async def test_an_agent_as_a_tool_restarted_after_its_reply_was_recorded_gives_that_reply(store: Store) -> None:
    asked: list[str] = []

    def helped(seen: Any) -> str:
        asked.append(seen.session)
        return "Forty-two."

    helper = Agent("helper", model=ScriptedModel(helped))
    model = ScriptedModel(by_agent={"boss": [call("ask_helper", task="What is it?"), "So it is."]})

    def workflow() -> Workflow:
        return HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool()])]).build()

    with pytest.raises(StoreFull):
        await workflow().session("s", store=Dying(store, CallReturned)).run("Ask")
    assert len(asked) == 1
    session = workflow().session("s", store=store)
    assert (await session.resume()).text == "So it is."
    assert len(asked) == 1  # its conversation was there, whole
    requests = await checking.requests_of(session)
    assert checking.outputs(requests[-1]) == ["Forty-two."]


async def test_a_store_that_fails_in_the_conversation_of_an_agent_as_a_tool_is_no_output_for_the_model(store: Store) -> None:
    helper = Agent("helper", model=ScriptedModel(lambda seen: "Forty-two."))
    model = ScriptedModel(by_agent={"boss": [call("ask_helper", task="What is it?"), "So it is."]})
    workflow = HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool()])]).build()
    for at in range(1, 20):
        session = workflow.session(f"s{at}", store=Failing(store, StoreFull("the disk is full"), at))
        try:
            await session.run("Ask", key="k")
        except StoreFull:
            result = await session.run("Ask", key="k")
            for request in result.pending:  # the helper's session never began, which the caller's ledger cannot know
                assert request.kind == "outcome"
                await session.approve(request)
                result = await session.resume()
            assert result.text == "So it is."
            requests = await checking.requests_of(session)
            assert checking.outputs(requests[-1]) == ["Forty-two."]
        else:
            assert at > 5
            return
    raise AssertionError("it never came through without a failure")


# -- 33: stores that fail ----------------------------------------------------------------------------------------------


class Failing:
    """A store that fails its n-th append with this error, once."""

    def __init__(self, store: Store, error: StoreError, at: int) -> None:
        self._store, self._error, self._left = store, error, at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, *given: Any, **more: Any) -> int:
        self._left -= 1
        if self._left == 0:
            raise self._error
        return await self._store.append(*given, **more)


ERRORS = [StoreFull("the disk is full"), StoreLocked("locked for too long"), StoreReadOnly("the file is read-only")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
async def test_a_store_that_fails_at_any_append_gives_a_clear_error_and_the_same_handle_goes_on(
    store: Store, stream: bool, error: StoreError
) -> None:
    for at in range(1, 20):
        world = World()
        failing = Failing(store, error, at)
        session = payer(world).session(f"{error.code}-{at}", store=failing)
        failed = False
        try:
            async for _ in session.run("Pay", stream=stream, key="k"):
                pass
        except type(error):
            failed = True
            shown = session.facts  # is in the store; a finished tool may be recorded while we look
            assert shown == list(await store.read(session.id))[: len(shown)]
        for _ in range(5):
            result = await session.run("Pay", stream=stream, key="k")
            for request in result.pending:
                await session.answer(request, "paid")
            if result.status == "waiting":
                break
        assert session.status == "waiting"
        assert world.times("paid") <= 1
        assert [message.text for message in session.messages] == ["Pay", "It is settled."]
        await checking.requests_of(session)
        if not failed:
            assert at > 3
            return
    raise AssertionError("it never came through without a failure")


async def test_a_damaged_file_is_told_and_older_sessions_stay_readable(tmp_path: Path) -> None:
    path = tmp_path / "desk.db"
    async with SQLiteStore(path) as store:
        for id in ("good", "bad"):
            await payer(World()).session(id, store=store).run("Pay the bill of Ulysses")
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
            session = payer(World()).session(id, store=store)
            try:
                await session.refresh()
                outcomes[id] = session.status
            except DamagedStore as error:
                outcomes[id] = f"{error.code}, {error.do}"
        damaged, fine = sorted(outcomes.values())
        assert fine == "waiting"
        assert damaged.startswith("damaged, ")
        assert damaged != "damaged, "  # it says what can be done


async def test_two_sessions_in_one_store_one_fails_and_the_other_notices_nothing() -> None:
    store = MemoryStore()
    failing = Failing(store, StoreFull("full"), 2)
    with pytest.raises(StoreFull):
        await payer(World()).session("one", store=failing).run("Pay")
    assert (await payer(World()).session("two", store=store).run("Pay")).text == "It is settled."
