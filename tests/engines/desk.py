"""The desk that workers of these tests serve, each in a process of its own. What its tools do they write into a folder.

What happens follows from the last message: "refund" is a handoff, a tool, an approval and a deferred tool; "slow" a tool that may not be
started twice, "again" one that may; both run until the folder has a file named `go`. Files named `broken` and `down` make user code
raise and the model fail.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Turn, tool
from legato.core.view import Request
from legato.errors import ModelFailed
from legato.testing import ScriptedModel, call, handoff

CANARY = "canary-7c1f"
"""A word of the conversation that no engine may be told."""


def folder() -> Path:
    """Where the tools of this process write."""
    return Path(os.environ["LEGATO_TEST_FOLDER"])


def did(ctx: ToolContext[Any], what: str) -> str:
    """Write down a deed: who did what, when, for which call."""
    with (folder() / "deeds").open("a") as file:
        file.write(f"{os.getpid()} {ctx.session_id} {what} {ctx.attempt} {time.time()}\n")
    return f"{what} {CANARY}"


async def _until_go() -> None:
    while not (folder() / "go").exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.02)


@tool(idempotent=True)
async def look_up(order: str, ctx: ToolContext[Any]) -> str:
    """Look up an order."""
    return did(ctx, "look_up")


@tool(needs_approval=True)
async def refund(order: str, ctx: ToolContext[Any]) -> str:
    """Refund an order."""
    return did(ctx, "refund")


@tool(deferred=True)
async def ship(order: str) -> str:
    """Ship a replacement."""


@tool
async def slow(ctx: ToolContext[Any]) -> str:
    """Something that may not be done twice."""
    did(ctx, "slow-begun")
    await _until_go()
    return did(ctx, "slow")


@tool(idempotent=True)
async def again(ctx: ToolContext[Any]) -> str:
    """Something that may be done twice."""
    did(ctx, "again-begun")
    await _until_go()
    return did(ctx, "again")


def reply(seen: Request) -> Any:
    """What the model says: it follows from what it sees, so a restart changes nothing."""
    if (folder() / "down").exists():
        raise ModelFailed(f"the provider is overloaded {CANARY}", retryable=True, reason="overloaded")
    last = max(index for index, message in enumerate(seen.messages) if message.role == "user")
    asked, since = seen.messages[last].text.split()[0], seen.messages[last + 1 :]
    done = [each.tool for message in since for each in message.calls]
    if asked == "refund":
        if "refund" in done:
            return f"Refunded, {CANARY}."
        if seen.agent == "triage":
            return handoff("refunds", CANARY)
        return [call("look_up", order="7"), call("refund", order="7"), call("ship", order="7")]
    if asked in ("slow", "again") and asked not in done:
        return call(asked)
    return f"You said {seen.messages[last].text}"


def provider(turn: Turn) -> str:
    """User code that raises while the folder says so."""
    if (folder() / "broken").exists():
        raise ValueError(f"this is broken {CANARY}")
    return ""


class Timed(ScriptedModel):
    """Writes down when each call begins and ends."""

    async def reply(self, request: Request, emit: Any) -> Any:
        began = time.time()
        try:
            return await super().reply(request, emit)
        finally:
            with (folder() / "calls").open("a") as file:
                file.write(f"{os.getpid()} {request.session} {began} {time.time()}\n")


model = Timed(reply, delay=float(os.environ.get("LEGATO_TEST_DELAY", "0")))
desk = (
    HandoffBuilder(
        "desk",
        [
            Agent("triage", model=model, tools=[slow, again], context_providers=[provider]),
            Agent("refunds", model=model, tools=[look_up, refund, ship], context_providers=[provider]),
        ],
    )
    .with_next_turn("start")
    .with_model_attempts(1)
    .build()
)
