"""Permits for model requests, in a process, in a file and in Postgres."""

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
from legato.engines import Limit, ModelLimits, model_rate_limits, postgres_permits
from legato.engines import model_permits as permits
from legato.engines.model_permits import Permit, Permits, SQLitePermits
from legato.engines.model_rate_limits import open_shared_permits
from legato.engines.postgres_permits import PostgresPermits
from legato.errors import BadInput, DamagedStore, StoreUnavailable
from legato.stores import MemoryStore, PostgresStore, SQLiteStore
from legato.testing import ScriptedModel, call

ONE = Limit(at_once=1)


@pytest.fixture(params=["process", "file", "database"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of the permits: empty (this process), a path, or a DSN."""
    if request.param == "database":
        return str(request.getfixturevalue("database"))
    return str(tmp_path / "permits") if request.param == "file" else ""


@pytest.fixture
async def two(where: str) -> AsyncIterator[tuple[Permits, Permits]]:
    """The permits of two workers."""
    if not where:
        alone = SQLitePermits()
        yield alone, alone
    elif where.startswith("/"):
        yield SQLitePermits(where), SQLitePermits(where)
    else:
        async with PostgresStore(where) as first, PostgresStore(where) as second:
            yield PostgresPermits(first), PostgresPermits(second)


async def test_released_permit_goes_to_another_worker(two: tuple[Permits, Permits]) -> None:
    mine, theirs = two
    permit = await mine.acquire("m", Limit(at_once=2))
    assert isinstance(permit, Permit)
    assert isinstance(await theirs.acquire("m", Limit(at_once=2)), Permit)
    assert await theirs.acquire("m", Limit(at_once=2)) == 0
    assert isinstance(await theirs.acquire("another", Limit(at_once=2)), Permit)
    await mine.release(permit)
    assert isinstance(await theirs.acquire("m", Limit(at_once=2)), Permit)


async def test_concurrent_requests_get_at_most_the_limit(two: tuple[Permits, Permits]) -> None:
    asked = await asyncio.gather(*(each.acquire("m", Limit(at_once=3)) for each in two * 10))
    assert sum(isinstance(permit, Permit) for permit in asked) == 3


async def test_permits_are_spaced_by_rate_limit(two: tuple[Permits, Permits]) -> None:
    limit, begins = Limit(per_minute=300), []
    for each in two * 2:
        asked = time.monotonic()
        while not isinstance(answer := await each.acquire("m", limit), Permit):
            assert 0 < answer <= limit.interval_s
            await asyncio.sleep(answer)
            asked = time.monotonic()
        begins.append((asked, time.monotonic()))  # the request begins between these times
    assert all(latest - earliest >= limit.interval_s for (earliest, _), (_, latest) in pairwise(begins)), begins


async def test_waiting_request_holds_up_no_other(two: tuple[Permits, Permits]) -> None:
    mine, theirs = two
    limit = Limit(at_once=5, per_minute=0.1)
    answers = [await mine.acquire("m", limit) for _ in range(20)]  # as if the worker died then
    assert [isinstance(answer, Permit) for answer in answers] == [True, *[False] * 19]
    answer = await theirs.acquire("m", limit)
    assert isinstance(answer, float)
    assert 0 < answer <= 600


async def test_start_time_far_ahead_is_ignored(two: tuple[Permits, Permits]) -> None:
    mine, theirs = two
    assert isinstance(await mine.acquire("m", Limit(per_minute=0.1)), Permit)
    assert isinstance(await theirs.acquire("m", Limit(per_minute=600)), Permit)


async def test_permit_expires_after_clock_set_back(two: tuple[Permits, Permits], monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = two
    for module in (permits, postgres_permits):
        monkeypatch.setattr(module, "PERMIT_DURATION_S", 3600.0)  # expires an hour ahead, as after a clock was set back
    assert isinstance(await mine.acquire("m", ONE), Permit)
    for module in (permits, postgres_permits):
        monkeypatch.setattr(module, "PERMIT_DURATION_S", 30.0)
    assert isinstance(await theirs.acquire("m", ONE), Permit)


async def test_expired_permit_is_renewed(two: tuple[Permits, Permits]) -> None:
    mine, theirs = two
    permit = await mine.acquire("m", ONE)
    assert isinstance(permit, Permit)
    await theirs.release(permit)  # as if it had expired
    await mine.renew(permit)
    assert await theirs.acquire("m", ONE) == 0


async def test_only_dead_workers_permits_expire(two: tuple[Permits, Permits], monkeypatch: pytest.MonkeyPatch) -> None:
    def lasts(seconds: float) -> None:
        for module in (permits, postgres_permits):
            monkeypatch.setattr(module, "PERMIT_DURATION_S", seconds)

    mine, theirs = two
    lasts(0.3)
    permit = await mine.acquire("m", ONE)
    assert isinstance(permit, Permit)
    lasts(600)
    await mine.renew(permit)
    await asyncio.sleep(0.4)  # longer than its first duration
    assert await theirs.acquire("m", ONE) == 0
    await mine.release(permit)
    lasts(0.3)
    assert isinstance(await mine.acquire("m", ONE), Permit)
    async with asyncio.timeout(60):
        while not isinstance(await theirs.acquire("m", ONE), Permit):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.05)


async def test_limits_apply_to_agents_as_tools() -> None:
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
    team = ModelLimits({"small": Limit(at_once=2)}).apply_to(HandoffBuilder("team", [boss]).build(), store)
    result = await team.session("s", store=store).run("Go")
    assert (result.text, most) == ("Done.", 2)


async def test_cancelled_request_releases_its_permit() -> None:
    begun = asyncio.Event()

    async def hangs(seen: Any) -> str:
        begun.set()
        await asyncio.sleep(60)
        return ""

    store, shared_permits = MemoryStore(), SQLitePermits()
    run = asyncio.ensure_future(make_limited_desk(hangs, shared_permits, store).session("s", store=store).run("Hi")._complete())
    await begun.wait()
    assert await shared_permits.acquire("m", ONE) == 0
    run.cancel()
    await asyncio.wait({run})
    assert isinstance(await shared_permits.acquire("m", ONE), Permit)


class FailingPermits(SQLitePermits):
    """Permits with operations that fail when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.failing_operations: set[str] = set()
        self.failure_count = 0
        self.renewal_count = 0

    async def _fail_if_asked(self, doing: str) -> None:
        await asyncio.sleep(0)
        if doing in self.failing_operations:
            self.failure_count += 1
            raise StoreUnavailable("the database is away")

    async def acquire(self, name: str, limit: Limit) -> Permit | float:
        await self._fail_if_asked("acquire")
        return await super().acquire(name, limit)

    async def renew(self, permit: Permit) -> None:
        await self._fail_if_asked("renew")
        await super().renew(permit)
        self.renewal_count += 1

    async def release(self, permit: Permit) -> None:
        await self._fail_if_asked("release")
        await super().release(permit)


def make_limited_desk(reply: Any, permits: Permits, store: MemoryStore) -> Workflow:
    workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply, name="m"))]).build()
    return ModelLimits({"m": ONE}, permits=permits).apply_to(workflow, store)


async def test_request_waits_for_unavailable_permit_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_rate_limits, "PERMIT_DURATION_S", 0.1)
    store, shared_permits = MemoryStore(), FailingPermits()
    shared_permits.failing_operations = {"acquire"}
    run = asyncio.ensure_future(make_limited_desk(["Hello!"], shared_permits, store).session("s", store=store).run("Hi")._complete())
    while shared_permits.failure_count < 2:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)
    shared_permits.failing_operations = set()
    assert (await run).text == "Hello!"
    assert not any(isinstance(fact, ModelRequestFailed) for fact in await store.read("s"))


async def test_broken_permit_store_is_no_model_failure() -> None:
    class BrokenPermits(SQLitePermits):
        async def acquire(self, name: str, limit: Limit) -> Permit | float:
            raise DamagedStore("it is no database")

    store = MemoryStore()
    with pytest.raises(DamagedStore):
        await make_limited_desk(["Hello!"], BrokenPermits(), store).session("s", store=store).run("Hi")
    assert not any(isinstance(fact, ModelRequestFailed) for fact in await store.read("s"))


async def test_failed_release_loses_no_reply() -> None:
    store, shared_permits = MemoryStore(), FailingPermits()
    shared_permits.failing_operations = {"release"}
    assert (await make_limited_desk(["Hello!"], shared_permits, store).session("s", store=store).run("Hi")).text == "Hello!"


async def test_permit_renewal_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_rate_limits, "PERMIT_DURATION_S", 0.3)  # renews it more often; the permit itself lasts as long as before
    store, shared_permits, over = MemoryStore(), FailingPermits(), asyncio.Event()

    async def waits(seen: Any) -> str:
        await over.wait()
        return "Hello!"

    shared_permits.failing_operations = {"renew"}
    run = asyncio.ensure_future(make_limited_desk(waits, shared_permits, store).session("s", store=store).run("Hi")._complete())
    while shared_permits.failure_count < 3:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)
    shared_permits.failing_operations = set()
    while shared_permits.renewal_count < 2:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)
    assert await shared_permits.acquire("m", ONE) == 0
    over.set()
    assert (await run).text == "Hello!"
    assert isinstance(await shared_permits.acquire("m", ONE), Permit)


async def test_cancelled_acquire_releases_its_permit() -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    class SlowPermits(SQLitePermits):
        async def acquire(self, name: str, limit: Limit) -> Permit | float:
            answer = await super().acquire(name, limit)
            asked.set()
            await answered.wait()
            return answer

    store, slow = MemoryStore(), SlowPermits()
    run = asyncio.ensure_future(make_limited_desk(["Hello!"], slow, store).session("s", store=store).run("Hi")._complete())
    await asked.wait()
    run.cancel()
    await asyncio.wait({run})
    answered.set()
    async with asyncio.timeout(60):
        while not isinstance(await slow.acquire("m", ONE), Permit):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)


def test_permits_are_stored_beside_the_sessions(tmp_path: Path) -> None:
    assert isinstance(open_shared_permits(MemoryStore()), SQLitePermits)
    assert open_shared_permits(SQLiteStore(tmp_path / "desk.sqlite"))._path == f"{tmp_path}/desk.sqlite-permits"  # type: ignore[attr-defined]
    assert isinstance(open_shared_permits(PostgresStore("postgresql:///x")), PostgresPermits)


def test_limit_without_values_is_refused() -> None:
    with pytest.raises(BadInput, match="a limit has at_once"):
        Limit()
