"""Waits for other processes, by polling."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from legato.engines import EngineSession
from tests.engines.servers import read_deeds


async def wait_until_true(
    condition: Callable[[], Awaitable[object]], seconds: float = 60, what: Callable[[], object] | None = None
) -> None:
    """Wait until a condition is true; raise if it is not in time."""
    try:
        async with asyncio.timeout(seconds):
            while not await condition():  # noqa: ASYNC110 - another process makes it true
                await asyncio.sleep(0.03)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what() if what else condition}") from None


async def wait_for_status(session: EngineSession, how: str, seconds: float = 60) -> EngineSession:
    """Wait until a session has this status."""

    async def so() -> bool:
        return (await session.refresh()).status == how

    await wait_until_true(so, seconds, lambda: f"{session.id} is {session.status}, not {how}")
    return session


async def wait_for_deeds(folder: Path, *what: str, seconds: float = 60) -> list[list[str]]:
    """Wait until tools have recorded exactly these deeds, in this order."""

    async def so() -> bool:
        return [deed[2] for deed in read_deeds(folder)] == list(what)

    await wait_until_true(so, seconds, lambda: f"expected {what}, found {read_deeds(folder)}")
    return read_deeds(folder)
