"""Permits to call models: the same checks wherever they are kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow
from legato.core.facts import ModelRequestFailed
from legato.engines import Limit, ModelLimits, limits, permits, permits_postgres
from legato.engines.limits import permits_of
from legato.engines.permits import Permit, Permits, SQLitePermits
from legato.engines.permits_postgres import PostgresPermits
from legato.errors import BadInput, DamagedStore, StoreUnavailable
from legato.stores import MemoryStore, PostgresStore, SQLiteStore
from legato.testing import ScriptedModel, call

ONE = Limit(at_once=1)


@pytest.fixture(params=["process", "file", "database"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where they are kept: nowhere, at a path, or at a DSN."""
    if request.param == "database":
        return str(request.getfixturevalue("database"))
    return str(tmp_path / "permits") if request.param == "file" else ""


@pytest.fixture
async def two(where: str) -> AsyncIterator[tuple[Permits, Permits]]:
    """Permits as two workers have them."""
    if not where:
        alone = SQLitePermits()
        yield alone, alone
    elif where.startswith("/"):
        yield SQLitePermits(where), SQLitePermits(where)
    else:
        async with PostgresStore(where) as first, PostgresStore(where) as second:
            yield PostgresPermits(first), PostgresPermits(second)


async def test_at_most_so_many_are_held_at_once_and_one_that_is_given_back_goes_to_another(two: tuple[Permits, Permits]) -> None:
    mine, theirs = two
    held = await mine.take("m", Limit(at_once=2))
    assert isinstance(held, Permit)
    assert isinstance(await theirs.take("m", Limit(at_once=2)), Permit)
    assert await theirs.take("m", Limit(at_once=2)) == 0
    assert isinstance(await theirs.take("another", Limit(at_once=2)), Permit)
    await mine.give_back(held)
    assert isinstance(await theirs.take("m", Limit(at_once=2)), Permit)


async def test_of_many_who_ask_at_the_same_moment_only_so_many_get_one(two: tuple[Permits, Permits]) -> None:
    asked = await asyncio.gather(*(each.take("m", Limit(at_once=3)) for each in two * 10))
    assert sum(isinstance(permit, Permit) for permit in asked) == 3


async def test_calls_begin_at_least_so_far_apart_and_who_is_early_is_told_when_to_ask_again(two: tuple[Permits, Permits]) -> None:
    limit, begins = Limit(per_minute=300), []
    for each in two * 2:
        asked = time.monotonic()
        while not isinstance(answer := await each.take("m", limit), Permit):
            assert 0 < answer <= limit.apart
            await asyncio.sleep(answer)
            asked = time.monotonic()
        begins.append((asked, time.monotonic()))  # it may begin at some moment between the two
    assert all(latest - earliest >= limit.apart for (earliest, _), (_, latest) in pairwise(begins)), begins


async def test_whoever_has_to_wait_keeps_nobody_waiting(two: tuple[Permits, Permits]) -> None:
    mine, theirs = two
    limit = Limit(at_once=5, per_minute=0.1)
    answers = [await mine.take("m", limit) for _ in range(20)]  # and dies
    assert [isinstance(answer, Permit) for answer in answers] == [True, *[False] * 19]
    answer = await theirs.take("m", limit)
    assert isinstance(answer, float)
    assert 0 < answer <= 600


async def test_a_beginning_that_a_clock_left_far_ahead_keeps_nobody_waiting(two: tuple[Permits, Permits]) -> None:
    mine, theirs = two
    assert isinstance(await mine.take("m", Limit(per_minute=0.1)), Permit)
    assert isinstance(await theirs.take("m", Limit(per_minute=600)), Permit)


async def test_permit_of_a_clock_set_back_comes_back(two: tuple[Permits, Permits], monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = two
    for module in (permits, permits_postgres):
        monkeypatch.setattr(module, "LASTS", 3600.0)  # it ends as far ahead as after a clock was set back by an hour
    assert isinstance(await mine.take("m", ONE), Permit)
    for module in (permits, permits_postgres):
        monkeypatch.setattr(module, "LASTS", 30.0)
    assert isinstance(await theirs.take("m", ONE), Permit)


async def test_a_permit_that_ended_while_its_call_runs_is_held_again(two: tuple[Permits, Permits]) -> None:
    mine, theirs = two
    held = await mine.take("m", ONE)
    assert isinstance(held, Permit)
    await theirs.give_back(held)  # as if its time had come
    await mine.keep(held)
    assert await theirs.take("m", ONE) == 0


async def test_what_a_dead_worker_held_comes_back_and_what_a_live_one_holds_does_not(
    two: tuple[Permits, Permits], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lasts(seconds: float) -> None:
        for module in (permits, permits_postgres):
            monkeypatch.setattr(module, "LASTS", seconds)

    mine, theirs = two
    lasts(0.3)
    held = await mine.take("m", ONE)
    assert isinstance(held, Permit)
    lasts(600)
    await mine.keep(held)
    await asyncio.sleep(0.4)  # longer than it would have lasted
    assert await theirs.take("m", ONE) == 0
    await mine.give_back(held)
    lasts(0.3)
    assert isinstance(await mine.take("m", ONE), Permit)
    async with asyncio.timeout(60):
        while not isinstance(await theirs.take("m", ONE), Permit):  # noqa: ASYNC110 - nobody is told of it
            await asyncio.sleep(0.05)


async def test_limits_hold_for_the_models_of_agents_that_work_as_tools_too() -> None:
    running, most, two_run = 0, 0, asyncio.Event()

    async def helping(seen: Any) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            two_run.set()
        await two_run.wait()
        await asyncio.sleep(0.02)
        running -= 1
        return "helped"

    helper = Agent("helper", model=ScriptedModel(helping, name="small"))
    calls = [[call("helper", task=str(number)) for number in range(4)], "Done."]
    boss = Agent("boss", model=ScriptedModel(calls, name="big"), tools=[helper.as_tool("helper", "Helps.")])
    store = MemoryStore()
    team = ModelLimits({"small": Limit(at_once=2)}).applied_to(HandoffBuilder("team", [boss]).build(), store)
    result = await team.session("s", store=store).run("Go")
    assert (result.text, most) == ("Done.", 2)


async def test_a_permit_is_given_back_when_the_call_fails_or_is_cancelled() -> None:
    begun = asyncio.Event()

    async def hangs(seen: Any) -> str:
        begun.set()
        await asyncio.sleep(60)
        return ""

    store, held = MemoryStore(), SQLitePermits()
    run = asyncio.ensure_future(limited(hangs, held, store).session("s", store=store).run("Hi")._complete())
    await begun.wait()
    assert await held.take("m", ONE) == 0
    run.cancel()
    await asyncio.wait({run})
    assert isinstance(await held.take("m", ONE), Permit)


class Failing(SQLitePermits):
    """Permits whose database is away when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.away: set[str] = set()
        self.failed = 0
        self.kept = 0

    async def _reached(self, doing: str) -> None:
        await asyncio.sleep(0)
        if doing in self.away:
            self.failed += 1
            raise StoreUnavailable("the database is away")

    async def take(self, name: str, limit: Limit) -> Permit | float:
        await self._reached("take")
        return await super().take(name, limit)

    async def keep(self, permit: Permit) -> None:
        await self._reached("keep")
        await super().keep(permit)
        self.kept += 1

    async def give_back(self, permit: Permit) -> None:
        await self._reached("give_back")
        await super().give_back(permit)


def limited(reply: Any, permits: Permits, store: MemoryStore) -> Workflow:
    workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply, name="m"))]).build()
    return ModelLimits({"m": ONE}, permits=permits).applied_to(workflow, store)


async def test_a_call_waits_for_its_permit_while_the_store_is_away_and_no_failure_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LASTS", 0.1)
    store, held = MemoryStore(), Failing()
    held.away = {"take"}
    run = asyncio.ensure_future(limited(["Hello!"], held, store).session("s", store=store).run("Hi")._complete())
    while held.failed < 2:  # noqa: ASYNC110 - nobody is told of it
        await asyncio.sleep(0.01)
    held.away = set()
    assert (await run).text == "Hello!"
    assert not any(isinstance(fact, ModelRequestFailed) for fact in await store.read("s"))


async def test_a_store_that_fails_beside_a_model_ends_the_drive_and_is_no_failure_of_the_model() -> None:
    class Broken(SQLitePermits):
        async def take(self, name: str, limit: Limit) -> Permit | float:
            raise DamagedStore("it is no database")

    store = MemoryStore()
    with pytest.raises(DamagedStore):
        await limited(["Hello!"], Broken(), store).session("s", store=store).run("Hi")
    assert not any(isinstance(fact, ModelRequestFailed) for fact in await store.read("s"))


async def test_a_reply_is_not_lost_when_its_permit_cannot_be_given_back() -> None:
    store, held = MemoryStore(), Failing()
    held.away = {"give_back"}
    assert (await limited(["Hello!"], held, store).session("s", store=store).run("Hi")).text == "Hello!"


async def test_a_permit_is_kept_although_keeping_it_failed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LASTS", 0.3)  # how often it is kept; it lasts for as long as ever
    store, held, over = MemoryStore(), Failing(), asyncio.Event()

    async def waits(seen: Any) -> str:
        await over.wait()
        return "Hello!"

    held.away = {"keep"}
    run = asyncio.ensure_future(limited(waits, held, store).session("s", store=store).run("Hi")._complete())
    while held.failed < 3:  # noqa: ASYNC110 - nobody is told of it
        await asyncio.sleep(0.01)
    held.away = set()
    while held.kept < 2:  # noqa: ASYNC110 - nobody is told of it
        await asyncio.sleep(0.01)
    assert await held.take("m", ONE) == 0
    over.set()
    assert (await run).text == "Hello!"
    assert isinstance(await held.take("m", ONE), Permit)


async def test_whoever_is_cancelled_while_it_asks_gives_back_what_it_gets() -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    class Slow(SQLitePermits):
        async def take(self, name: str, limit: Limit) -> Permit | float:
            answer = await super().take(name, limit)
            asked.set()
            await answered.wait()
            return answer

    store, slow = MemoryStore(), Slow()
    run = asyncio.ensure_future(limited(["Hello!"], slow, store).session("s", store=store).run("Hi")._complete())
    await asked.wait()
    run.cancel()
    await asyncio.wait({run})
    answered.set()
    async with asyncio.timeout(60):
        while not isinstance(await slow.take("m", ONE), Permit):  # noqa: ASYNC110 - nobody is told of it
            await asyncio.sleep(0.01)


def test_permits_are_kept_where_all_who_share_the_store_find_them(tmp_path: Path) -> None:
    assert isinstance(permits_of(MemoryStore()), SQLitePermits)
    assert permits_of(SQLiteStore(tmp_path / "desk.sqlite"))._path == f"{tmp_path}/desk.sqlite-permits"  # type: ignore[attr-defined]
    assert isinstance(permits_of(PostgresStore("postgresql:///x")), PostgresPermits)


def test_a_limit_that_limits_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="a limit has at_once"):
        Limit()
