"""The workflow of chaos runs. The user's last message decides what happens, so a restart changes nothing:

    "m07 billing pay look"    message 7: the agent in control hands off to `billing`, which calls `pay` and `look` in parallel

`look` may be started again without asking; `pay` and `refund` may not; `refund` needs approval; `ship` is deferred. Everything takes some
milliseconds, and now and then a second, so that faults interrupt running work.
"""

from __future__ import annotations

import asyncio
import uuid
from random import Random
from typing import Any

from msgspec.structs import replace

from legato import Agent, HandoffBuilder, ToolContext, tool
from legato.core.groups import AssistantEntry, Entry, UserEntry
from legato.core.messages import render_content
from legato.core.view import ModelRequest
from legato.models.model import Emit, ModelReply
from legato.testing import call, handoff
from legato.testing.scripted_models import make_reply
from tests.chaos import activity_log

AGENTS = ("triage", "billing", "parcels")
NON_IDEMPOTENT_TOOLS = frozenset({"pay", "refund"})
"""The tools that must not be started twice."""


async def run_tool(ctx: ToolContext[Any], order: str) -> str:
    """Log the start of a tool, wait for a random time, log its end."""
    name, number = ctx.call.tool, uuid.uuid4().hex
    activity_log.write_line(
        what="begin", kind="tool", id=number, name=name, session=ctx.session_id, key=ctx.idempotency_key, attempt=ctx.attempt, order=order
    )
    dice = Random(number)
    await asyncio.sleep(dice.choice((0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.5)))
    output = f"{name} {order} {number[:8]}"
    activity_log.write_line(what="end", id=number, key=ctx.idempotency_key, output=output)
    return output


@tool(idempotent=True)
async def look(order: str, ctx: ToolContext[Any]) -> str:
    """Look up an order."""
    return await run_tool(ctx, order)


@tool
async def pay(order: str, ctx: ToolContext[Any]) -> str:
    """Pay for an order."""
    return await run_tool(ctx, order)


@tool(needs_approval=True)
async def refund(order: str, ctx: ToolContext[Any]) -> str:
    """Refund an order."""
    return await run_tool(ctx, order)


@tool(deferred=True)
async def ship(order: str) -> str:
    """Ship a replacement."""


def make_entry_token(entry: Entry) -> str:
    """Return a short token of a request's entry: its kind and its position in the ledger."""
    if isinstance(entry, UserEntry):
        return f"s{entry.position}" if entry.synthetic else f"u{entry.position}={render_content(entry.content).split(' ')[0]}"
    return f"r{entry.position}" if isinstance(entry, AssistantEntry) else f"o{entry.ref}"


def answer(seen: ModelRequest) -> Any:
    """Return the model's reply."""
    last = max(index for index, message in enumerate(seen.messages) if message.role == "user")
    number, agent, *tools = seen.messages[last].text.split()
    if seen.agent != agent:
        return [f"{agent} knows that.", handoff(agent, number)]
    called = {each.tool for message in seen.messages[last + 1 :] for each in message.calls}
    missing = [each for each in tools if each not in called]
    return [call(each, order=f"{number}-{each}") for each in missing] if missing else f"done {number}"


class LoggingModel:
    """A model that logs its requests, and gives each reply an id."""

    name = "writing"

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        number = uuid.uuid4().hex
        tokens = " ".join(make_entry_token(entry) for entry in request.entries)
        activity_log.write_line(
            what="begin", kind="model", id=number, name=request.agent, session=request.session_id, upto=request.upto, tokens=tokens
        )
        await asyncio.sleep(Random(number).choice((0.001, 0.005, 0.02, 0.05)))
        reply = replace(make_reply(answer(request), request), response_id=number)
        activity_log.write_line(what="end", id=number)
        return reply


def make_user_messages(seed: int, session: str, turns: int) -> list[str]:
    """Return the messages of the user of a conversation."""
    dice = Random(f"{seed} {session}")
    messages = []
    for number in range(turns):
        tools = dice.choices(
            ([], ["look"], ["pay"], ["look", "pay"], ["refund"], ["ship"], ["pay", "refund", "look"], ["ship", "pay"]),
            (6, 4, 4, 2, 2, 1, 1, 1),
        )[0]
        messages.append(" ".join([f"m{number:02}", dice.choice(AGENTS), *tools]))
    return messages


_tools = [look, pay, refund, ship]
desk = HandoffBuilder("desk", [Agent(name, model=LoggingModel(), tools=_tools) for name in AGENTS]).build()
