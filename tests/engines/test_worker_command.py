"""The commands `legato worker dead`, `legato worker retry` and `legato worker wake`."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from tests.engines.conftest import EngineSetup
from tests.engines.desk import desk
from tests.engines.waits import wait_for_status, wait_until_true


def legato(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a `legato` command."""
    return subprocess.run([sys.executable, "-m", "legato.cli", *words], capture_output=True, text=True, timeout=30)


async def test_parked_session_is_listed_and_retried(setup: EngineSetup) -> None:
    (setup.folder / "broken").touch()
    setup.start_worker()
    session = setup.engine.session(desk, "customer-7", setup.store)
    await session.say("hello")

    async def listed() -> str:
        return (await asyncio.to_thread(legato, "worker", "dead", "--engine", setup.engine_url)).stdout

    await wait_until_true(listed)
    assert "customer-7" in await listed()
    assert "ValueError at desk.py" in await listed()
    (setup.folder / "broken").unlink()
    assert legato("worker", "retry", "--all", "--engine", setup.engine_url).stdout == "retried customer-7\n"
    await wait_for_status(session, "waiting")

    async def none() -> bool:
        return not await listed()

    await wait_until_true(none)


async def test_wake_command_wakes_a_session(setup: EngineSetup) -> None:
    setup.start_worker("--sweep", "600")
    woken = desk.session("customer-8", store=setup.store)
    await woken.say("hello")
    where = ("--engine", setup.engine_url, "--store", setup.store_url)
    assert "no session 'customer-9'" in legato("worker", "wake", "customer-9", *where).stderr
    assert "none has failed" in legato("worker", "wake", "--failed", *where).stderr
    assert legato("worker", "wake", "customer-8", *where).stdout == "woke customer-8\n"
    await wait_for_status(setup.engine.session(desk, "customer-8", setup.store), "waiting")
