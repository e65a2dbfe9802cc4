"""A server that may be started after its workers. May know: nothing of engines. Decides: how long a worker looks for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from legato.errors import EngineUnavailable

log = logging.getLogger("legato.worker")

T = TypeVar("T")

PAUSES = (0.2, 0.5, 1, 2, 5, 5, 5, 5, 5)
"""Seconds between attempts. What the last of them is told is raised."""


async def reached(attempt: Callable[[], Coroutine[Any, Any, T]], stop: asyncio.Event) -> T | None:
    """What an attempt gives, once the server answers it; None if the worker is told to stop before that."""
    trying = asyncio.get_running_loop().create_task(_tried(attempt))
    stopping = asyncio.get_running_loop().create_task(stop.wait())
    try:
        await asyncio.wait({trying, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return trying.result() if trying.done() else None
    finally:
        trying.cancel()
        stopping.cancel()
        await asyncio.gather(trying, stopping, return_exceptions=True)


async def _tried(attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
    for pause in PAUSES:
        try:
            return await attempt()
        except EngineUnavailable as error:
            log.warning("%s", error)
            await asyncio.sleep(pause)
    return await attempt()
