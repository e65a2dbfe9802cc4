"""Waiting for what other processes do. They cannot tell this one, so it looks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from legato.engines import Submitted
from tests.engines.servers import deeds


async def eventually(condition: Callable[[], Awaitable[object]], seconds: float = 60, what: Callable[[], object] | None = None) -> None:
    """Wait for something to come true; complain if it does not."""
    try:
        async with asyncio.timeout(seconds):
            while not await condition():  # noqa: ASYNC110 - what it waits for happens in another process
                await asyncio.sleep(0.03)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what() if what else condition}") from None


async def rests(session: Submitted, how: str, seconds: float = 60) -> Submitted:
    """Wait until workers have brought the session to rest so."""

    async def so() -> bool:
        return (await session.refresh()).status == how

    await eventually(so, seconds, lambda: f"{session.id} is {session.status}, not {how}")
    return session


async def done(folder: Path, *what: str, seconds: float = 60) -> list[list[str]]:
    """Wait until tools have done these things, in this order and no others."""

    async def so() -> bool:
        return [deed[2] for deed in deeds(folder)] == list(what)

    await eventually(so, seconds, lambda: f"expected {what}, found {deeds(folder)}")
    return deeds(folder)
