"""Slots of workers over real engines: a silent model, and one that asks to wait, hold up no others."""

from __future__ import annotations

import asyncio

from legato.core.facts import ModelReplied, ModelRequestFailed
from tests.engines import slow_models
from tests.engines.conftest import Place
from tests.engines.waiting import eventually, rests

SERVED = tuple(f"tests.engines.slow_models:{name}" for name in ("silent", "limited", "healthy"))
SLOTS = 4


async def test_silent_model_leaves_slots_for_others(place: Place) -> None:
    place.worker(*SERVED, "--concurrency", str(SLOTS))
    waiting = [place.engine.session(slow_models.silent, f"silent-{number}", place.store) for number in range(5 * SLOTS)]
    for session in waiting:
        await session.say("Hello")

    async def all_slots_are_held() -> bool:
        begun = place.folder / "silent"
        return begun.exists() and len(begun.read_text().splitlines()) == SLOTS

    await eventually(all_slots_are_held)
    for number in range(SLOTS + 1):
        session = place.engine.session(slow_models.healthy, f"healthy-{number}", place.store)
        async with asyncio.timeout(60):
            assert (await session.run("Hello")).text == "Hello!"
    assert await all_slots_are_held()
    (place.folder / "go").touch()
    for each in waiting:
        await rests(each, "waiting")


async def test_session_waiting_for_retry_holds_no_slot(place: Place) -> None:
    place.worker(*SERVED, "--concurrency", "1")
    waiting = [place.engine.session(slow_models.limited, f"limited-{number}", place.store) for number in range(5)]
    for session in waiting:
        await session.say("250")

    async def each_was_tried() -> bool:
        return all([isinstance((await session.refresh()).facts[-1], ModelRequestFailed) for session in waiting])

    await eventually(each_was_tried)


async def test_engine_comes_back_at_recorded_retry_time(place: Place) -> None:
    place.worker(*SERVED)
    session = place.engine.session(slow_models.limited, "s", place.store)
    async with asyncio.timeout(60):
        assert (await session.run("1.5")).text == "Hello!"
    attempted, answered = session.facts[-2:]
    assert isinstance(attempted, ModelRequestFailed)
    assert isinstance(answered, ModelReplied)
    assert attempted.retry_at - attempted.at >= 1500
    assert answered.at - answered.took >= attempted.retry_at
