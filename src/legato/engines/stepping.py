"""A step as an engine asks for it. May know: asyncio. Decides: how a step ends when its worker ends, or when nobody wants it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import Any

from legato.engines.pace import Step


async def ended_in_time(
    advance: Callable[[asyncio.Event], Coroutine[Any, Any, Step]], stopping: Callable[[], Coroutine[Any, Any, Any]], grace: float
) -> dict[str, Any]:
    """What a step leads to, as plain data. What `advance` is given is set when it should come to its end; then it has `grace` seconds.

    That is when `stopping` is over: the worker ends. And when this is cancelled: the engine has given the step to another worker, or is
    gone. `RuntimeError` if the worker ends before the step has: whoever makes it next does the rest.
    """
    leave = asyncio.Event()
    driving = asyncio.get_running_loop().create_task(advance(leave))

    async def end() -> None:
        await stopping()
        leave.set()
        await asyncio.sleep(grace)
        driving.cancel()

    ending = asyncio.get_running_loop().create_task(end())
    try:
        return asdict(await asyncio.shield(driving))
    except asyncio.CancelledError:
        if driving.cancelled():
            raise RuntimeError("this worker ends, and had no time to finish the step") from None
        leave.set()
        await asyncio.wait({driving}, timeout=grace)
        driving.cancel()
        raise
    finally:
        ending.cancel()
