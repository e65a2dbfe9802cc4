"""What people type: `legato worker`, `legato worker dead`, `legato worker retry`."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from tests.engines.conftest import Place
from tests.engines.desk import desk
from tests.engines.waiting import eventually, rests


def legato(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run([sys.executable, "-m", "legato.cli", *words], capture_output=True, text=True, timeout=30)


async def test_what_was_set_aside_is_listed_with_its_error_and_retried_from_the_command_line(place: Place) -> None:
    (place.folder / "broken").touch()
    place.worker()
    session = place.engine.session(desk, "customer-7", place.store)
    await session.say("hello")

    async def listed() -> str:
        return (await asyncio.to_thread(legato, "worker", "dead", "--engine", place.address)).stdout

    await eventually(listed)
    assert "customer-7" in await listed()
    assert "ValueError at desk.py" in await listed()
    (place.folder / "broken").unlink()
    assert legato("worker", "retry", "--all", "--engine", place.address).stdout == "retried customer-7\n"
    await rests(session, "waiting")

    async def none() -> bool:
        return not await listed()

    await eventually(none)


async def test_a_session_that_nobody_woke_is_woken_from_the_command_line(place: Place) -> None:
    place.worker("--sweep", "600")
    woken = desk.session("customer-8", store=place.store)
    await woken.say("hello")
    where = ("--engine", place.address, "--store", place.store_address)
    assert "no session 'customer-9'" in legato("worker", "wake", "customer-9", *where).stderr
    assert "none has failed" in legato("worker", "wake", "--failed", *where).stderr
    assert legato("worker", "wake", "customer-8", *where).stdout == "woke customer-8\n"
    await rests(place.engine.session(desk, "customer-8", place.store), "waiting")
