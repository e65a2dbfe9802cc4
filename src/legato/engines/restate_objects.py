"""What Restate calls for a session. May know: Restate's handlers. Decides: nothing that the worker's step has not decided.

A virtual object per session is its single writer; an invocation is one step, and ends whenever the session rests.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import restate
from restate.retry_policy import InvocationRetryPolicy

from legato.engines.contract import Advance
from legato.engines.pace import Step
from legato.engines.stepping import ended_in_time
from legato.errors import StoreError
from legato.runtime.clock import now_ms

LONGEST_STEP = timedelta(days=30)
"""A step lasts as long as the connection on which it was asked for; Restate wants an upper bound all the same."""

PATIENCE = InvocationRetryPolicy(
    initial_interval=timedelta(seconds=0.2), exponentiation_factor=2.0, max_interval=timedelta(seconds=10), max_attempts=1_000_000
)
"""For steps whose worker died, or could not reach the store: for ever, since neither is the session's fault."""


def sessions_of(service: str, advance: Advance, stop: asyncio.Event, at_once: int, grace: float) -> restate.VirtualObject:
    """The virtual object. Its state: `tries`, which also number its timers so that the newest counts; and `parked`."""
    sessions = restate.VirtualObject(
        service,
        inactivity_timeout=LONGEST_STEP,
        abort_timeout=LONGEST_STEP,
        journal_retention=timedelta(0),
        invocation_retry_policy=PATIENCE,
    )
    places = asyncio.Semaphore(at_once)

    async def in_its_turn(session: str, failed: int, broken: int, leave: asyncio.Event) -> Step:
        async with places:
            return await advance(session, failed, broken, leave)

    async def made(session: str, failed: int, broken: int) -> dict[str, Any]:
        try:
            return await ended_in_time(partial(in_its_turn, session, failed, broken), stop.wait, grace)
        except StoreError as error:
            raise RuntimeError(f"the store: {error.code}") from None

    async def step(ctx: restate.ObjectContext, tries: dict[str, int]) -> None:
        done = await ctx.run_typed("advance", made, restate.RunOptions(), ctx.key(), tries["failed"], tries["broken"])
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
        if timer in (0, tries["timer"]):  # else a timer that a later one has replaced
            await step(ctx, tries)

    @sessions.handler("retry")
    async def retry(ctx: restate.ObjectContext, _: int) -> None:
        ctx.clear("parked")
        await step(ctx, {"timer": 0, "failed": 0, "broken": 0})

    return sessions
