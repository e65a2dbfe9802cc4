"""A step as a task of an engine's SDK: how it ends when the worker stops, or when the engine cancels it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import Any

from legato.engines.retry_policy import NextStep


async def run_step_until_stopped(
    run_step: Callable[[asyncio.Event], Coroutine[Any, Any, NextStep]], wait_for_stop: Callable[[], Coroutine[Any, Any, Any]], grace: float
) -> dict[str, Any]:
    """Run a step and return its next action as plain data. The event that `run_step` gets ends the step; then it has `grace` seconds.

    The event is set when `wait_for_stop` returns: the worker stops. It is also set when this task is cancelled: the engine has given the
    step to another worker, or is gone. Raises `RuntimeError` if the worker stops before the step has ended: the next step does the rest.
    """
    end_step = asyncio.Event()
    stepping = asyncio.get_running_loop().create_task(run_step(end_step))

    async def stop() -> None:
        await wait_for_stop()
        end_step.set()
        await asyncio.sleep(grace)
        stepping.cancel()

    stopping = asyncio.get_running_loop().create_task(stop())
    try:
        return asdict(await asyncio.shield(stepping))
    except asyncio.CancelledError:
        if stepping.cancelled():
            raise RuntimeError("the worker stopped before the step was finished") from None
        end_step.set()
        await asyncio.wait({stepping}, timeout=grace)
        stepping.cancel()
        raise
    finally:
        stopping.cancel()
