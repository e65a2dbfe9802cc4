"""What people type: `legato worker`, `legato worker dead`, `legato worker retry`."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from tests.engines.conftest import Place
from tests.engines.desk import desk
from tests.engines.test_workers import rests


def legato(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run([sys.executable, "-m", "legato.cli", *words], capture_output=True, text=True, timeout=30)


async def test_what_was_set_aside_is_listed_with_its_error_and_retried_from_the_command_line(place: Place) -> None:
    (place.folder / "broken").touch()
    place.worker()
    session = place.engine.session(desk, "customer-7", place.store)
    await session.say("hello")
    async with asyncio.timeout(20):
        while "customer-7" not in (listed := legato("worker", "dead", "--engine", place.address)).stdout:
            await asyncio.sleep(0.2)
    assert "ValueError at desk.py" in listed.stdout
    assert "1 set aside" in listed.stderr
    (place.folder / "broken").unlink()
    assert legato("worker", "retry", "--all", "--engine", place.address).stdout == "retried customer-7\n"
    await rests(session, "waiting")
    async with asyncio.timeout(10):
        while "none was set aside" not in legato("worker", "dead", "--engine", place.address).stderr:
            await asyncio.sleep(0.2)
