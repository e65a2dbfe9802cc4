"""Retries of a connection to a server that may be started after its workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from legato.errors import EngineUnavailable

log = logging.getLogger("legato.worker")

T = TypeVar("T")

RETRY_DELAYS_S = (0.2, 0.5, 1, 2, 5, 5, 5, 5, 5)
"""The delays between attempts. The error of the last attempt is raised."""


async def connect_with_retries(connect: Callable[[], Coroutine[Any, Any, T]], stop: asyncio.Event) -> T | None:
    """Return the result of `connect`, once the server answers; None if `stop` is set before that."""
    connecting = asyncio.get_running_loop().create_task(_retry_connect(connect))
    stopping = asyncio.get_running_loop().create_task(stop.wait())
    try:
        await asyncio.wait({connecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return connecting.result() if connecting.done() else None
    finally:
        connecting.cancel()
        stopping.cancel()
        await asyncio.gather(connecting, stopping, return_exceptions=True)


async def _retry_connect(connect: Callable[[], Coroutine[Any, Any, T]]) -> T:
    for delay in RETRY_DELAYS_S:
        try:
            return await connect()
        except EngineUnavailable as error:
            log.warning("%s", error)
            await asyncio.sleep(delay)
    return await connect()
