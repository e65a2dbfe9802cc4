"""The workflow that the workers of these tests serve, each in a process of its own. Its tools record their deeds in a shared folder.

The last message decides: "refund" is a handoff, a tool, an approval and a deferred tool; "slow" is a tool that must not be started twice,
"again" one that may; both run until the folder has a file named `go`. Files named `broken` and `down` make user code raise and the model
fail.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Turn, tool
from legato.core.view import ModelRequest
from legato.errors import ModelFailed
from legato.testing import ScriptedModel, call, handoff

CANARY = "canary-7c1f"
"""A text of the conversation that no engine may get."""


def shared_folder() -> Path:
    """Return the folder in which tools record their deeds."""
    return Path(os.environ["LEGATO_TEST_FOLDER"])


def record_deed(ctx: ToolContext[Any], what: str) -> str:
    """Record a deed of a tool, with process, session, attempt and time."""
    with (shared_folder() / "deeds").open("a") as file:
        file.write(f"{os.getpid()} {ctx.session_id} {what} {ctx.attempt} {time.time()}\n")
    return f"{what} {CANARY}"


async def _wait_for_go_file() -> None:
    while not (shared_folder() / "go").exists():  # noqa: ASYNC110 - another process creates it
        await asyncio.sleep(0.02)


@tool(idempotent=True)
async def look_up(order: str, ctx: ToolContext[Any]) -> str:
    """Look up an order."""
    return record_deed(ctx, "look_up")


@tool(needs_approval=True)
async def refund(order: str, ctx: ToolContext[Any]) -> str:
    """Refund an order."""
    return record_deed(ctx, "refund")


@tool(deferred=True)
async def ship(order: str) -> str:
    """Ship a replacement."""


@tool
async def slow(ctx: ToolContext[Any]) -> str:
    """Do something that must not be done twice."""
    record_deed(ctx, "slow-begun")
    await _wait_for_go_file()
    return record_deed(ctx, "slow")


@tool(idempotent=True)
async def again(ctx: ToolContext[Any]) -> str:
    """Do something that may be done twice."""
    record_deed(ctx, "again-begun")
    await _wait_for_go_file()
    return record_deed(ctx, "again")


def reply(seen: ModelRequest) -> Any:
    """Return the model's reply. It depends on the request alone, so a restart changes nothing."""
    if (shared_folder() / "down").exists():
        raise ModelFailed(f"the provider is overloaded {CANARY}", retryable=True, reason="overloaded")
    last = max(index for index, message in enumerate(seen.messages) if message.role == "user")
    command, since = seen.messages[last].text.split()[0], seen.messages[last + 1 :]
    called = [each.tool for message in since for each in message.calls]
    if command == "refund":
        if "refund" in called:
            return f"Refunded, {CANARY}."
        if seen.agent == "triage":
            return handoff("refunds", CANARY)
        return [call("look_up", order="7"), call("refund", order="7"), call("ship", order="7")]
    if command in ("slow", "again") and command not in called:
        return call(command)
    return f"You said {seen.messages[last].text}"


def provider(turn: Turn) -> str:
    """Raise while the folder has a file `broken`."""
    if (shared_folder() / "broken").exists():
        raise ValueError(f"this is broken {CANARY}")
    return ""


class TimedModel(ScriptedModel):
    """A model that records when each request begins and ends."""

    async def reply(self, request: ModelRequest, emit: Any) -> Any:
        began = time.time()
        try:
            return await super().reply(request, emit)
        finally:
            with (shared_folder() / "calls").open("a") as file:
                file.write(f"{os.getpid()} {request.session_id} {began} {time.time()}\n")


model = TimedModel(reply, delay=float(os.environ.get("LEGATO_TEST_DELAY", "0")))
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
