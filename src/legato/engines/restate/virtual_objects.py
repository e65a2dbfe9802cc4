"""The virtual objects that Restate calls for sessions.

The virtual object of a session is its single writer. An invocation is one step, and ends when the session is idle.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import restate
from restate.retry_policy import InvocationRetryPolicy

from legato.engines.engine import StepFunction
from legato.engines.retry_policy import NextStep
from legato.engines.step_task import run_step_until_stopped
from legato.errors import StoreError
from legato.runtime.clock import now_ms

MAX_STEP_DURATION = timedelta(days=30)
"""The upper bound that Restate demands. A step lasts as long as the connection of its request."""

INVOCATION_RETRY_POLICY = InvocationRetryPolicy(
    initial_interval=timedelta(seconds=0.2), exponentiation_factor=2.0, max_interval=timedelta(seconds=10), max_attempts=1_000_000
)
"""The retries of steps whose worker died or could not reach the store: for ever, because neither is the session's fault."""


def make_session_object(service: str, run_step: StepFunction, stop: asyncio.Event, concurrency: int, grace: float) -> restate.VirtualObject:
    """Return the virtual object of sessions. Its state is `tries`, which also numbers its timers so that only the newest counts, and
    `parked`."""
    sessions = restate.VirtualObject(
        service,
        inactivity_timeout=MAX_STEP_DURATION,
        abort_timeout=MAX_STEP_DURATION,
        journal_retention=timedelta(0),
        invocation_retry_policy=INVOCATION_RETRY_POLICY,
    )
    semaphore = asyncio.Semaphore(concurrency)

    async def run_limited(session: str, failed: int, broken: int, end_step: asyncio.Event) -> NextStep:
        async with semaphore:
            return await run_step(session, failed, broken, end_step)

    async def run_as_task(session: str, failed: int, broken: int) -> dict[str, Any]:
        try:
            return await run_step_until_stopped(partial(run_limited, session, failed, broken), stop.wait, grace)
        except StoreError as error:
            raise RuntimeError(f"the store: {error.code}") from None

    async def step(ctx: restate.ObjectContext, tries: dict[str, int]) -> None:
        done = await ctx.run_typed("advance", run_as_task, restate.RunOptions(), ctx.key(), tries["failed"], tries["broken"])
        if done["parked"]:
            ctx.set("parked", {"error": done["error"], "since": await ctx.run_typed("now", now_ms)})
            ctx.clear("tries")
        elif done["wait"] is None:
            if any(tries.values()):
                ctx.clear("tries")
        else:
            timer = tries["timer"] + 1
            ctx.set("tries", {"timer": timer, "failed": done["failed"], "broken": done["broken"]})
            ctx.object_send(run, ctx.key(), timer, send_delay=timedelta(seconds=done["wait"]))

    @sessions.handler("advance")
    async def run(ctx: restate.ObjectContext, timer: int) -> None:
        if await ctx.get("parked", type_hint=dict) is not None:
            return
        tries = await ctx.get("tries", type_hint=dict) or {"timer": 0, "failed": 0, "broken": 0}
        if timer in (0, tries["timer"]):  # otherwise a newer timer has replaced this one
            await step(ctx, tries)

    @sessions.handler("retry")
    async def retry(ctx: restate.ObjectContext, _: int) -> None:
        ctx.clear("parked")
        await step(ctx, {"timer": 0, "failed": 0, "broken": 0})

    return sessions
