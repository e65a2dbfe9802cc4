"""Slots of workers over real engines: a silent model, and one that asks to wait, block no other models."""

from __future__ import annotations

import asyncio

from legato.core.facts import ModelReplied, ModelRequestFailed
from tests.engines import slow_models
from tests.engines.conftest import EngineSetup
from tests.engines.waits import wait_for_status, wait_until_true

SERVED = tuple(f"tests.engines.slow_models:{name}" for name in ("silent", "limited", "healthy"))
SLOTS = 4


async def test_silent_model_leaves_slots_for_others(setup: EngineSetup) -> None:
    setup.start_worker(*SERVED, "--concurrency", str(SLOTS))
    waiting = [setup.engine.session(slow_models.silent, f"silent-{number}", setup.store) for number in range(5 * SLOTS)]
    for session in waiting:
        await session.say("Hello")

    async def all_slots_are_held() -> bool:
        begun = setup.folder / "silent"
        return begun.exists() and len(begun.read_text().splitlines()) == SLOTS

    await wait_until_true(all_slots_are_held)
    for number in range(SLOTS + 1):
        session = setup.engine.session(slow_models.healthy, f"healthy-{number}", setup.store)
        async with asyncio.timeout(60):
            assert (await session.run("Hello")).text == "Hello!"
    assert await all_slots_are_held()
    (setup.folder / "go").touch()
    for each in waiting:
        await wait_for_status(each, "waiting")


async def test_session_waiting_for_retry_holds_no_slot(setup: EngineSetup) -> None:
    setup.start_worker(*SERVED, "--concurrency", "1")
    waiting = [setup.engine.session(slow_models.limited, f"limited-{number}", setup.store) for number in range(5)]
    for session in waiting:
        await session.say("250")

    async def each_was_tried() -> bool:
        return all([isinstance((await session.refresh()).facts[-1], ModelRequestFailed) for session in waiting])

    await wait_until_true(each_was_tried)


async def test_engine_retries_at_recorded_time(setup: EngineSetup) -> None:
    setup.start_worker(*SERVED)
    session = setup.engine.session(slow_models.limited, "s", setup.store)
    async with asyncio.timeout(60):
        assert (await session.run("1.5")).text == "Hello!"
    attempted, answered = session.facts[-2:]
    assert isinstance(attempted, ModelRequestFailed)
    assert isinstance(answered, ModelReplied)
    assert attempted.retry_at - attempted.at >= 1500
    assert answered.at - answered.duration_ms >= attempted.retry_at
