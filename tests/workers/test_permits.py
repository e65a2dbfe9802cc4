"""Permits to call models: the same checks wherever they are kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from legato import Agent, HandoffBuilder
from legato.engines import Limit, ModelLimits, permits, permits_postgres
from legato.engines.limits import permits_of
from legato.engines.permits import Permit, Permits, SQLitePermits
from legato.engines.permits_postgres import PostgresPermits
from legato.errors import BadInput
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
    assert held is not None
    assert await theirs.take("m", Limit(at_once=2)) is not None
    assert await theirs.take("m", Limit(at_once=2)) is None
    assert await theirs.take("another", Limit(at_once=2)) is not None
    await mine.give_back(held)
    assert await theirs.take("m", Limit(at_once=2)) is not None


async def test_of_many_who_ask_at_the_same_moment_only_so_many_get_one(two: tuple[Permits, Permits]) -> None:
    asked = await asyncio.gather(*(each.take("m", Limit(at_once=3)) for each in two * 10))
    assert sum(permit is not None for permit in asked) == 3


async def test_calls_begin_at_least_so_far_apart_in_the_order_in_which_they_asked(two: tuple[Permits, Permits]) -> None:
    now = time.time()
    begins = []
    for each in two * 3:
        permit = await each.take("m", Limit(per_minute=60))
        assert permit is not None
        begins.append(time.time() - now + permit.wait)
    assert begins == pytest.approx([begins[0] + number for number in range(6)], abs=0.3)


async def test_what_a_dead_worker_held_comes_back_and_what_a_live_one_holds_does_not(
    two: tuple[Permits, Permits], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (permits, permits_postgres):
        monkeypatch.setattr(module, "LASTS", 0.3)
    mine, theirs = two
    held = await mine.take("m", ONE)
    assert held is not None
    for _ in range(4):
        await asyncio.sleep(0.15)
        await mine.keep(held)
    assert await theirs.take("m", ONE) is None
    await asyncio.sleep(0.4)
    assert await theirs.take("m", ONE) is not None


async def test_limits_hold_for_the_models_of_agents_that_work_as_tools_too() -> None:
    running, most = 0, 0

    async def helping(seen: Any) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return "helped"

    helper = Agent("helper", model=ScriptedModel(helping, name="small"))
    calls = [[call("helper", task=str(number)) for number in range(4)], "Done."]
    boss = Agent("boss", model=ScriptedModel(calls, name="big"), tools=[helper.as_tool("helper", "Helps.")])
    store = MemoryStore()
    limited = ModelLimits({"small": Limit(at_once=2)}).applied_to(HandoffBuilder("team", [boss]).build(), store)
    result = await limited.session("s", store=store).run("Go")
    assert (result.text, most) == ("Done.", 2)


async def test_a_permit_is_given_back_when_the_call_fails_or_is_cancelled() -> None:
    begun = asyncio.Event()

    async def hangs(seen: Any) -> str:
        begun.set()
        await asyncio.sleep(60)
        return ""

    store, held = MemoryStore(), SQLitePermits()
    workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(hangs, name="m"))]).build()
    limited = ModelLimits({"m": ONE}, permits=held).applied_to(workflow, store)
    run = asyncio.ensure_future(limited.session("s", store=store).run("Hi")._complete())
    await begun.wait()
    assert await held.take("m", ONE) is None
    run.cancel()
    await asyncio.wait({run})
    assert isinstance(await held.take("m", ONE), Permit)


def test_permits_are_kept_where_all_who_share_the_store_find_them(tmp_path: Path) -> None:
    assert isinstance(permits_of(MemoryStore()), SQLitePermits)
    assert permits_of(SQLiteStore(tmp_path / "desk.sqlite"))._path == f"{tmp_path}/desk.sqlite-permits"  # type: ignore[attr-defined]
    assert isinstance(permits_of(PostgresStore("postgresql:///x")), PostgresPermits)


def test_a_limit_that_limits_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="a limit has at_once"):
        Limit()
